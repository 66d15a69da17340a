//! How a turn ends, and the exit code that says so to a script.

use crate::model::Usage;
use crate::provider::ErrorClass;

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// Why it ended.
    pub reason: EndReason,
    /// The final answer, with our `[Warning]` or `[Agent loop stopped]` line when there is one.
    pub text: String,
    /// Tool rounds of this turn.
    pub iterations: u32,
    /// Tokens of this turn, as far as the API reported them.
    pub usage: Usage,
    /// Names of the tools whose calls were denied, in order.
    pub denials: Vec<String>,
}

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The model was done.
    Done,
    /// The turn used up its tool rounds.
    MaxTurns,
    /// Every call of the turn was denied, and the model gave up.
    Denied,
    /// The model declined.
    Refusal,
    /// The answer was cut off by the output limit or a full context window.
    Truncated,
    /// The person interrupted.
    Interrupted,
    /// The call failed.
    Failed {
        /// What kind of failure.
        class: ErrorClass,
        /// One line that names the remedy.
        message: String,
    },
}

impl EndReason {
    /// The reason's name in JSON output.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::MaxTurns => "max_turns",
            Self::Denied => "denied",
            Self::Refusal => "refusal",
            Self::Truncated => "truncated",
            Self::Interrupted => "interrupted",
            Self::Failed { .. } => "error",
        }
    }

    /// The exit code of a headless run that ended this way.
    #[must_use]
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::Done => ExitCode::Done,
            Self::MaxTurns => ExitCode::MaxTurns,
            Self::Denied => ExitCode::Denied,
            Self::Refusal => ExitCode::Refusal,
            Self::Truncated => ExitCode::Truncated,
            Self::Interrupted => ExitCode::Interrupted,
            Self::Failed { .. } => ExitCode::Error,
        }
    }
}

/// Exit codes of `agent-cli run`; part of the stable command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// The task was done.
    Done = 0,
    /// An API or other error.
    Error = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// Out of tool rounds.
    MaxTurns = 3,
    /// Over the budget.
    Budget = 4,
    /// Stopped in a doom loop.
    DoomLoop = 5,
    /// Denied, so that the task could not go on.
    Denied = 6,
    /// The model declined.
    Refusal = 7,
    /// The answer was cut off.
    Truncated = 8,
    /// Interrupted by the person (128 + SIGINT).
    Interrupted = 130,
    /// Terminated (128 + SIGTERM).
    Terminated = 143,
}

impl ExitCode {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.code())
    }
}
