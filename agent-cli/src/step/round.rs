//! One round of tool calls: permissions one by one in call order, then all allowed calls at once, then all
//! results in one message in call order. Every call gets exactly one result, whatever happens.

use super::end;
use super::input::Effect;
use super::state::{Phase, State};
use crate::agent::EndReason;
use crate::agent::ports::Decision;
use crate::model::{ToolCall, ToolOutcome, ToolStatus, tool_result_block};

/// What the model reads, first, about a call that an interrupt stopped.
const UNFINISHED: &str = "interrupted by the user before it finished";

/// The calls of one reply.
#[derive(Debug, Clone)]
pub(super) struct Round {
    slots: Vec<Slot>,
    /// Index of the first call that nothing has been decided about.
    cursor: usize,
    after: After,
}

/// What follows once all results are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The next request.
    Continue,
    /// The end, because the person interrupted.
    Interrupted,
    /// The end, because the reply was cut off; with this line.
    Truncated(&'static str),
}

/// A call and what has become of it.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    call: ToolCall,
    progress: Progress,
}

#[derive(Debug, Clone)]
enum Progress {
    /// Nobody has decided.
    Open,
    /// It may run, and runs once everything is decided.
    Allowed,
    /// Its result is fixed.
    Settled(ToolOutcome),
}

impl Slot {
    /// A call, with its answer if it must not run.
    pub(super) fn new(call: ToolCall, answer: Option<ToolOutcome>) -> Self {
        Self {
            call,
            progress: answer.map_or(Progress::Open, Progress::Settled),
        }
    }
}

impl Round {
    pub(super) fn new(slots: Vec<Slot>) -> Self {
        Self {
            slots,
            cursor: 0,
            after: After::Continue,
        }
    }

    /// Ends the turn with this line once the results are stored.
    pub(super) fn end_afterwards(&mut self, line: &'static str) {
        self.after = After::Truncated(line);
    }

    /// Fixes the result of each call that has none.
    fn settle_rest(&mut self, text: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for slot in &mut self.slots {
            if !matches!(slot.progress, Progress::Settled(_)) {
                let outcome = ToolOutcome::of_text(ToolStatus::Interrupted, text);
                effects.push(Effect::ShowResult(slot.call.clone(), outcome.clone()));
                slot.progress = Progress::Settled(outcome);
            }
        }
        effects
    }

    fn allowed(&self) -> Vec<ToolCall> {
        let allowed = self
            .slots
            .iter()
            .filter(|slot| matches!(slot.progress, Progress::Allowed));
        allowed.map(|slot| slot.call.clone()).collect()
    }
}

/// Goes on to the next call that needs a decision; runs what is allowed when there is none.
pub(super) fn advance(state: &mut State, mut round: Round) -> Vec<Effect> {
    let mut effects = Vec::new();
    while let Some(slot) = round.slots.get(round.cursor) {
        match &slot.progress {
            Progress::Open => {
                effects.push(Effect::ShowCall(slot.call.clone()));
                effects.push(Effect::AskPermission(slot.call.clone()));
                state.phase = Phase::Deciding(round);
                return effects;
            }
            Progress::Settled(outcome) => {
                effects.push(Effect::ShowCall(slot.call.clone()));
                effects.push(Effect::ShowResult(slot.call.clone(), outcome.clone()));
            }
            Progress::Allowed => {}
        }
        round.cursor = round.cursor.saturating_add(1);
    }
    let allowed = round.allowed();
    if allowed.is_empty() {
        effects.extend(finish(state, &round));
    } else {
        state.turn.anything_ran = true;
        state.phase = Phase::Running(round);
        effects.push(Effect::RunTools(allowed));
    }
    effects
}

pub(super) fn on_permission(state: &mut State, decision: Decision) -> Vec<Effect> {
    let mut round = match std::mem::take(&mut state.phase) {
        Phase::Deciding(round) => round,
        other @ (Phase::Idle | Phase::Awaiting | Phase::Running(_)) => {
            state.phase = other;
            return Vec::new();
        }
    };
    let mut effects = Vec::new();
    if let Some(slot) = round.slots.get_mut(round.cursor) {
        slot.progress = match decision {
            Decision::Allow => Progress::Allowed,
            Decision::Deny { reason } => {
                let outcome = ToolOutcome::failed(denial(&slot.call.name, reason.as_deref()));
                effects.push(Effect::ShowResult(slot.call.clone(), outcome.clone()));
                state.turn.denials.push(slot.call.name.clone());
                Progress::Settled(outcome)
            }
        };
    }
    round.cursor = round.cursor.saturating_add(1);
    effects.extend(advance(state, round));
    effects
}

fn denial(name: &str, reason: Option<&str>) -> String {
    let reason = reason.map(|text| format!(" ({text})")).unwrap_or_default();
    format!("Permission denied by user for tool: {name}{reason}")
}

pub(super) fn on_finished(state: &mut State, id: &str, outcome: ToolOutcome) -> Vec<Effect> {
    let mut round = match std::mem::take(&mut state.phase) {
        Phase::Running(round) => round,
        other @ (Phase::Idle | Phase::Awaiting | Phase::Deciding(_)) => {
            state.phase = other;
            return Vec::new();
        }
    };
    let mut effects = Vec::new();
    let running =
        |slot: &&mut Slot| slot.call.id == id && matches!(slot.progress, Progress::Allowed);
    if let Some(slot) = round.slots.iter_mut().find(running) {
        let outcome = worded(outcome);
        effects.push(Effect::ShowResult(slot.call.clone(), outcome.clone()));
        slot.progress = Progress::Settled(outcome);
    }
    if round.allowed().is_empty() {
        effects.extend(finish(state, &round));
    } else {
        state.phase = Phase::Running(round);
    }
    effects
}

/// An interrupted call says so first; what it had printed follows.
fn worded(mut outcome: ToolOutcome) -> ToolOutcome {
    if outcome.status == ToolStatus::Interrupted {
        let printed = outcome.text.trim_end();
        outcome.text = if printed.is_empty() {
            UNFINISHED.to_owned()
        } else {
            format!("{UNFINISHED}; until then:\n{printed}")
        };
    }
    outcome
}

/// An interrupt while permissions are asked: nothing of the round has run.
pub(super) fn interrupt_deciding(state: &mut State, round: Round) -> Vec<Effect> {
    close(state, round, "interrupted by the user before it ran")
}

/// The turn is given up while tools run: nobody will report their ends.
pub(super) fn abandon_running(state: &mut State, round: Round) -> Vec<Effect> {
    close(state, round, UNFINISHED)
}

fn close(state: &mut State, mut round: Round, text: &str) -> Vec<Effect> {
    let mut effects = round.settle_rest(text);
    round.after = After::Interrupted;
    effects.extend(finish(state, &round));
    effects
}

/// An interrupt while tools run: their partial output is still to come.
pub(super) fn interrupt_running(state: &mut State, mut round: Round) -> Vec<Effect> {
    let already = round.after == After::Interrupted;
    round.after = After::Interrupted;
    state.phase = Phase::Running(round);
    if already {
        Vec::new()
    } else {
        vec![Effect::CancelTools]
    }
}

/// Stores all results in one message, in call order, and goes on or ends.
fn finish(state: &mut State, round: &Round) -> Vec<Effect> {
    let results = round.slots.iter().map(|slot| match &slot.progress {
        Progress::Settled(outcome) => tool_result_block(&slot.call.id, outcome),
        // Not reached: callers settle everything first. Still a result, because a call without one
        // would make every later request invalid.
        Progress::Open | Progress::Allowed => tool_result_block(
            &slot.call.id,
            &ToolOutcome::failed("Error: the call was not run"),
        ),
    });
    state.history.push_results(results.collect());
    state.turn.iterations = state.turn.iterations.saturating_add(1);
    match round.after {
        After::Interrupted => vec![end::end_turn(state, EndReason::Interrupted, String::new())],
        After::Truncated(line) => {
            end::end_with_line(state, EndReason::Truncated, "", line.to_owned())
        }
        After::Continue if state.turn.iterations >= state.limits.max_turns => {
            end::out_of_turns(state)
        }
        After::Continue => super::send(state),
    }
}
