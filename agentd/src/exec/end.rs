//! How an execution ended, decided from what the launcher reports. Pure.

mod hits;

use std::time::{Duration, SystemTime};

use agentd_sandbox::monitor::{self, Cause, LeaderStatus, SetupFailure, StopReason, Usage};
use nix::sys::signal::Signal;

pub(super) use hits::hits;
pub use hits::{LimitHit, LimitKind};

use crate::commands::Blocked;

/// Why an execution is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// It returned an exit code.
    Exited,
    /// A signal ended it that the daemon did not send.
    Signaled,
    /// Its wall clock ran out.
    Timeout,
    /// It printed nothing for too long.
    IdleTimeout,
    /// A client ended it.
    Cancelled,
    /// It printed more than its limit.
    OutputLimit,
    /// Its CPU time ran out.
    CpuLimit,
    /// A file was to grow past its size limit, or the disks grew past theirs; the hits tell which.
    DiskLimit,
    /// The jail or the program could not be started.
    SetupFailed,
    /// Its memory limit killed it.
    OomKilled,
    /// The command blacklist refused it.
    Blocked,
    /// Its client went away and the grace ran out.
    Disconnected,
    /// The daemon was drained.
    Drained,
    /// Unknown: the launcher or the jail's init died.
    Lost,
}

impl ExitReason {
    /// Decides from the cause and, when the leader ended by itself, from how it ended and from the limits
    /// that were proved to be hit: a signal alone proves nothing, since anybody can send any.
    #[must_use]
    pub fn decide(cause: Cause, status: LeaderStatus, hits: &[monitor::LimitHit]) -> Self {
        match cause {
            Cause::Leader => Self::of_leader(status, hits),
            Cause::Timeout => Self::Timeout,
            Cause::Stopped(reason) => match reason {
                StopReason::Cancelled => Self::Cancelled,
                StopReason::IdleTimeout => Self::IdleTimeout,
                StopReason::OutputLimit => Self::OutputLimit,
                StopReason::Disconnected => Self::Disconnected,
                StopReason::Drained => Self::Drained,
            },
            Cause::InitDied => Self::Lost,
            Cause::Limit(limit) => match limit {
                monitor::LimitKind::Cpu => Self::CpuLimit,
                monitor::LimitKind::Memory => Self::OomKilled,
                monitor::LimitKind::Disk | monitor::LimitKind::FileSize => Self::DiskLimit,
                // Reaching it makes forks fail and ends nothing; should it ever, it was a kill.
                monitor::LimitKind::Pids => Self::Signaled,
            },
        }
    }

    fn of_leader(status: LeaderStatus, hits: &[monitor::LimitHit]) -> Self {
        let was_hit = |limit| hits.iter().any(|hit| hit.limit == limit);
        match status {
            LeaderStatus::Exited(_) => Self::Exited,
            LeaderStatus::Signaled { signal, .. } => match Signal::try_from(signal) {
                // Anybody can send these: the launcher says what proves a limit. Nor does a kill for want of
                // memory among the children prove anything: it says when the leader was the victim.
                Ok(Signal::SIGXCPU | Signal::SIGKILL) if was_hit(monitor::LimitKind::Cpu) => {
                    Self::CpuLimit
                }
                Ok(Signal::SIGXFSZ) if was_hit(monitor::LimitKind::FileSize) => Self::DiskLimit,
                Ok(_) | Err(_) => Self::Signaled,
            },
            LeaderStatus::Unknown => Self::Lost,
        }
    }

    /// The command itself came to its end, well or badly; nobody cut it short or kept it from running.
    #[must_use]
    pub fn is_own_end(self) -> bool {
        match self {
            Self::Exited | Self::Signaled => true,
            Self::Timeout
            | Self::IdleTimeout
            | Self::Cancelled
            | Self::OutputLimit
            | Self::OomKilled
            | Self::CpuLimit
            | Self::DiskLimit
            | Self::SetupFailed
            | Self::Blocked
            | Self::Disconnected
            | Self::Drained
            | Self::Lost => false,
        }
    }
}

/// Where a denial was learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialSource {
    /// The sandbox itself saw it.
    Kernel,
    /// A failed path, evaluated against the policy.
    Inferred,
}

/// Something the jail refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What was tried: `read`, `create`, `connect`.
    pub access: &'static str,
    /// Path, or empty.
    pub path: String,
    /// TCP port, or 0.
    pub port: u16,
    /// Layer that refuses it.
    pub layer: String,
    /// Rule as `file:line`, or `default`.
    pub rule: String,
    /// Source.
    pub source: DenialSource,
    /// One sentence for a person.
    pub text: String,
}

/// How an execution ended. Exactly one per execution.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that are independent of each other"
)]
pub struct ExitResult {
    /// Reason.
    pub reason: ExitReason,
    /// Exit code, when the leader returned one.
    pub exit_code: Option<i32>,
    /// Signal number, when one ended the leader.
    pub signal: Option<i32>,
    /// Start; `None` when nothing ran.
    pub started_at: Option<SystemTime>,
    /// From start to the death of the last process.
    pub duration: Duration,
    /// Resource use.
    pub usage: Usage,
    /// Bytes written to stdout.
    pub stdout_bytes: u64,
    /// Bytes written to stderr.
    pub stderr_bytes: u64,
    /// Bytes of both no longer held.
    pub dropped_bytes: u64,
    /// Everything up to the end was read.
    pub output_complete: bool,
    /// Processes that outlived the leader and were killed.
    pub leftover: u32,
    /// Working directory at the end; empty when unknown.
    pub cwd: String,
    /// What the jail refused.
    pub denials: Vec<Denial>,
    /// Set for `SetupFailed`.
    pub setup: Option<SetupFailure>,
    /// Set for `Blocked`.
    pub blocked: Option<Blocked>,
    /// Remarks for a person.
    pub notes: Vec<String>,
    /// Limits that it ran into.
    pub hits: Vec<LimitHit>,
    /// It is proven that nothing of it is left.
    pub proven: bool,
    /// Another process still held its output open when the leader had ended.
    pub pipes_held: bool,
    /// Where the whole output was kept.
    pub output_file: Option<OutputFile>,
}

/// Output kept in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Path as later commands of the session see it.
    pub path: String,
    /// Bytes in it.
    pub bytes: u64,
    /// Bytes that are not in it.
    pub missing: u64,
}

impl ExitResult {
    /// The end of something that never ran, or of which nothing is known.
    #[must_use]
    pub fn without_run(reason: ExitReason) -> Self {
        Self {
            reason,
            exit_code: None,
            signal: None,
            started_at: None,
            duration: Duration::ZERO,
            usage: Usage::default(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            dropped_bytes: 0,
            output_complete: true,
            leftover: 0,
            cwd: String::new(),
            denials: Vec::new(),
            setup: None,
            blocked: None,
            notes: Vec::new(),
            hits: Vec::new(),
            proven: true,
            pipes_held: false,
            output_file: None,
        }
    }
}

#[cfg(test)]
mod tests;
