//! How a turn is closed, and the lines a person reads about it. The seed's texts are kept as the start.

use super::input::Effect;
use super::state::{Phase, State};
use crate::agent::ports::{Notice, Severity};
use crate::agent::{EndReason, TurnEnd};

/// Shown when the output limit cut an answer off.
pub(super) const TRUNCATED: &str = "[Warning] Response was truncated (max_tokens reached).";
/// Shown when the context window is full.
pub(super) const WINDOW_FULL: &str =
    "[Warning] Response was truncated (the model's context window is full); start a new session.";

/// Closes the turn.
pub(super) fn end_turn(state: &mut State, reason: EndReason, text: String) -> Effect {
    state.phase = Phase::Idle;
    let turn = std::mem::take(&mut state.turn);
    Effect::EndTurn(TurnEnd {
        reason,
        text,
        iterations: turn.iterations,
        usage: turn.usage,
        denials: turn.denials,
    })
}

/// Closes the turn with a line that is shown and also ends the final text.
pub(super) fn end_with_line(
    state: &mut State,
    reason: EndReason,
    text: &str,
    line: String,
) -> Vec<Effect> {
    let text = if text.trim().is_empty() {
        line.clone()
    } else {
        format!("{text}\n{line}")
    };
    vec![warning(line), end_turn(state, reason, text)]
}

/// Closes the turn because its tool rounds are used up.
pub(super) fn out_of_turns(state: &mut State) -> Vec<Effect> {
    let line = format!(
        "[Agent loop stopped] Reached maximum turns ({}).",
        state.limits.max_turns
    );
    end_with_line(state, EndReason::MaxTurns, "", line)
}

/// A line worth knowing.
pub(super) fn note(text: impl Into<String>) -> Effect {
    Effect::Show(Notice {
        severity: Severity::Note,
        text: text.into(),
    })
}

/// A line about something incomplete.
pub(super) fn warning(text: impl Into<String>) -> Effect {
    Effect::Show(Notice {
        severity: Severity::Warning,
        text: text.into(),
    })
}
