//! Tests of the loop's decisions: tables by phase, and random sessions.

mod endings;
mod interrupts;
mod random;
mod rounds;

use serde_json::{Value, json};

use super::*;
use crate::agent::TurnEnd;
use crate::agent::ports::Decision;
use crate::model::{
    Message, Reply, ReplyBlock, StopReason, ToolCall, ToolOutcome, ToolStatus, Usage, text_block,
};

/// A session that records what it was told to do.
struct Session {
    state: Option<State>,
    effects: Vec<Effect>,
}

impl Session {
    fn new() -> Self {
        Self::with_max_turns(50)
    }

    fn with_max_turns(max_turns: u32) -> Self {
        let tools = vec!["bash".to_owned()];
        Self {
            state: Some(State::new(tools, Limits { max_turns })),
            effects: Vec::new(),
        }
    }

    /// A session that has just sent its first prompt.
    fn prompted() -> Self {
        let mut session = Self::new();
        session.prompt("do it");
        session
    }

    fn feed(&mut self, input: Input) -> &[Effect] {
        let (state, effects) = step(self.state.take().unwrap(), input);
        self.state = Some(state);
        self.effects = effects;
        &self.effects
    }

    fn prompt(&mut self, text: &str) -> &[Effect] {
        self.feed(Input::UserPrompt(text.to_owned()))
    }

    fn reply(&mut self, stop: &str, blocks: Vec<Value>) -> &[Effect] {
        self.feed(Input::ReplyCompleted(reply(stop, blocks)))
    }

    fn allow(&mut self) -> &[Effect] {
        self.feed(Input::Permission(Decision::Allow))
    }

    fn deny(&mut self) -> &[Effect] {
        self.feed(Input::Permission(Decision::Deny { reason: None }))
    }

    fn finished(&mut self, id: &str, outcome: ToolOutcome) -> &[Effect] {
        self.feed(Input::ToolFinished {
            id: id.to_owned(),
            outcome,
        })
    }

    fn interrupt(&mut self, partial: &str) -> &[Effect] {
        self.feed(Input::Interrupted {
            partial: partial.to_owned(),
        })
    }

    fn messages(&self) -> &[Message] {
        self.state.as_ref().unwrap().messages()
    }

    fn last_content(&self) -> Value {
        self.messages().last().unwrap().content().into()
    }

    fn end(&self) -> &TurnEnd {
        match self.effects.last() {
            Some(Effect::EndTurn(end)) => end,
            other => panic!("the turn did not end but {other:?}"),
        }
    }

    fn asks_model(&self) -> bool {
        self.effects.last() == Some(&Effect::SendRequest)
    }

    fn shown(&self) -> Vec<&str> {
        let mut lines = Vec::new();
        for effect in &self.effects {
            if let Effect::Show(notice) = effect {
                lines.push(notice.text.as_str());
            }
        }
        lines
    }
}

fn reply(stop: &str, blocks: Vec<Value>) -> Reply {
    Reply {
        blocks: blocks.into_iter().map(ReplyBlock::from).collect(),
        stop_reason: StopReason::parse(stop),
        usage: Usage {
            input: 10,
            output: 1,
            ..Usage::default()
        },
    }
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls"}})
}

fn done(text: &str) -> ToolOutcome {
    ToolOutcome::of_text(ToolStatus::Done, text)
}

fn result(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text})
}

fn error(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": true})
}

fn call_of(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "bash".to_owned(),
        input: json!({"command": "ls"}),
    }
}

fn text(text: &str) -> Value {
    text_block(text)
}
