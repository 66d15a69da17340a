//! The words of following: what a message says, what to do with it, what went wrong and what comes next;
//! and how long to wait. Pure.

use std::time::Duration;

/// The daemon sends a heartbeat after 15 s without an event; three missing ones are a broken stream.
pub const SILENCE: Duration = Duration::from_secs(45);
/// How long a broken connection is tried again: as long as the daemon keeps a command without a reader.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long, when nothing listens any more: then the daemon and what it ran have ended, unless something
/// between us and it has.
pub const PATIENCE_WITH_NOBODY: Duration = Duration::from_secs(2);
/// How much longer than its time limit and its grace a command may seem to run.
pub const MARGIN: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// The pause before attempt `attempt`, from 0: doubling, between one half of it and all of it as `chance`
/// (0 to 255) says, so that many clients do not come back at once.
#[must_use]
pub fn backoff(attempt: u32, chance: u8) -> Duration {
    let factor = 1_u32.checked_shl(attempt.min(16)).unwrap_or(u32::MAX);
    let whole = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
    let half = whole.div_f32(2.0);
    half.saturating_add(half.mul_f32(f32::from(chance) / 255.0))
}

/// Which message is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastMessage {
    /// The end of the command.
    Exited,
    /// The result of the tool, which follows that.
    Result,
}

/// How long this client waits for what does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without any message, before a stream counts as broken.
    pub silence: Duration,
    /// Without a working connection, before an end counts as unknown.
    pub broken: Duration,
    /// The same, when nothing even listens where the daemon was.
    pub nobody: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            silence: SILENCE,
            broken: PATIENCE,
            nobody: PATIENCE_WITH_NOBODY,
        }
    }
}

/// Under which terms an execution is followed.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long to wait.
    pub patience: Patience,
    /// The last message.
    pub last: LastMessage,
    /// A lost connection can be made again.
    pub can_redial: bool,
    /// How long the command may wait for its turn before the daemon says anything.
    pub queue: Duration,
}

/// Numbers of the three streams: standard output, standard error, terminal.
pub type Lanes = [u64; 3];

/// What a message says, as far as following it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The command runs, for at most this long.
    Started(Option<Duration>),
    /// Bytes of a stream.
    Output {
        /// Index into [`Lanes`].
        lane: usize,
        /// Offset of the first.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Events that this reader cannot have.
    Gap {
        /// First lost sequence number.
        from: u64,
        /// Last.
        to: u64,
        /// Lost bytes.
        bytes: Lanes,
    },
    /// A sign of life.
    Heartbeat,
    /// The command has ended.
    Exited,
    /// The tool's result.
    Result,
}

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Pass it on.
    Deliver,
    /// Pass on that these bytes are lost.
    Lost(Lanes),
    /// It was seen before, or says nothing.
    Skip,
}

/// What to ask for on the next stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// The start: the daemon has not been heard to have accepted it.
    Start,
    /// What follows this event.
    After(u64),
}

/// What to do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask again after a pause.
    Again(Duration),
    /// Nothing more can be learned.
    GiveUp(GiveUp),
}

/// Why nothing more can be learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// The daemon refused; nothing was started.
    Refused,
    /// The daemon could not be asked; nothing was started.
    NotStarted,
    /// The one connection broke; what ran has ended with the daemon.
    Broken,
    /// The stream ended without an end.
    NoEnd,
    /// The daemon was restarted, and everything it ran has ended.
    Restarted,
    /// The daemon cannot be reached any more.
    Unreachable,
    /// The daemon does not know the execution any more.
    Forgotten,
    /// The command should have ended long ago.
    Overdue,
}
