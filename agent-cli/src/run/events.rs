//! The JSON events of `run`: one object a line, one write a line. Their names and fields are part of the
//! command line's contract.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::exit_code;
use crate::{
    agent::{
        EndReason, TurnEnd,
        ports::{Notice, Observer, RetryNotice, Severity},
    },
    model::{Reply, ToolCall, ToolOutcome, ToolStatus, Usage},
    session::{About, Turn},
    signals::Signal,
    stdout,
};

/// Watches in silence.
#[derive(Debug)]
pub(super) struct Silent;

impl Observer for Silent {}

/// Writes events to standard output.
#[derive(Debug)]
pub(super) struct JsonLines {
    /// Told when nobody reads them any more.
    unread: Arc<Notify>,
    /// The first write that failed. Nothing is written after it.
    failure: Mutex<Option<io::Error>>,
}

impl JsonLines {
    pub(super) fn new(unread: Arc<Notify>) -> Self {
        Self {
            unread,
            failure: Mutex::new(None),
        }
    }

    /// The first event.
    pub(super) fn init(&self, about: &About) {
        self.write(&init(about));
    }

    /// The last event, also the only object of `--output-format json`. Returns the exit code, or why an
    /// event could not be written: then the turn was ended, as nobody reads of it.
    pub(super) fn result(&self, session_id: &str, turn: &Turn) -> io::Result<u8> {
        self.write(&result(session_id, turn));
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or_else(|| Ok(exit_code(turn)), Err)
    }

    fn write(&self, event: &Value) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return;
        }
        if let Err(error) = stdout::write(format!("{event}\n").as_bytes()) {
            *failure = Some(error);
            self.unread.notify_one();
        }
    }
}

impl Observer for JsonLines {
    fn reply(&self, reply: &Reply) {
        let text = reply.text();
        if !text.is_empty() {
            self.write(&json!({"type": "message", "role": "assistant", "text": text}));
        }
    }

    fn tool_call(&self, call: &ToolCall) {
        self.write(&json!({
            "type": "tool_use", "id": call.id, "name": call.name, "input": call.input,
        }));
    }

    fn tool_result(&self, call: &ToolCall, outcome: &ToolOutcome) {
        self.write(&tool_result(call, outcome));
    }

    fn notice(&self, notice: &Notice) {
        let severity = match notice.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
        };
        self.write(&json!({"type": "warning", "severity": severity, "text": notice.text}));
    }

    fn retry(&self, notice: &RetryNotice) {
        self.write(&json!({
            "type": "retry",
            "attempt": notice.attempt,
            "attempts": notice.attempts,
            "wait_ms": u64::try_from(notice.wait.as_millis()).unwrap_or(u64::MAX),
            "reason": notice.reason,
        }));
    }
}

fn init(about: &About) -> Value {
    json!({
        "type": "init",
        "session_id": about.session_id,
        "model": about.model,
        "cwd": about.cwd.to_string_lossy(),
        "tools": about.tools,
        "profile": about.profile,
        "tier": about.tier,
    })
}

fn tool_result(call: &ToolCall, outcome: &ToolOutcome) -> Value {
    let status = match outcome.status {
        ToolStatus::Done => "done",
        ToolStatus::Failed => "failed",
        ToolStatus::Interrupted => "interrupted",
    };
    json!({
        "type": "tool_result",
        "id": call.id,
        "name": call.name,
        "status": status,
        "is_error": outcome.is_error(),
        "exit_code": outcome.exit_code,
        "truncated": outcome.truncated,
        "output_bytes": outcome.output_bytes,
        "text": outcome.text,
    })
}

fn result(session_id: &str, turn: &Turn) -> Value {
    let head = |status: &str| {
        json!({
            "type": "result",
            "session_id": session_id,
            "status": status,
            "exit_code": exit_code(turn),
        })
    };
    let (mut event, rest) = match turn {
        Turn::Ended(end) => (head(end.reason.as_str()), ending(end)),
        Turn::Leave(Signal::Interrupt) => (head("interrupted"), Value::Null),
        Turn::Leave(Signal::Terminate) => (head("terminated"), Value::Null),
    };
    if let (Value::Object(event), Value::Object(rest)) = (&mut event, rest) {
        event.extend(rest);
    }
    event
}

fn ending(end: &TurnEnd) -> Value {
    let mut rest = json!({
        "text": end.text,
        "iterations": end.iterations,
        "usage": usage(end.usage),
        // Prices are not known to this client, and a guess would be taken for one.
        "cost_usd": null,
        "permission_denials": end.denials,
    });
    if let (EndReason::Failed { message, .. }, Value::Object(fields)) = (&end.reason, &mut rest) {
        fields.insert("error".to_owned(), Value::String(message.clone()));
    }
    rest
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
    })
}

#[cfg(test)]
mod tests {
    use super::{init, result, tool_result};
    use crate::{
        agent::{EndReason, TurnEnd},
        model::{ToolCall, ToolOutcome, ToolStatus, Usage},
        provider::ErrorClass,
        session::{About, Turn},
        signals::Signal,
    };

    fn ended(reason: EndReason) -> Turn {
        Turn::Ended(TurnEnd {
            reason,
            text: "answer".into(),
            iterations: 2,
            usage: Usage::default(),
            denials: vec!["bash".into()],
        })
    }

    #[test]
    fn events_are_one_line_with_the_documented_fields() {
        let about = About {
            session_id: "s-1".into(),
            model: "m".into(),
            cwd: "/w".into(),
            profile: "workspace".into(),
            tier: "T2",
            tools: vec!["bash".into()],
        };
        let call = ToolCall {
            id: "t1".into(),
            name: "bash".into(),
            input: serde_json::json!({"command": "ls"}),
        };
        let outcome = ToolOutcome::of_text(ToolStatus::Done, "a\nb");
        let failed = EndReason::Failed {
            class: ErrorClass::Auth,
            message: "bad key".into(),
        };
        let lines = [
            init(&about),
            tool_result(&call, &outcome),
            result("s-1", &ended(EndReason::Done)),
            result("s-1", &ended(failed)),
            result("s-1", &Turn::Leave(Signal::Terminate)),
        ]
        .map(|event| event.to_string());
        assert!(lines.iter().all(|line| !line.contains('\n')));
        expect_test::expect![[r#"
            {"type":"init","session_id":"s-1","model":"m","cwd":"/w","tools":["bash"],"profile":"workspace","tier":"T2"}
            {"type":"tool_result","id":"t1","name":"bash","status":"done","is_error":false,"exit_code":null,"truncated":false,"output_bytes":0,"text":"a\nb"}
            {"type":"result","session_id":"s-1","status":"done","exit_code":0,"text":"answer","iterations":2,"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"cost_usd":null,"permission_denials":["bash"]}
            {"type":"result","session_id":"s-1","status":"error","exit_code":1,"text":"answer","iterations":2,"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"cost_usd":null,"permission_denials":["bash"],"error":"bad key"}
            {"type":"result","session_id":"s-1","status":"terminated","exit_code":143}"#]]
        .assert_eq(&lines.join("\n"));
    }
}
