//! Limits in force, and how a request lowers them.

use serde::{Deserialize, Serialize};

use super::{CgroupFacts, Identity, Lifetime, LimitRequest, Refusal};
use crate::profile::LimitRules;

/// Limits in force: what the profile sets, lowered by the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall clock in milliseconds; [`NO_TIMEOUT`] when there is none.
    pub timeout_ms: u64,
    /// Longest silence in milliseconds; `None` when off.
    pub idle_timeout_ms: Option<u64>,
    /// Time between TERM and KILL in milliseconds.
    pub kill_grace_ms: u64,
    /// CPU seconds: of the whole tree where a control group counts them, and of each process
    /// (`RLIMIT_CPU`).
    pub cpu_seconds: Option<u64>,
    /// Memory of the tree in bytes; enforced only by a control group.
    pub memory_bytes: Option<u64>,
    /// Processes and threads: of the tree where a control group counts them, else of the user
    /// (`RLIMIT_NPROC`, per uid and user namespace).
    pub pids: Option<u64>,
    /// Bytes of one file (`RLIMIT_FSIZE`).
    pub file_size_bytes: Option<u64>,
    /// Open files of one process (`RLIMIT_NOFILE`).
    pub open_files: u64,
    /// Bytes of output; `None` when off.
    pub output_bytes: Option<u64>,
    /// Bytes by which the writable file systems may grow; `None` when off.
    pub disk_bytes: Option<u64>,
}

/// The wall clock of a command that lives as long as its session.
pub const NO_TIMEOUT: u64 = u64::MAX;

/// The most wall clock that a command can ask for that lives as long as its session: a day.
const LONGEST_IN_SESSION: u64 = 24 * 60 * 60 * 1000;
impl Limits {
    /// The limits that are enforced with these control groups on commands of this user: the kernel exempts
    /// uid 0 from the limit of a user's processes.
    #[must_use]
    pub fn in_force(self, cgroup: &CgroupFacts, identity: Identity) -> Self {
        let exempt = identity == Identity::RootWithoutCapabilities;
        Self {
            pids: self.pids.filter(|_| cgroup.pids || !exempt),
            memory_bytes: self.memory_bytes.filter(|_| cgroup.memory),
            ..self
        }
    }
}

/// The limits in force: the smaller of the profile's and the request's. Time may be asked for up to the
/// profile's maximum; what lives as long as its session has none unless it asks.
pub(super) fn clamp(
    rules: &LimitRules,
    request: &LimitRequest,
    lifetime: Lifetime,
) -> Result<Limits, Refusal> {
    for (name, value) in [
        ("timeout", request.timeout_ms),
        ("idle timeout", request.idle_timeout_ms),
        ("CPU", request.cpu_seconds),
        ("memory", request.memory_bytes),
        ("process", request.pids),
        ("file size", request.file_size_bytes),
        ("open files", request.open_files),
        ("output", request.output_bytes),
        ("disk", request.disk_bytes),
    ] {
        if value == Some(0) {
            return Err(Refusal::Malformed(format!(
                "the {name} limit is zero; leave it out for the profile's own"
            )));
        }
    }
    let profile = rules.defaults;
    let timeout_ms = match (lifetime, request.timeout_ms) {
        (Lifetime::Call, asked) => asked
            .unwrap_or(profile.timeout_ms)
            .min(rules.max_timeout_ms),
        (Lifetime::Session, Some(asked)) => asked.min(rules.max_timeout_ms.max(LONGEST_IN_SESSION)),
        (Lifetime::Session, None) => NO_TIMEOUT,
    };
    let grace_ms = request.kill_grace_ms.unwrap_or(profile.kill_grace_ms);
    Ok(Limits {
        timeout_ms,
        idle_timeout_ms: smaller(profile.idle_timeout_ms, request.idle_timeout_ms),
        kill_grace_ms: grace_ms.min(rules.max_grace_ms),
        cpu_seconds: smaller(profile.cpu_seconds, request.cpu_seconds),
        memory_bytes: smaller(profile.memory_bytes, request.memory_bytes),
        pids: smaller(profile.pids, request.pids),
        file_size_bytes: smaller(profile.file_size_bytes, request.file_size_bytes),
        open_files: request
            .open_files
            .unwrap_or(profile.open_files)
            .min(profile.open_files),
        output_bytes: smaller(profile.output_bytes, request.output_bytes),
        disk_bytes: smaller(profile.disk_bytes, request.disk_bytes),
    })
}

/// The smaller of two limits, where absent means unlimited.
fn smaller(profile: Option<u64>, request: Option<u64>) -> Option<u64> {
    match (profile, request) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (one, other) => one.or(other),
    }
}
