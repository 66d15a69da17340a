//! What the loop hears and what it asks for. Both enums are closed: a driver handles every effect.

use crate::agent::TurnEnd;
use crate::agent::ports::{Decision, Notice};
use crate::model::{Reply, ToolCall, ToolOutcome};
use crate::provider::ErrorClass;

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The person said something.
    UserPrompt(String),
    /// The model's reply is complete.
    ReplyCompleted(Reply),
    /// The call failed for good; retries are over.
    ReplyFailed {
        /// What kind of failure.
        class: ErrorClass,
        /// One line for the person.
        message: String,
        /// Text that had been delivered.
        partial: String,
    },
    /// The answer to the last `AskPermission`.
    Permission(Decision),
    /// A tool came to its end.
    ToolFinished {
        /// Id of the call.
        id: String,
        /// What came of it.
        outcome: ToolOutcome,
    },
    /// The person interrupts.
    Interrupted {
        /// Text of the reply that had been delivered, if one was on its way.
        partial: String,
    },
}

/// Something is to be done. The list is performed in order; at most one of `SendRequest`, `AskPermission`,
/// `RunTools` and `EndTurn` is in it, and it comes last.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the model for a reply to the history as it stands.
    SendRequest,
    /// Show a call before anything is decided about it.
    ShowCall(ToolCall),
    /// Ask whether the call may run.
    AskPermission(ToolCall),
    /// Run these calls at the same time; report each one's end.
    RunTools(Vec<ToolCall>),
    /// Stop the tools that run; their ends are still reported.
    CancelTools,
    /// Show what came of a call.
    ShowResult(ToolCall, ToolOutcome),
    /// Show a line.
    Show(Notice),
    /// The turn is over.
    EndTurn(TurnEnd),
}
