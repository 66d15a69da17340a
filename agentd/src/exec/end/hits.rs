//! The limits that a command ran into: those of ours and those that the launcher or the kernel watches.

use agentd_sandbox::monitor::{self, Cause, StopReason};

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Wall clock.
    Wall,
    /// Silence.
    Idle,
    /// Output.
    Output,
    /// One that the launcher or the kernel watches.
    Watched(monitor::LimitKind),
}

/// Every limit that was hit: those that the launcher or the kernel watches, and those of ours.
#[must_use]
pub(in crate::exec) fn hits(cause: Cause, watched: Vec<monitor::LimitHit>) -> Vec<LimitHit> {
    let own = |limit, evidence: &str| {
        Some(LimitHit {
            limit,
            count: 1,
            evidence: evidence.to_owned(),
        })
    };
    let own = match cause {
        Cause::Timeout => own(LimitKind::Wall, "wall clock"),
        Cause::Stopped(StopReason::IdleTimeout) => own(LimitKind::Idle, "time without output"),
        Cause::Stopped(StopReason::OutputLimit) => own(LimitKind::Output, "bytes of output"),
        Cause::Stopped(StopReason::Cancelled | StopReason::Disconnected | StopReason::Drained)
        | Cause::Leader
        | Cause::InitDied
        | Cause::Limit(_) => None,
    };
    let watched = watched.into_iter().map(|hit| LimitHit {
        limit: LimitKind::Watched(hit.limit),
        count: hit.count,
        evidence: hit.evidence,
    });
    own.into_iter().chain(watched).collect()
}

/// A limit that a command ran into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitHit {
    /// Which.
    pub limit: LimitKind,
    /// How often.
    pub count: u64,
    /// Where this is known from.
    pub evidence: String,
}
