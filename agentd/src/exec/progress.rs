//! Where an execution is, and what can be asked of its driver.

use agentd_sandbox::{
    monitor::SignalScope,
    policy::{Refusal, TerminalSize},
};
use thiserror::Error;

use super::lifecycle::Stop;

/// Why a command was never started, so that there is nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotStarted {
    /// The policy refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request does not fit into one message.
    #[error("arguments and environment take {0} bytes, too many; put them into a script")]
    TooLarge(usize),
    /// The daemon is out of file descriptors or memory.
    #[error("{0}")]
    Resources(String),
    /// The launcher is gone.
    #[error("the launcher is gone; restart agentd")]
    LauncherGone,
    /// No slot became free for it in time.
    #[error(
        "{0} commands at once are the most this daemon runs (for several users: of one user, fewer), and \
         none ended in time; try again later"
    )]
    Full(usize),
    /// The daemon is about to stop, and it was still waiting for its turn.
    #[error("the daemon is being drained; use another one or try again later")]
    Draining,
}

/// Where an execution is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecState {
    /// Waiting for its turn, or being checked and set up.
    Starting,
    /// Running.
    Running,
    /// Over; there is a result.
    Ended,
    /// Never started.
    NotStarted(NotStarted),
}

/// What readers wait for: the state, and that something was written.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    pub(super) state: ExecState,
}

/// What reaches the driver from outside.
#[derive(Debug)]
pub(super) enum Control {
    Stop(Stop),
    Readers(usize),
    Signal(i32, SignalScope),
    Resize(TerminalSize),
}

/// Whether a command has something to type into or read from, as its request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// Input is `/dev/null`.
    None,
    /// Input is a pipe.
    StdinPipe,
    /// It has a terminal.
    Terminal,
}
