//! Tool calls against a daemon without a jail.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use agentd_proto::v1;
use serde_json::json;
use tonic::transport::{Channel, Endpoint};

use super::{SandboxChoice, ToolPort, definition, outcome};
use crate::{
    agent::{
        Cancel, cancel_pair,
        ports::{OutputStream, ToolEvents, Tools},
    },
    daemon::fake,
    model::{ToolCall, ToolOutcome, ToolStatus},
};

fn port(channel: Channel) -> ToolPort {
    let sandbox = SandboxChoice {
        profile: None,
        workspace: "/w".into(),
    };
    ToolPort {
        channel,
        sandbox: sandbox.wire().unwrap(),
        cwd: "/w".into(),
        definitions: Vec::new(),
        session: "s".repeat(24),
        calls: AtomicU64::new(0),
    }
}

/// Fires a signal with the first output, and keeps the output.
struct Watch<F: Fn() + Send + Sync> {
    seen: Mutex<Vec<u8>>,
    at_output: F,
}

impl<F: Fn() + Send + Sync> ToolEvents for Watch<F> {
    fn output(&self, _stream: OutputStream, bytes: &[u8]) {
        self.seen.lock().unwrap().extend_from_slice(bytes);
        (self.at_output)();
    }
}

async fn call(
    port: &ToolPort,
    tool: &str,
    cancel: &Cancel,
    at_output: impl Fn() + Send + Sync,
) -> ToolOutcome {
    let call = ToolCall {
        id: "toolu_1".into(),
        name: tool.into(),
        input: json!({}),
    };
    let watch = Watch {
        seen: Mutex::default(),
        at_output,
    };
    port.call(&call, &watch, cancel).await
}

#[tokio::test]
async fn every_end_of_a_call_is_an_outcome() {
    let (channel, _told) = fake::start().await;
    let port = port(channel);
    let (_never, cancel) = cancel_pair();
    for (tool, status, text) in [
        ("well-behaved", ToolStatus::Done, "done"),
        ("without-a-result", ToolStatus::Failed, "unknown"),
        ("refused", ToolStatus::Failed, "requires tier T2"),
    ] {
        let outcome = call(&port, tool, &cancel, || ()).await;
        assert_eq!(outcome.status, status, "{tool}");
        assert!(outcome.text.contains(text), "{tool}: {}", outcome.text);
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_command_and_keeps_what_it_printed() {
    let (channel, told) = fake::start().await;
    let port = port(channel);
    let (canceller, cancel) = cancel_pair();
    let outcome = call(&port, "until-it-is-stopped", &cancel, || canceller.cancel()).await;
    assert_eq!(outcome.status, ToolStatus::Interrupted);
    assert_eq!(outcome.text, "started");
    // The first order came before the daemon knew the call, so it was repeated.
    assert_eq!(told.terminate.load(Ordering::Relaxed), 2);
}

#[test]
fn a_schema_that_is_not_json_is_refused_and_key_order_is_kept() {
    let tool = |schema: &str| v1::Tool {
        input_schema_json: schema.into(),
        ..v1::Tool::default()
    };
    let schema = r#"{"type":"object","a":1}"#;
    assert_eq!(
        definition(tool(schema)).unwrap().input_schema.to_string(),
        schema
    );
    definition(tool("{")).unwrap_err();
}

#[tokio::test]
async fn ids_are_unique_and_fit_the_wire_whatever_the_model_calls_them() {
    let port = port(Endpoint::from_static("http://agentd.invalid").connect_lazy());
    let names = ["toolu_1", "toolu_1", "", "a/b c\n", &"x".repeat(500)];
    let ids: HashSet<String> = names.iter().map(|name| port.call_id(name)).collect();
    assert_eq!(ids.len(), names.len());
    for id in ids {
        assert!(id.len() <= 64, "{id}");
        assert!(
            id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "{id}"
        );
    }
}

#[test]
fn status_of_a_result() {
    let result = |reason: v1::ExitReason, is_error| v1::ToolResult {
        text: "out".into(),
        is_error,
        exit: Some(v1::ExitResult {
            reason: reason.into(),
            stdout_bytes: 2,
            stderr_bytes: 1,
            ..v1::ExitResult::default()
        }),
        ..v1::ToolResult::default()
    };
    let (fired, seen) = cancel_pair();
    let (_idle, unseen) = cancel_pair();
    fired.cancel();
    let exited = v1::ExitReason::Exited;
    let cancelled = v1::ExitReason::Cancelled;
    for (reason, is_error, cancel, expected) in [
        (exited, false, &unseen, ToolStatus::Done),
        (exited, true, &unseen, ToolStatus::Failed),
        // It finished before the interrupt reached it.
        (exited, false, &seen, ToolStatus::Done),
        (cancelled, true, &seen, ToolStatus::Interrupted),
        // Somebody else ended it.
        (cancelled, true, &unseen, ToolStatus::Failed),
    ] {
        let outcome = outcome(result(reason, is_error), cancel);
        assert_eq!(outcome.status, expected);
        assert_eq!(outcome.output_bytes, 3);
    }
}
