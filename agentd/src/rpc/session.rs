//! `SessionService`.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self as pb, session_service_server::SessionService};
use tonic::{Request, Response, Status};

use super::{
    Daemon,
    convert::{self, Asker},
    encode, features,
    seat::jail_of,
    status::Problem,
};
use crate::session::{DEFAULT_LEASE, MAX_LEASE, Session, SessionId, SessionSpec};

/// Shortest lease: a shorter one would end a session between two calls.
const MIN_LEASE: Duration = Duration::from_secs(1);

/// Most bytes of a session's environment: as many as can be carried from command to command, less what
/// its encoding takes.
const MAX_ENV: usize = 16 * 1024;

const MAX_PAGE: usize = 1000;
const DEFAULT_PAGE: usize = 100;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Sessions(pub(super) Arc<Daemon>);

impl Sessions {
    fn wire(&self, session: &Session) -> pb::Session {
        let spec = session.spec();
        pb::Session {
            session_id: session.id().to_string(),
            sandbox: Some(jail_of(session)),
            cwd: session.cwd().to_string_lossy().into_owned(),
            lease: Some(encode::duration(spec.lease)),
            expires_at: Some(session.expires_at().into()),
            created_at: Some(session.created_at().into()),
            running_execs: u32::try_from(session.running()).unwrap_or(u32::MAX),
            labels: spec.labels.clone().into_iter().collect(),
            boot_id: self.0.identity.boot_id.clone(),
            instance_id: self.0.identity.instance_id.clone(),
            exported: session.exported(),
        }
    }
}

/// Checks a request in form.
fn session_spec(ask: pb::CreateSessionRequest, asker: Asker<'_>) -> Result<SessionSpec, Problem> {
    features::require(&ask.required_features, asker.features)?;
    let (profile, workspace) = convert::sandbox(ask.sandbox, asker)?;
    let cwd = convert::working_directory(&ask.cwd, &workspace)?;
    let (env_set, env_unset) = convert::environment(ask.env.unwrap_or_default())?;
    let bytes = env_set.iter().fold(0_usize, |sum, (name, value)| {
        sum.saturating_add(name.len()).saturating_add(value.len())
    });
    if bytes > MAX_ENV {
        return Err(Problem::invalid(format!(
            "'env.set' of a session has {bytes} bytes, the most is {MAX_ENV}; put the rest into a file"
        )));
    }
    Ok(SessionSpec {
        id: session_id(&ask.session_id)?,
        caller: asker.caller,
        profile,
        workspace,
        cwd,
        env_set,
        env_unset,
        lease: lease(ask.lease)?,
        labels: convert::labels(ask.labels)?,
    })
}

fn session_id(text: &str) -> Result<Option<SessionId>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = SessionId::parse(text)
        .ok_or_else(|| Problem::invalid("a session id has 1 to 64 characters of [A-Za-z0-9_-]"))?;
    Ok(Some(id))
}

fn lease(lease: Option<prost_types::Duration>) -> Result<Duration, Problem> {
    let Some(lease) = lease else {
        return Ok(DEFAULT_LEASE);
    };
    let lease = convert::duration("lease", lease)?;
    if lease.is_zero() {
        return Err(Problem::invalid(
            "'lease' is 0, with which a session ends at once; leave it out for the default",
        ));
    }
    Ok(lease.clamp(MIN_LEASE, MAX_LEASE))
}

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn create(
        &self,
        mut request: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        let ask = std::mem::take(request.get_mut());
        let spec = session_spec(ask, self.0.asker(&request)?)?;
        let (session, _) = self.0.sessions.create(spec).await.map_err(Problem::from)?;
        Ok(Response::new(pb::CreateSessionResponse {
            session: Some(self.wire(&session)),
            // Every listener of this release knows its peers by the kernel.
            session_token: String::new(),
        }))
    }

    async fn get(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let asker = self.0.asker(&request)?;
        let session = self.0.session(asker, &request.get_ref().session_id)?;
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(self.wire(&session)),
        }))
    }

    async fn list(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let caller = self.0.asker(&request)?.caller;
        let ask = request.into_inner();
        let size = match usize::try_from(ask.page_size).unwrap_or(usize::MAX) {
            0 => DEFAULT_PAGE,
            size => size.min(MAX_PAGE),
        };
        let after = page_token(&ask.page_token)?;
        let mut rest = self.0.sessions.list(caller);
        rest.retain(|session| session.key().0 > after);
        let more = rest.len() > size;
        rest.truncate(size);
        let last = rest.last().filter(|_| more);
        Ok(Response::new(pb::ListSessionsResponse {
            next_page_token: last
                .map(|session| session.key().0.to_string())
                .unwrap_or_default(),
            sessions: rest.iter().map(|session| self.wire(session)).collect(),
        }))
    }

    async fn keep_alive(
        &self,
        request: Request<pb::KeepAliveRequest>,
    ) -> Result<Response<pb::KeepAliveResponse>, Status> {
        let asker = self.0.asker(&request)?;
        let session = self.0.session(asker, &request.get_ref().session_id)?;
        Ok(Response::new(pb::KeepAliveResponse {
            expires_at: Some(session.expires_at().into()),
        }))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteSessionRequest>,
    ) -> Result<Response<pb::DeleteSessionResponse>, Status> {
        let caller = self.0.asker(&request)?.caller;
        let id = request.into_inner().session_id;
        let terminated = self.0.sessions.delete(caller, &id).await;
        let terminated_execs =
            terminated.map_err(|why| Problem::not_deleted(&crate::text::neutralise(&id), why))?;
        Ok(Response::new(pb::DeleteSessionResponse {
            terminated_execs,
        }))
    }
}

fn page_token(token: &str) -> Result<u64, Problem> {
    if token.is_empty() {
        return Ok(0);
    }
    token
        .parse()
        .ok()
        .ok_or_else(|| Problem::invalid("'page_token' is not one of this daemon's"))
}
