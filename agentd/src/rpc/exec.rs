//! `ExecService`.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self as pb, exec_service_server::ExecService};
use agentd_sandbox::{monitor::StopReason, policy::Caller};
use tonic::{Request, Response, Status};

use super::{
    Daemon, attached, convert, encode,
    page::Page,
    peer,
    seat::Placed,
    status::Problem,
    stream::{self, Responses},
};
use crate::exec::{Exec, ExecId, ExecState, Reader};

/// Longest answer to Wait; the client asks again.
const MAX_WAIT: Duration = Duration::from_secs(60);

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

    pub(super) fn find(&self, caller: Caller, id: &str) -> Result<Arc<Exec>, Problem> {
        let registry = self.0.executor.registry();
        registry.get(caller, id).ok_or_else(|| {
            let text = crate::text::neutralise(id);
            let boot_id = registry.boot_id();
            match ExecId::parse(id) {
                Some(id) if id.is_of_another_boot(boot_id) => Problem::restarted(&text, boot_id),
                Some(_) | None => Problem::unknown_exec(&text),
            }
        })
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
        Ok(Response::new(stream::follow(
            reader,
            encode,
            stream::nothing,
        )))
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
        Ok(Response::new(stream::follow(
            reader,
            encode,
            stream::nothing,
        )))
    }

    async fn read_output(
        &self,
        request: Request<pb::ReadOutputRequest>,
    ) -> Result<Response<pb::ReadOutputResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        Ok(Response::new(attached::read_output(&exec, ask).await?))
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
        Ok(Response::new(page.fill(&execs, |exec| self.wire(exec))))
    }

    async fn write_stdin(
        &self,
        request: Request<pb::WriteStdinRequest>,
    ) -> Result<Response<pb::WriteStdinResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        Ok(Response::new(attached::write_stdin(&exec, ask).await?))
    }

    async fn signal(
        &self,
        request: Request<pb::SignalRequest>,
    ) -> Result<Response<pb::SignalResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        Ok(Response::new(attached::signal(&exec, ask).await?))
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
        let over = matches!(exec.state(), ExecState::Ended | ExecState::NotStarted(_));
        if !over {
            let grace_ms = grace.map(|g| u64::try_from(g.as_millis()).unwrap_or(u64::MAX));
            exec.request_stop(StopReason::Cancelled, grace_ms);
            exec.ended().await;
        }
        // Without a result nothing was ever started.
        let proven = exec.result().is_none_or(|result| result.proven);
        let outcome = match (over, proven) {
            (true, _) => pb::TerminateOutcome::AlreadyExited,
            (false, true) => pb::TerminateOutcome::Killed,
            (false, false) => pb::TerminateOutcome::Unproven,
        };
        Ok(Response::new(pb::TerminateResponse {
            outcome: outcome.into(),
            exec: Some(self.wire(&exec)),
        }))
    }

    async fn resize_pty(
        &self,
        request: Request<pb::ResizePtyRequest>,
    ) -> Result<Response<pb::ResizePtyResponse>, Status> {
        let caller = peer::caller(&request)?;
        let ask = request.into_inner();
        let exec = self.find(caller, &ask.exec_id)?;
        Ok(Response::new(attached::resize_pty(&exec, ask).await?))
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
