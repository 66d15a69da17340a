//! The whole gRPC server: what its services share, and how they are put together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_proto::v1::{
    admin_service_server::AdminServiceServer, exec_service_server::ExecServiceServer,
    file_service_server::FileServiceServer, info_service_server::InfoServiceServer,
    policy_service_server::PolicyServiceServer, session_service_server::SessionServiceServer,
    tool_service_server::ToolServiceServer,
};
use thiserror::Error;
use tonic::{
    Request,
    transport::{Server, server::Router},
};
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use super::{
    Identity, admin::Admin, convert::Asker, exec::Execs, features, file::Files, info::Info, peer,
    policy::Policies, session::Sessions, status::Problem, tool::Tools,
};
use crate::{
    exec::{Drained, Executor},
    launcher_link::HostReport,
    session,
    startup::Memory,
};

/// Most calls at once on one connection.
const MAX_STREAMS: u32 = 256;

/// A connection without traffic is asked for a sign of life this often, so that a client that vanished
/// is noticed and devices in between keep the connection.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Without a sign of life for this long the connection is closed.
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(10);

/// Longest wait for sessions in which nothing runs any more to be gone.
const SESSION_PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The descriptor set built into the program does not decode: a bug.
    #[error("the API's own description does not decode")]
    Reflection(#[source] tonic_reflection::server::Error),
}

/// What all services share.
#[derive(Debug)]
pub struct Daemon {
    /// Runs commands.
    pub executor: Executor,
    /// All sessions.
    pub sessions: session::Registry,
    /// What the launcher said of the host.
    pub host: HostReport,
    /// What names this daemon.
    pub identity: Identity,
    /// Profile of requests that name none.
    pub default_profile: String,
    /// User ids that may administer it.
    pub operators: Vec<u32>,
    /// Start.
    pub since: Instant,
    /// Its own memory.
    pub memory: Memory,
    /// What the health service answers.
    pub health: HealthReporter,
}

impl Daemon {
    /// Admits nothing more, says so to whoever asks after its health, and brings what runs to its end:
    /// `patience` to end by itself, then `kill_patience` after it was told to.
    pub async fn drain(&self, patience: Duration, kill_patience: Duration) -> Drained {
        let status = tonic_health::ServingStatus::NotServing;
        self.health.set_service_status("", status).await;
        self.sessions.refuse_new();
        let drained = self.executor.drain(patience, kill_patience).await;
        self.sessions.drain(SESSION_PATIENCE).await;
        drained
    }

    /// What a request is completed with.
    pub(super) fn asker<T>(&self, request: &Request<T>) -> Result<Asker<'_>, Problem> {
        Ok(Asker {
            caller: peer::caller(request)?,
            default_profile: &self.default_profile,
            features: features::of(&self.host),
        })
    }
}

/// All services. Reflection is among them because every listener of this release is a Unix socket with
/// a checked peer.
pub fn router(daemon: &Arc<Daemon>) -> Result<Router, ServerError> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(agentd_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(ServerError::Reflection)?;
    let health = HealthService::from_health_reporter(daemon.health.clone());
    let daemon = || Arc::clone(daemon);
    Ok(Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_PATIENCE))
        .add_service(HealthServer::new(health))
        .add_service(reflection)
        .add_service(ToolServiceServer::new(Tools(daemon())))
        .add_service(ExecServiceServer::new(Execs(daemon())))
        .add_service(PolicyServiceServer::new(Policies(daemon())))
        .add_service(InfoServiceServer::new(Info(daemon())))
        .add_service(AdminServiceServer::new(Admin(daemon())))
        .add_service(SessionServiceServer::new(Sessions(daemon())))
        .add_service(FileServiceServer::new(Files)))
}
