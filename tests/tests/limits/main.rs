//! Limits hold for whole trees, and a result names the one that was hit with the proof for it: with the
//! host's control groups, with delegated ones, and without any.

mod delegated;
mod descriptors;
mod launcher;
mod named;
mod stalled;
mod without;

use agentd_sandbox::policy::LimitRequest;
use agentd_tests::harness::Mode;

/// Whether this kind of host can be made here; in CI as root it must.
fn possible(mode: Mode) -> bool {
    Mode::possible().contains(&mode)
}

const NONE: LimitRequest = LimitRequest {
    timeout_ms: Some(50_000),
    idle_timeout_ms: None,
    kill_grace_ms: Some(200),
    cpu_seconds: None,
    memory_bytes: None,
    pids: None,
    file_size_bytes: None,
    open_files: None,
    output_bytes: None,
    disk_bytes: None,
};
