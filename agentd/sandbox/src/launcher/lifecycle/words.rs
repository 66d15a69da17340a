//! What goes into the life of an execution, and what comes out of it.

use crate::{
    launch::LimitEnds,
    monitor::{Cause, LeaderStatus, LimitKind, StopReason, Usage},
};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The program was executed.
    Executed,
    /// The set-up failed; init ends.
    SetupFailed,
    /// The leader has ended.
    LeaderExited(LeaderStatus),
    /// Init reports that nothing is left.
    Empty {
        /// Processes killed after the leader.
        leftover: u32,
        /// Resource use.
        usage: Usage,
        /// Ends that tell of a limit.
        ends: LimitEnds,
    },
    /// Init itself is gone and reaped.
    InitGone,
    /// The front end has drained the output.
    Finish,
    /// The front end wants it ended.
    Stop {
        /// Why.
        reason: StopReason,
        /// Milliseconds of grace.
        grace_ms: Option<u64>,
    },
    /// A limit that is sampled was passed.
    Limit(LimitKind),
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell the front end that it runs.
    AnnounceStart,
    /// Tell the front end that it could not be started.
    AnnounceFailure {
        /// The set-up took too long, rather than failing.
        too_long: bool,
    },
    /// Tell the front end that it was stopped and nothing ran.
    AnnounceNothingRan(StopReason),
    /// Tell the front end how the leader ended.
    AnnounceLeader(LeaderStatus),
    /// TERM to the tree.
    Terminate,
    /// KILL to the tree, by init.
    Kill,
    /// KILL to init itself (namespaced tiers).
    KillInit,
    /// Tell the front end about the end. The last action.
    AnnounceEnd(End),
}

/// The end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// Cause.
    pub(crate) cause: Cause,
    /// Leader.
    pub(crate) status: LeaderStatus,
    /// Processes killed after the leader.
    pub(crate) leftover: u32,
    /// Resource use.
    pub(crate) usage: Usage,
    /// Ends of processes other than the leader that tell of a limit.
    pub(crate) ends: LimitEnds,
    /// The death of init proves that nothing is left.
    pub(crate) proven: bool,
}
