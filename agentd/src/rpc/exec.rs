//! `ExecService`.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self as pb, exec_service_server::ExecService};
use agentd_sandbox::{monitor::StopReason, policy::Caller};
use tonic::{Request, Response, Status};

use super::{
    Daemon, convert, encode, peer,
    seat::Placed,
    status::Problem,
    stream::{self, Responses},
};
use crate::exec::{Exec, ExecState, Reader};

/// Longest answer to Wait; the client asks again.
const MAX_WAIT: Duration = Duration::from_secs(60);

const MAX_PAGE: usize = 1000;
const DEFAULT_PAGE: usize = 100;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Execs(pub(super) Arc<Daemon>);

impl Execs {
    fn spec<T>(&self, request: &Request<T>, spec: Option<pb::ExecSpec>) -> Result<Placed, Problem> {
        let asker = self.0.asker(request)?;
        let spec = spec.ok_or_else(|| Problem::invalid("'spec' is required"))?;
        self.0.place(asker, spec)
    }

    /// Submits, and reads from the start. The reader comes before the command can have ended, so that
    /// a policy of ending a command without readers never hits one whose reader is on its way.
    async fn run_spec(&self, placed: Placed) -> Result<Reader, Problem> {
        let (exec, _) = self.0.submit(placed)?;
        let reader = Reader::new(&exec, 0);
        self.0.executor.started(&exec).await?;
        Ok(reader)
    }

    fn find(&self, caller: Caller, id: &str) -> Result<Arc<Exec>, Problem> {
        self.0
            .executor
            .registry()
            .get(caller, id)
            .ok_or_else(|| Problem::unknown_exec(&crate::text::neutralise(id)))
    }

    fn wire(&self, exec: &Exec) -> pb::Exec {
        encode::exec(exec, &self.0.identity.boot_id)
    }
}

#[tonic::async_trait]
impl ExecService for Execs {
    type RunStream = Responses<pb::RunResponse>;
    type AttachStream = Responses<pb::AttachResponse>;

    async fn start(
        &self,
        mut request: Request<pb::StartRequest>,
    ) -> Result<Response<pb::StartResponse>, Status> {
        let wire = request.get_mut().spec.take();
        let spec = self.spec(&request, wire)?;
        let (exec, created) = self.0.submit(spec)?;
        self.0
            .executor
            .started(&exec)
            .await
            .map_err(Problem::from)?;
        Ok(Response::new(pb::StartResponse {
            exec: Some(self.wire(&exec)),
            created,
        }))
    }

    async fn run(
        &self,
        mut request: Request<pb::RunRequest>,
    ) -> Result<Response<Self::RunStream>, Status> {
        let wire = request.get_mut().spec.take();
        let spec = self.spec(&request, wire)?;
        let reader = self.run_spec(spec).await?;
        let encode = |id: &str, item| pb::RunResponse {
            event: Some(encode::item(id, item)),
        };
        Ok(Response::new(stream::follow(reader, encode, |_| None)))
    }

    async fn attach(
        &self,
        request: Request<pb::AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        if ask.strict && exec.is_dropped_after(ask.after_seq) {
            return Err(Problem::cursor_expired().into());
        }
        let reader = Reader::new(&exec, ask.after_seq);
        let encode = |id: &str, item| pb::AttachResponse {
            event: Some(encode::item(id, item)),
        };
        Ok(Response::new(stream::follow(reader, encode, |_| None)))
    }

    async fn read_output(
        &self,
        _: Request<pb::ReadOutputRequest>,
    ) -> Result<Response<pb::ReadOutputResponse>, Status> {
        Err(Problem::unimplemented("ExecService.ReadOutput").into())
    }

    async fn wait(
        &self,
        request: Request<pb::WaitRequest>,
    ) -> Result<Response<pb::WaitResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        let patience = match ask.wait {
            Some(wait) => convert::duration("wait", wait)?.min(MAX_WAIT),
            None => MAX_WAIT,
        };
        let _presence = exec.presence();
        // Running out of patience is an answer: the execution as it stands.
        drop(tokio::time::timeout(patience, exec.ended()).await);
        Ok(Response::new(pb::WaitResponse {
            exec: Some(self.wire(&exec)),
        }))
    }

    async fn get(
        &self,
        request: Request<pb::GetExecRequest>,
    ) -> Result<Response<pb::GetExecResponse>, Status> {
        let caller = peer::caller(&request)?;
        let exec = self.find(caller, &request.get_ref().exec_id)?;
        Ok(Response::new(pb::GetExecResponse {
            exec: Some(self.wire(&exec)),
        }))
    }

    async fn list(
        &self,
        request: Request<pb::ListExecsRequest>,
    ) -> Result<Response<pb::ListExecsResponse>, Status> {
        let caller = peer::caller(&request)?;
        let page = Page::of(request.get_ref())?;
        let execs = self.0.executor.registry().list(caller);
        let mut matching = execs.iter().filter(|exec| page.matches(exec)).peekable();
        let mut found: Vec<&Arc<Exec>> = Vec::new();
        while found.len() < page.size
            && let Some(exec) = matching.next()
        {
            found.push(exec);
        }
        let more = matching.peek().is_some();
        let last = found.last().filter(|_| more);
        Ok(Response::new(pb::ListExecsResponse {
            next_page_token: last
                .map(|exec| exec.key().0.to_string())
                .unwrap_or_default(),
            execs: found.iter().map(|exec| self.wire(exec)).collect(),
        }))
    }

    async fn write_stdin(
        &self,
        _: Request<pb::WriteStdinRequest>,
    ) -> Result<Response<pb::WriteStdinResponse>, Status> {
        Err(Problem::unimplemented("ExecService.WriteStdin").into())
    }

    async fn signal(
        &self,
        _: Request<pb::SignalRequest>,
    ) -> Result<Response<pb::SignalResponse>, Status> {
        Err(Problem::unimplemented("ExecService.Signal").into())
    }

    async fn terminate(
        &self,
        request: Request<pb::TerminateRequest>,
    ) -> Result<Response<pb::TerminateResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        let grace = ask
            .grace
            .map(|grace| convert::duration("grace", grace))
            .transpose()?;
        let outcome = match exec.state() {
            ExecState::Ended | ExecState::NotStarted(_) => pb::TerminateOutcome::AlreadyExited,
            ExecState::Starting | ExecState::Running => {
                let grace_ms = grace.map(|g| u64::try_from(g.as_millis()).unwrap_or(u64::MAX));
                exec.request_stop(StopReason::Cancelled, grace_ms);
                exec.ended().await;
                pb::TerminateOutcome::Killed
            }
        };
        Ok(Response::new(pb::TerminateResponse {
            outcome: outcome.into(),
            exec: Some(self.wire(&exec)),
        }))
    }

    async fn resize_pty(
        &self,
        _: Request<pb::ResizePtyRequest>,
    ) -> Result<Response<pb::ResizePtyResponse>, Status> {
        Err(Problem::unimplemented("ExecService.ResizePty").into())
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteExecRequest>,
    ) -> Result<Response<pb::DeleteExecResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        let over = matches!(exec.state(), ExecState::Ended | ExecState::NotStarted(_));
        if !over && !ask.force {
            return Err(Problem::still_running(exec.id().as_str()).into());
        }
        if !over {
            exec.request_stop(StopReason::Cancelled, None);
            exec.ended().await;
        }
        self.0.executor.registry().forget(&exec);
        Ok(Response::new(pb::DeleteExecResponse {}))
    }
}

/// A page of a list.
struct Page {
    size: usize,
    after: u64,
    state: Option<pb::ExecState>,
    session: String,
}

impl Page {
    fn of(ask: &pb::ListExecsRequest) -> Result<Self, Problem> {
        let size = match usize::try_from(ask.page_size).unwrap_or(usize::MAX) {
            0 => DEFAULT_PAGE,
            size => size.min(MAX_PAGE),
        };
        let after = match ask.page_token.as_str() {
            "" => 0,
            token => token
                .parse()
                .ok()
                .ok_or_else(|| Problem::invalid("'page_token' is not one of this daemon's"))?,
        };
        let state = pb::ExecState::try_from(ask.state)
            .ok()
            .ok_or_else(|| Problem::invalid("'state' is not a state that this daemon knows"))?;
        Ok(Self {
            size,
            after,
            state: (state != pb::ExecState::Unspecified).then_some(state),
            session: ask.session_id.clone(),
        })
    }

    fn matches(&self, exec: &Exec) -> bool {
        let state = match exec.state() {
            ExecState::Starting => pb::ExecState::Queued,
            ExecState::Running => pb::ExecState::Running,
            ExecState::Ended | ExecState::NotStarted(_) => pb::ExecState::Ended,
        };
        let is_in_it = self.session.is_empty() || exec.session_id() == Some(&self.session);
        is_in_it && exec.key().0 > self.after && self.state.is_none_or(|wanted| wanted == state)
    }
}
