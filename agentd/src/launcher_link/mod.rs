//! The asynchronous side of the channel to the launcher. It routes; it decides nothing.
//!
//! Requests go through a queue, so that no caller ever waits for the socket. When the launcher is gone
//! every route ends, and [`Link::lost`] says so once and for all.

mod link;
mod routes;

#[cfg(test)]
pub(crate) mod fake;

pub use link::{ExplainError, Link, LinkError, OpenError, ReloadError};
pub use routes::Delivery;

use std::sync::Arc;

use agentd_sandbox::{monitor::ProfileSummary, policy::Tier};

/// What the launcher said of the host when it came up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// Best tier, as tried.
    pub tier: Tier,
    /// Why it is not higher, and the remedy.
    pub tier_reason: String,
    /// Landlock ABI.
    pub landlock_abi: u32,
    /// Every capability that was probed: name, works, detail or remedy.
    pub capabilities: Vec<(String, bool, String)>,
    /// What limits and kills a command's tree: `cgroup-v2`, `cgroup-hybrid`, `cgroup-v1`, `none`.
    pub cgroup: String,
}

/// The profiles in force, by name.
pub type Profiles = Arc<Vec<ProfileSummary>>;
