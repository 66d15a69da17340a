//! What follows from a reply or its failure: run its calls, send it back, or end the turn. The table of
//! stop reasons is here.

use super::end::{self, TRUNCATED, WINDOW_FULL};
use super::input::Effect;
use super::normalise::{AskedCall, normalise};
use super::round::{Round, Slot};
use super::state::{Phase, State};
use crate::agent::EndReason;
use crate::model::{BlockFault, Reply, StopReason, ToolOutcome, text_block};
use crate::provider::ErrorClass;

/// Replies with cut-off calls that the model may try again, in a row. A third would most likely be cut off
/// the same way.
const MAX_CUT_OFF_IN_A_ROW: u32 = 2;
/// Times in a row that a paused turn is sent back.
const MAX_PAUSES_IN_A_ROW: u32 = 10;
/// Stands for a refused reply: replaying refused content would make later turns refuse as well.
const REFUSED: &str = "[The model declined to answer this message.]";

/// Whether a reply's calls can be trusted to be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// They can.
    Whole,
    /// The output limit ended the reply.
    OutputLimit,
    /// The context window ended it.
    WindowFull,
}

pub(super) fn on_reply(state: &mut State, reply: Reply) -> Vec<Effect> {
    if !matches!(state.phase, Phase::Awaiting) {
        return Vec::new();
    }
    state.turn.usage = state.turn.usage.plus(reply.usage);
    let text = reply.text();
    let cut = match &reply.stop_reason {
        StopReason::Refusal(category) => return on_refusal(state, &text, category.as_deref()),
        StopReason::MaxTokens => Cut::OutputLimit,
        StopReason::ContextWindowExceeded => Cut::WindowFull,
        StopReason::EndTurn
        | StopReason::StopSequence
        | StopReason::ToolUse
        | StopReason::PauseTurn
        | StopReason::Unknown(_) => Cut::Whole,
    };
    let (blocks, calls) = normalise(state, reply.blocks);
    state.history.push_reply(blocks);
    if calls.is_empty() {
        return end_without_calls(state, &reply.stop_reason, &text);
    }
    let mut effects = Vec::new();
    if let StopReason::Unknown(name) = &reply.stop_reason {
        effects.push(end::note(unknown_reason(name)));
    }
    effects.extend(start_round(state, calls, cut));
    effects
}

/// The table of endings: a reply without calls.
fn end_without_calls(state: &mut State, reason: &StopReason, text: &str) -> Vec<Effect> {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => vec![end_done(state, text)],
        StopReason::ToolUse => {
            let line = "[Note] The model announced a tool call but made none; the turn ends here.";
            vec![end::note(line), end_done(state, text)]
        }
        StopReason::MaxTokens => {
            end::end_with_line(state, EndReason::Truncated, text, TRUNCATED.to_owned())
        }
        StopReason::ContextWindowExceeded => {
            end::end_with_line(state, EndReason::Truncated, text, WINDOW_FULL.to_owned())
        }
        StopReason::PauseTurn => on_pause(state, text),
        StopReason::Refusal(category) => on_refusal(state, text, category.as_deref()),
        StopReason::Unknown(name) => vec![end::note(unknown_reason(name)), end_done(state, text)],
    }
}

fn unknown_reason(name: &str) -> String {
    let name = if name.is_empty() { "no reason" } else { name };
    format!("[Note] The model stopped for a reason this client does not know: {name}.")
}

fn end_done(state: &mut State, text: &str) -> Effect {
    let gave_up = !state.turn.denials.is_empty() && !state.turn.anything_ran;
    let reason = if gave_up {
        EndReason::Denied
    } else {
        EndReason::Done
    };
    end::end_turn(state, reason, text.to_owned())
}

fn on_pause(state: &mut State, text: &str) -> Vec<Effect> {
    state.turn.pauses_in_a_row = state.turn.pauses_in_a_row.saturating_add(1);
    if state.turn.pauses_in_a_row > MAX_PAUSES_IN_A_ROW {
        let line = "[Warning] The server paused the turn again and again; it ends unfinished.";
        return end::end_with_line(state, EndReason::Truncated, text, line.to_owned());
    }
    state.history.pause();
    super::send(state)
}

fn on_refusal(state: &mut State, text: &str, category: Option<&str>) -> Vec<Effect> {
    state.history.push_reply(vec![text_block(REFUSED)]);
    let category = category
        .map(|name| format!(" ({name})"))
        .unwrap_or_default();
    let line = format!("[Refusal] The model declined to answer{category}. Rephrase the request.");
    end::end_with_line(state, EndReason::Refusal, text, line)
}

fn start_round(state: &mut State, calls: Vec<AskedCall>, cut: Cut) -> Vec<Effect> {
    state.turn.pauses_in_a_row = 0;
    state.turn.cut_off_in_a_row = match cut {
        Cut::Whole => 0,
        Cut::OutputLimit | Cut::WindowFull => state.turn.cut_off_in_a_row.saturating_add(1),
    };
    let give_up = cut == Cut::WindowFull || state.turn.cut_off_in_a_row > MAX_CUT_OFF_IN_A_ROW;
    let slots = calls.into_iter().map(|asked| {
        let answer = unrunnable(state, &asked, cut);
        Slot::new(asked.call, answer)
    });
    let mut round = Round::new(slots.collect());
    let mut effects = Vec::new();
    let line = match cut {
        Cut::Whole => None,
        Cut::OutputLimit => Some(TRUNCATED),
        Cut::WindowFull => Some(WINDOW_FULL),
    };
    if give_up {
        round.end_afterwards(line.unwrap_or(TRUNCATED));
    } else {
        effects.extend(line.map(end::warning));
    }
    effects.extend(super::round::advance(state, round));
    effects
}

/// The answer to a call that must not run; `None` for one that may.
fn unrunnable(state: &State, asked: &AskedCall, cut: Cut) -> Option<ToolOutcome> {
    let text = match (cut, &asked.fault) {
        (Cut::OutputLimit, _) => {
            "Error: the reply was cut off by the output limit (max_tokens), so this call may be \
             incomplete and was not run. Split the work into smaller calls."
                .to_owned()
        }
        (Cut::WindowFull, _) => {
            "Error: the reply was cut off because the context window is full; this call was not run."
                .to_owned()
        }
        (Cut::Whole, Some(BlockFault::InputNotJson(detail))) => format!(
            "Error: the input of this call is not valid JSON ({detail}); it was not run. \
             Send the call again with valid JSON."
        ),
        (Cut::Whole, Some(BlockFault::InputNotObject)) => {
            "Error: the input of this call is not a JSON object; it was not run.".to_owned()
        }
        (Cut::Whole, None) if !state.tools.contains(&asked.call.name) => {
            format!("Unknown tool: {} (available: {})", asked.call.name, state.tools.join(", "))
        }
        (Cut::Whole, None) => return None,
    };
    Some(ToolOutcome::failed(text))
}

pub(super) fn on_failure(
    state: &mut State,
    (class, message): (ErrorClass, String),
    partial: &str,
) -> Vec<Effect> {
    if !matches!(state.phase, Phase::Awaiting) {
        return Vec::new();
    }
    keep_partial(state, partial, "[The reply broke off here.]");
    vec![end::end_turn(
        state,
        EndReason::Failed { class, message },
        partial.to_owned(),
    )]
}

/// Keeps the text of a reply that never became complete, with a mark. Its calls are lost on purpose: an
/// incomplete reply runs nothing.
pub(super) fn keep_partial(state: &mut State, partial: &str, mark: &str) {
    if !partial.trim().is_empty() {
        let text = format!("{}\n{mark}", partial.trim_end());
        state.history.push_reply(vec![text_block(&text)]);
    }
}
