//! `AdminService`: for the daemon's own user and root.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self as pb, admin_service_server::AdminService};
use tonic::{Request, Response, Status};

use super::{Daemon, convert, encode, peer, status::Problem};
use crate::exec::Stats;

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// Longest wait for commands that were told to end.
const KILL_PATIENCE: Duration = Duration::from_secs(15);

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Admin(pub(super) Arc<Daemon>);

impl Admin {
    fn authorize<T>(&self, request: &Request<T>) -> Result<(), Problem> {
        let uid = peer::caller(request)?.uid;
        if self.0.operators.contains(&uid) {
            return Ok(());
        }
        tracing::warn!(uid, "refused an administrative call");
        Err(Problem::not_authorized(
            "only root and the user that started agentd may administer it",
        ))
    }
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn drain(
        &self,
        request: Request<pb::DrainRequest>,
    ) -> Result<Response<pb::DrainResponse>, Status> {
        self.authorize(&request)?;
        let deadline = match request.get_ref().deadline {
            Some(deadline) => convert::duration("deadline", deadline)?,
            None => DEFAULT_DEADLINE,
        };
        let drained = self.0.drain(deadline, KILL_PATIENCE).await;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Response::new(pb::DrainResponse {
            finished: count(drained.finished),
            terminated: count(drained.terminated),
        }))
    }

    async fn get_stats(
        &self,
        request: Request<pb::GetStatsRequest>,
    ) -> Result<Response<pb::GetStatsResponse>, Status> {
        self.authorize(&request)?;
        let stats = self.0.executor.stats();
        let registry = self.0.executor.registry();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Ok(Response::new(pb::GetStatsResponse {
            execs_started: Stats::get(&stats.started),
            execs_running: count(registry.running()),
            execs_blocked: Stats::get(&stats.blocked),
            output_bytes: Stats::get(&stats.output_bytes),
            dropped_bytes: Stats::get(&stats.dropped_bytes),
            leftover_processes: Stats::get(&stats.leftover),
            uptime: Some(encode::duration(self.0.since.elapsed())),
            rss_bytes: self.0.memory.resident_bytes().unwrap_or_default(),
            execs_queued: count(registry.queued()),
            sessions_active: u64::try_from(self.0.sessions.active()).unwrap_or(u64::MAX),
            slow_readers: Stats::get(&stats.slow_readers),
        }))
    }

    async fn reload_policy(
        &self,
        request: Request<pb::ReloadPolicyRequest>,
    ) -> Result<Response<pb::ReloadPolicyResponse>, Status> {
        self.authorize(&request)?;
        let profiles = self
            .0
            .executor
            .link()
            .reload()
            .await
            .map_err(Problem::from)?;
        Ok(Response::new(pb::ReloadPolicyResponse {
            profiles: profiles.iter().map(|p| p.name.clone()).collect(),
        }))
    }
}
