//! Limits in force.

use serde::{Deserialize, Serialize};

/// Limits in force: what the profile sets, lowered by the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall clock in milliseconds.
    pub timeout_ms: u64,
    /// Longest silence in milliseconds; `None` when off.
    pub idle_timeout_ms: Option<u64>,
    /// Time between TERM and KILL in milliseconds.
    pub kill_grace_ms: u64,
    /// CPU seconds of one process (`RLIMIT_CPU`).
    pub cpu_seconds: Option<u64>,
    /// Memory of the tree in bytes; kept for the report, enforced only by a cgroup.
    pub memory_bytes: Option<u64>,
    /// Processes and threads (`RLIMIT_NPROC`, per uid and user namespace).
    pub pids: Option<u64>,
    /// Bytes of one file (`RLIMIT_FSIZE`).
    pub file_size_bytes: Option<u64>,
    /// Open files of one process (`RLIMIT_NOFILE`).
    pub open_files: u64,
    /// Bytes of output; `None` when off.
    pub output_bytes: Option<u64>,
}
