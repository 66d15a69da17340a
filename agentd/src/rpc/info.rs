//! `InfoService`: what this daemon is and what its host can enforce.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self as pb, info_service_server::InfoService};
use tonic::{Request, Response, Status};

use super::{Daemon, convert, encode, features};
use crate::exec::RING_BYTES;

/// What names this daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Changes with every start.
    pub boot_id: String,
    /// Names it among replicas.
    pub instance_id: String,
    /// Kernel release.
    pub kernel: String,
}

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Info(pub(super) Arc<Daemon>);

#[tonic::async_trait]
impl InfoService for Info {
    async fn get_server_info(
        &self,
        _: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        let daemon = &self.0;
        let profiles = daemon.executor.link().profiles();
        let default = profiles.iter().find(|p| p.name == daemon.default_profile);
        let (max_execs, max_queued) = daemon.executor.registry().capacity();
        let wire = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let millis = |value: u64| encode::duration(Duration::from_millis(value));
        Ok(Response::new(pb::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generation: features::GENERATION,
            features: features::of(&daemon.host)
                .iter()
                .map(ToString::to_string)
                .collect(),
            boot_id: daemon.identity.boot_id.clone(),
            instance_id: daemon.identity.instance_id.clone(),
            kernel: daemon.identity.kernel.clone(),
            tier: encode::tier(daemon.host.tier).into(),
            landlock_abi: daemon.host.landlock_abi,
            capabilities: daemon
                .host
                .capabilities
                .iter()
                .map(|(name, available, detail)| pb::HostCapability {
                    name: name.clone(),
                    available: *available,
                    detail: detail.clone(),
                })
                .collect(),
            default_profile: daemon.default_profile.clone(),
            default_timeout: default.map(|p| millis(p.limits.timeout_ms)),
            max_timeout: default.map(|p| millis(p.max_timeout_ms)),
            max_script_bytes: u64::try_from(convert::MAX_SCRIPT).unwrap_or(u64::MAX),
            output_ring_bytes: u64::try_from(RING_BYTES).unwrap_or(u64::MAX),
            cgroup: daemon.host.cgroup.clone(),
            max_execs: wire(max_execs),
            max_queued: wire(max_queued),
        }))
    }
}
