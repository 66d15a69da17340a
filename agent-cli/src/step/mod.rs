//! The loop's decisions as one pure function: `(State, Input) → (State, Effects)`. It must not do IO, read a
//! clock or wait. The model's content decides whether tools run; `stop_reason` only classifies endings.
//!
//! ```text
//! Idle ──prompt──▶ Awaiting ──reply with calls──▶ Deciding ──all decided──▶ Running ──all finished──▶ Awaiting
//!   ▲                 │ reply without calls,         │ all denied: results go straight back       │
//!   └──── EndTurn ────┴ failure, interrupt           └──────────── interrupt, max turns ──────────┘
//! ```

mod end;
mod input;
mod normalise;
mod reply;
mod round;
mod state;
#[cfg(test)]
mod tests;

pub use input::{Effect, Input};
pub use state::{Limits, State};
use state::{Phase, Turn};

use crate::agent::EndReason;
use crate::history::Prepared;
use crate::provider::ErrorClass;

/// Decides what follows from an input. Inputs that do not fit the phase (a result that comes late, a second
/// interrupt) change nothing; a prompt always fits, it first closes what was open.
#[must_use]
pub fn step(mut state: State, input: Input) -> (State, Vec<Effect>) {
    let effects = match input {
        Input::UserPrompt(text) => on_prompt(&mut state, &text),
        Input::ReplyCompleted(reply) => reply::on_reply(&mut state, reply),
        Input::ReplyFailed {
            class,
            message,
            partial,
        } => reply::on_failure(&mut state, (class, message), &partial),
        Input::Permission(decision) => round::on_permission(&mut state, decision),
        Input::ToolFinished { id, outcome } => round::on_finished(&mut state, &id, outcome),
        Input::Interrupted { partial } => on_interrupt(&mut state, &partial),
    };
    (state, effects)
}

fn on_prompt(state: &mut State, text: &str) -> Vec<Effect> {
    let mut effects = abandon(state);
    state.turn = Turn::default();
    if text.trim().is_empty() {
        let message = "the prompt is empty; say what should be done".to_owned();
        let reason = EndReason::Failed {
            class: ErrorClass::Usage,
            message,
        };
        effects.push(end::end_turn(state, reason, String::new()));
        return effects;
    }
    state.history.push_prompt(text);
    effects.extend(send(state));
    effects
}

/// Asks for the next reply, after the history has been checked.
fn send(state: &mut State) -> Vec<Effect> {
    match state.history.prepare() {
        Ok(Prepared::AsItWas) => {
            state.phase = Phase::Awaiting;
            vec![Effect::SendRequest]
        }
        Ok(Prepared::Repaired) => {
            state.phase = Phase::Awaiting;
            vec![
                end::note("[Note] The conversation was repaired before it was sent."),
                Effect::SendRequest,
            ]
        }
        Err(violation) => {
            let message =
                format!("the conversation cannot be sent: {violation}; start a new session");
            let reason = EndReason::Failed {
                class: ErrorClass::Internal,
                message,
            };
            vec![end::end_turn(state, reason, String::new())]
        }
    }
}

fn on_interrupt(state: &mut State, partial: &str) -> Vec<Effect> {
    match std::mem::take(&mut state.phase) {
        Phase::Idle => Vec::new(),
        Phase::Awaiting => {
            reply::keep_partial(state, partial, "[The reply was interrupted by the user.]");
            vec![end::end_turn(
                state,
                EndReason::Interrupted,
                partial.to_owned(),
            )]
        }
        Phase::Deciding(round) => round::interrupt_deciding(state, round),
        Phase::Running(round) => round::interrupt_running(state, round),
    }
}

/// Closes what is open without waiting for anything: a caller may drop a turn in the middle.
fn abandon(state: &mut State) -> Vec<Effect> {
    let effects = match std::mem::take(&mut state.phase) {
        Phase::Idle | Phase::Awaiting => Vec::new(),
        Phase::Deciding(round) => round::interrupt_deciding(state, round),
        Phase::Running(round) => {
            let mut effects = vec![Effect::CancelTools];
            effects.extend(round::abandon_running(state, round));
            effects
        }
    };
    effects
        .into_iter()
        .filter(|effect| !matches!(effect, Effect::EndTurn(_)))
        .collect()
}
