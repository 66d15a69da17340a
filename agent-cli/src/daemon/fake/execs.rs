//! Commands of the fake: all of them say the same, and their streams are cut where a test says.

use std::sync::atomic::Ordering;

use agentd_proto::v1::{self, exec_service_server::ExecService};
use tonic::{Request, Response, Status};

use super::{Answer, Events, Fake, How, events, unused};

#[tonic::async_trait]
impl ExecService for Fake {
    type RunStream = Events<v1::RunResponse>;
    type AttachStream = Events<v1::AttachResponse>;

    async fn run(&self, request: Request<v1::RunRequest>) -> Answer<Self::RunStream> {
        let spec = request.into_inner().spec.unwrap();
        self.same_boot(&spec.expected_boot_id)?;
        self.session(&spec.session_id)?;
        self.begin(&spec.exec_id);
        let wrap = |event| v1::RunResponse { event: Some(event) };
        Ok(Response::new(
            self.stream(events().into_iter().map(wrap).collect()),
        ))
    }

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Answer<Self::AttachStream> {
        let request = request.into_inner();
        self.known(&request.exec_id)?;
        let wrap = |event| v1::AttachResponse { event: Some(event) };
        let left = events().into_iter();
        let left = left.filter(|event| event.seq > request.after_seq);
        Ok(Response::new(self.stream(left.map(wrap).collect())))
    }

    async fn get(&self, request: Request<v1::GetExecRequest>) -> Answer<v1::GetExecResponse> {
        self.known(&request.into_inner().exec_id)?;
        Ok(Response::new(v1::GetExecResponse::default()))
    }

    /// Does not know the command the first time: the order was faster than the call.
    async fn terminate(&self, _: Request<v1::TerminateRequest>) -> Answer<v1::TerminateResponse> {
        let first = self.0.terminate.fetch_add(1, Ordering::Relaxed) == 0;
        if first || self.0.knows_nothing.load(Ordering::Relaxed) {
            return Err(Status::not_found("no such execution"));
        }
        self.0.stop.notify_one();
        Ok(Response::new(v1::TerminateResponse::default()))
    }

    /// Takes at most three bytes at once, and now and then breaks after it has taken them.
    async fn write_stdin(
        &self,
        request: Request<v1::WriteStdinRequest>,
    ) -> Answer<v1::WriteStdinResponse> {
        let request = request.into_inner();
        let mut stdin = self.0.stdin.lock().unwrap();
        let at = u64::try_from(stdin.0.len()).unwrap();
        assert!(request.offset <= at, "a hole");
        let known = usize::try_from(at.saturating_sub(request.offset)).unwrap();
        let new = request.data.get(known..).unwrap_or_default();
        stdin.0.extend(new.iter().take(3));
        stdin.1 |= request.eof;
        if let Some((_, How::Reset)) = self.0.cuts.lock().unwrap().pop_front() {
            self.0.breaks.notify_waiters();
        }
        Ok(Response::new(v1::WriteStdinResponse {
            accepted_offset: u64::try_from(stdin.0.len()).unwrap(),
            closed: stdin.1,
        }))
    }

    async fn read_output(
        &self,
        _: Request<v1::ReadOutputRequest>,
    ) -> Answer<v1::ReadOutputResponse> {
        unused()
    }

    async fn start(&self, request: Request<v1::StartRequest>) -> Answer<v1::StartResponse> {
        let spec = request.into_inner().spec.unwrap();
        self.same_boot(&spec.expected_boot_id)?;
        self.begin(&spec.exec_id);
        Ok(Response::new(v1::StartResponse {
            exec: Some(v1::Exec::default()),
            created: true,
        }))
    }

    /// Breaks the protocol: an end without a result.
    async fn wait(&self, _: Request<v1::WaitRequest>) -> Answer<v1::WaitResponse> {
        let exec = v1::Exec {
            state: v1::ExecState::Ended.into(),
            ..v1::Exec::default()
        };
        Ok(Response::new(v1::WaitResponse { exec: Some(exec) }))
    }

    async fn list(&self, _: Request<v1::ListExecsRequest>) -> Answer<v1::ListExecsResponse> {
        unused()
    }

    async fn signal(&self, _: Request<v1::SignalRequest>) -> Answer<v1::SignalResponse> {
        unused()
    }

    async fn resize_pty(&self, _: Request<v1::ResizePtyRequest>) -> Answer<v1::ResizePtyResponse> {
        unused()
    }

    async fn delete(&self, _: Request<v1::DeleteExecRequest>) -> Answer<v1::DeleteExecResponse> {
        unused()
    }
}
