//! The loop's state between two steps.

use super::round::Round;
use crate::history::History;
use crate::model::{Message, Usage};

/// What bounds a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tool rounds per turn.
    pub max_turns: u32,
}

/// The whole state of the loop.
#[derive(Debug, Clone)]
pub struct State {
    pub(super) history: History,
    pub(super) limits: Limits,
    /// Names of the tools there are.
    pub(super) tools: Vec<String>,
    pub(super) phase: Phase,
    pub(super) turn: Turn,
}

impl State {
    /// A new session with these tools.
    #[must_use]
    pub fn new(tools: Vec<String>, limits: Limits) -> Self {
        Self {
            history: History::new(),
            limits,
            tools,
            phase: Phase::Idle,
            turn: Turn::default(),
        }
    }

    /// The conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.history.messages()
    }

    /// Whether no turn is under way.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }
}

/// What the loop is waiting for.
#[derive(Debug, Clone, Default)]
pub(super) enum Phase {
    /// A prompt.
    #[default]
    Idle,
    /// A reply.
    Awaiting,
    /// A permission for the call at the round's cursor.
    Deciding(Round),
    /// The ends of the calls that run.
    Running(Round),
}

/// What is counted within one turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// Tool rounds so far.
    pub(super) iterations: u32,
    /// Tokens so far.
    pub(super) usage: Usage,
    /// Names of denied calls.
    pub(super) denials: Vec<String>,
    /// Whether any call was allowed.
    pub(super) anything_ran: bool,
    /// Replies with calls that were cut off, in a row.
    pub(super) cut_off_in_a_row: u32,
    /// Paused replies in a row.
    pub(super) pauses_in_a_row: u32,
}
