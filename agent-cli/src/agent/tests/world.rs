//! A world for the agent: a model that answers from a list, tools that do what their command says, an
//! approver and an observer that write down what happens.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::sync::{Barrier, mpsc};

use super::super::ports::{
    BoxFuture, Decision, Notice, OutputStream, ReplySink, RetryNotice, ToolEvents,
};
use super::*;
use crate::history::check;
use crate::model::{
    Reply, ReplyBlock, StopReason, ToolDefinition, ToolOutcome, ToolStatus, Usage, text_block,
};
use crate::provider::ProviderError;

/// What the model does next.
pub(super) enum Turn {
    Reply(&'static str, Vec<Value>),
    /// Says this much and then nothing for ever.
    Stall(&'static str),
    /// Says this much and breaks.
    Break(&'static str),
}

/// Everything at once; shared by all ports.
pub(super) struct World {
    turns: Mutex<VecDeque<Turn>>,
    /// Bytes of each request, as they would be sent.
    pub(super) requests: Mutex<Vec<String>>,
    pub(super) log: Mutex<Vec<String>>,
    together: Barrier,
    /// Says each line of the log as it happens, so that tests can wait for it.
    lines: mpsc::UnboundedSender<String>,
}

pub(super) struct Lines(mpsc::UnboundedReceiver<String>);

impl Lines {
    pub(super) async fn wait_for(&mut self, wanted: &str) {
        while self.0.recv().await.unwrap() != wanted {}
    }
}

impl World {
    pub(super) fn new(turns: Vec<Turn>) -> (Arc<Self>, Lines) {
        let (lines, receiver) = mpsc::unbounded_channel();
        let world = Self {
            turns: Mutex::new(turns.into()),
            requests: Mutex::default(),
            log: Mutex::default(),
            together: Barrier::new(2),
            lines,
        };
        (Arc::new(world), Lines(receiver))
    }

    pub(super) fn agent(self: &Arc<Self>) -> Agent {
        let ports = Ports {
            provider: Arc::clone(self) as Arc<dyn Provider>,
            tools: Arc::clone(self) as Arc<dyn Tools>,
            approver: Arc::clone(self) as Arc<dyn Approver>,
            observer: Arc::clone(self) as Arc<dyn Observer>,
        };
        Agent::new(Settings::new("m", "/w"), ports)
    }

    fn say(&self, line: String) {
        self.log.lock().unwrap().push(line.clone());
        // A test that does not wait has dropped its end.
        drop(self.lines.send(line));
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Provider for World {
    fn complete<'a>(
        &'a self,
        request: Request<'a>,
        sink: &'a dyn ReplySink,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        check(request.messages).unwrap();
        let bytes: Vec<&str> = request.messages.iter().map(Message::json).collect();
        let bytes = bytes.join(",");
        let mut requests = self.requests.lock().unwrap();
        assert!(
            requests.last().is_none_or(|last| bytes.starts_with(last)),
            "the prefix changed"
        );
        requests.push(bytes);
        let turn = self.turns.lock().unwrap().pop_front().unwrap();
        Box::pin(async move {
            match turn {
                Turn::Reply(stop, blocks) => {
                    let blocks = blocks.into_iter().map(ReplyBlock::from).collect();
                    let reply = Reply {
                        blocks,
                        stop_reason: StopReason::parse(stop),
                        usage: Usage::default(),
                    };
                    sink.text_delta(&reply.text());
                    Ok(reply)
                }
                Turn::Stall(text) => {
                    sink.text_delta(text);
                    std::future::pending().await
                }
                Turn::Break(text) => {
                    sink.text_delta(text);
                    Err(ProviderError::Broken {
                        detail: "cut".into(),
                        request_id: None,
                    })
                }
            }
        })
    }
}

impl Tools for World {
    fn definitions(&self) -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "bash".into(),
            description: "d".into(),
            input_schema: json!({}),
        }]
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        events: &'a dyn ToolEvents,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let done = |text: &str| ToolOutcome::of_text(ToolStatus::Done, text);
            match call.input["command"].as_str().unwrap() {
                "panic" => panic!("tool bug"),
                // Comes back only when two run at the same time.
                "together" => {
                    self.together.wait().await;
                    done("met")
                }
                "hang" => {
                    events.output(OutputStream::Stdout, b"half");
                    cancel.cancelled().await;
                    ToolOutcome::of_text(ToolStatus::Interrupted, "half")
                }
                "deaf" => {
                    events.output(OutputStream::Stdout, b"deaf");
                    std::future::pending().await
                }
                command => {
                    events.output(OutputStream::Stdout, command.as_bytes());
                    done(command)
                }
            }
        })
    }
}

impl Approver for World {
    fn ask<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Decision> {
        self.say(format!("ask {}", call.id));
        Box::pin(async move {
            match call.input["command"].as_str().unwrap() {
                "forbidden" => Decision::Deny { reason: None },
                "unsure" => std::future::pending().await,
                _ => Decision::Allow,
            }
        })
    }
}

impl Observer for World {
    fn request_started(&self) {
        self.say("request".into());
    }
    fn text_delta(&self, text: &str) {
        if !text.is_empty() {
            self.say(format!("text {text}"));
        }
    }
    fn reply(&self, reply: &Reply) {
        self.say(format!("reply {}", reply.blocks.len()));
    }
    fn tool_call(&self, call: &ToolCall) {
        self.say(format!("call {}", call.id));
    }
    fn tool_started(&self, call: &ToolCall) {
        self.say(format!("start {}", call.id));
    }
    fn tool_output(&self, call: &ToolCall, _stream: OutputStream, bytes: &[u8]) {
        self.say(format!(
            "output {} {}",
            call.id,
            String::from_utf8_lossy(bytes)
        ));
    }
    fn tool_result(&self, call: &ToolCall, outcome: &ToolOutcome) {
        self.say(format!(
            "result {} {:?} {}",
            call.id, outcome.status, outcome.text
        ));
    }
    fn notice(&self, notice: &Notice) {
        self.say(format!("notice {}", notice.text));
    }
    fn retry(&self, _notice: &RetryNotice) {}
    fn turn_end(&self, end: &TurnEnd) {
        self.say(format!("end {}", end.reason.as_str()));
    }
}

pub(super) fn text(text: &str) -> Value {
    text_block(text)
}

pub(super) fn bash(id: &str, command: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": command}})
}

pub(super) fn calls(calls: &[(&str, &str)]) -> Turn {
    Turn::Reply(
        "tool_use",
        calls
            .iter()
            .map(|(id, command)| bash(id, command))
            .collect(),
    )
}

pub(super) fn answer(answer: &str) -> Turn {
    Turn::Reply("end_turn", vec![text(answer)])
}
