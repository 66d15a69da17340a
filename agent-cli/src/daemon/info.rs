//! What a daemon says about itself, its host and its profiles.

use agentd_proto::v1::{self, policy_service_client::PolicyServiceClient};
use serde::Serialize;

use super::{Daemon, DaemonError, SandboxChoice, convert, error};

/// A daemon and its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerInfo {
    /// Version of the daemon.
    pub version: String,
    /// Generation of its API.
    pub generation: u32,
    /// Kernel release.
    pub kernel: String,
    /// Best tier of the host: `T1`, `T2` or `T3`.
    pub tier: &'static str,
    /// Landlock ABI; 0 when the kernel has none.
    pub landlock_abi: u32,
    /// Profile of a request that names none.
    pub default_profile: String,
    /// Time limit of a request that names none.
    pub default_timeout_ms: Option<u64>,
    /// Longest time limit.
    pub max_timeout_ms: Option<u64>,
    /// What was probed.
    pub capabilities: Vec<Capability>,
}

/// A capability of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Name.
    pub name: String,
    /// It works.
    pub available: bool,
    /// Detail, or why not and the remedy.
    pub detail: String,
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileInfo {
    /// Name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// SHA-256 of the resolved profile, in hex.
    pub digest: String,
    /// Lowest tier it accepts.
    pub minimum_tier: &'static str,
    /// This host can enforce it.
    pub available: bool,
    /// Why not, and what would help.
    pub unavailable_reason: String,
    /// It is used when a request names none.
    pub is_default: bool,
}

impl Daemon {
    /// Asks whether commands could run in a jail at all: whether its workspace can be one.
    ///
    /// # Errors
    /// The daemon refused it, with the remedy, or the connection broke.
    pub async fn check(&self, sandbox: &SandboxChoice) -> Result<(), DaemonError> {
        let sandbox = sandbox.wire()?;
        let question = v1::PathQuery {
            path: sandbox.workspace.clone(),
            access: v1::PathAccess::Read.into(),
        };
        let request = v1::ExplainRequest {
            sandbox: Some(sandbox),
            query: Some(v1::explain_request::Query::Path(question)),
        };
        PolicyServiceClient::new(self.link.channel()?)
            .explain(request)
            .await
            .map(drop)
            .map_err(|status| error::call(&status, "PolicyService.Explain"))
    }

    /// The profiles this client may use.
    ///
    /// # Errors
    /// The daemon refused or the connection broke.
    pub async fn profiles(&self) -> Result<Vec<ProfileInfo>, DaemonError> {
        let answer = PolicyServiceClient::new(self.link.channel()?)
            .list_profiles(v1::ListProfilesRequest {})
            .await
            .map_err(|status| error::call(&status, "the list of profiles"))?;
        let profiles = answer.into_inner().profiles;
        Ok(profiles.into_iter().map(convert::profile).collect())
    }
}
