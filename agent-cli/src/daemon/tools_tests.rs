//! Tool calls against a daemon without a jail.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_proto::v1;
use serde_json::json;

use super::{SandboxChoice, ToolPort, definition, outcome};
use crate::{
    agent::{
        Cancel, cancel_pair,
        ports::{OutputStream, ToolEvents, Tools},
    },
    daemon::{
        Lease, SessionScope,
        fake::{self, How, Running},
        follow::Patience,
    },
    model::{ToolCall, ToolOutcome, ToolStatus},
};

fn sandbox() -> SandboxChoice {
    SandboxChoice {
        profile: None,
        workspace: "/w".into(),
    }
}

fn port(fake: &Running, lease: Option<Arc<Lease>>) -> ToolPort {
    ToolPort {
        link: Arc::clone(&fake.link),
        lease,
        sandbox: sandbox().wire().unwrap(),
        cwd: "/w".into(),
        definitions: Vec::new(),
        session: "s".repeat(24),
        calls: AtomicU64::new(0),
    }
}

async fn lease(fake: &Running, length: Duration) -> Arc<Lease> {
    let scope = SessionScope {
        session_id: "s-1".into(),
        sandbox: sandbox(),
        cwd: "/w".into(),
        lease: Some(length),
    };
    Lease::open(Arc::clone(&fake.link), scope).await.unwrap()
}

/// Gives up soon.
const IMPATIENT: Patience = Patience {
    silence: Duration::from_millis(300),
    broken: Duration::from_millis(500),
    nobody: Duration::from_millis(500),
};

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
    let fake = fake::start_with(IMPATIENT).await;
    let port = port(&fake, None);
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
    let fake = fake::start().await;
    let port = port(&fake, None);
    let (canceller, cancel) = cancel_pair();
    let outcome = call(&port, "until-it-is-stopped", &cancel, || canceller.cancel()).await;
    assert_eq!(outcome.status, ToolStatus::Interrupted);
    assert_eq!(outcome.text, "started");
    // The first order came before the daemon knew the call, so it was repeated.
    assert_eq!(fake.told.terminate.load(Ordering::Relaxed), 2);
}

/// An interrupt is heard of within two seconds, whatever the daemon does about it.
#[tokio::test]
async fn an_interrupt_of_what_cannot_be_ended_is_answered_soon() {
    for (tool, orders) in [
        ("bash_output", 0..=0),
        ("bash_kill", 0..=0),
        ("bash", 2..=20),
    ] {
        let fake = fake::start().await;
        let port = port(&fake, None);
        fake.told.knows_nothing.store(true, Ordering::Relaxed);
        fake.told.cuts.lock().unwrap().push_back((0, How::Stall));
        let (canceller, cancel) = cancel_pair();
        let begun = std::time::Instant::now();
        let (outcome, ()) = tokio::join!(call(&port, tool, &cancel, || ()), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            canceller.cancel();
        });
        assert_eq!(outcome.status, ToolStatus::Interrupted, "{tool}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4), "{tool}: {took:?}");
        let told = fake.told.terminate.load(Ordering::Relaxed);
        assert!(orders.contains(&told), "{tool}: {told}");
    }
}

#[tokio::test]
async fn a_call_whose_stream_breaks_runs_once_and_has_its_whole_result() {
    for how in [How::Quietly, How::Unavailable, How::TooSlow, How::Reset] {
        for until in 0..5 {
            let fake = fake::start().await;
            let port = port(&fake, None);
            fake.told.cuts.lock().unwrap().push_back((until, how));
            let (_never, cancel) = cancel_pair();
            let seen = Mutex::new(0);
            let count = || *seen.lock().unwrap() += 1;
            let outcome = call(&port, "bash", &cancel, count).await;
            assert_eq!(outcome.status, ToolStatus::Done, "{how:?} {until}");
            assert_eq!(outcome.text, "done", "{how:?} {until}");
            assert_eq!(*seen.lock().unwrap(), 2, "{how:?} {until}");
            assert_eq!(
                fake.told.begun.load(Ordering::Relaxed),
                1,
                "{how:?} {until}"
            );
        }
    }
}

#[tokio::test]
async fn a_call_that_a_restart_cut_off_is_unknown_and_not_repeated() {
    let fake = fake::start().await;
    let port = port(&fake, None);
    fake.told.cuts.lock().unwrap().push_back((2, How::Restart));
    let (_never, cancel) = cancel_pair();
    let outcome = call(&port, "bash", &cancel, || ()).await;
    assert_eq!(outcome.status, ToolStatus::Failed);
    assert!(outcome.text.contains("the daemon restarted"), "{outcome:?}");
    assert_eq!(fake.told.begun.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_names_the_daemon_it_is_meant_for_and_another_one_starts_nothing() {
    let fake = fake::start().await;
    let port = port(&fake, None);
    let (_never, cancel) = cancel_pair();
    fake.told.replace();
    for tool in ["bash", "bash_output", "bash_kill"] {
        let outcome = call(&port, tool, &cancel, || ()).await;
        assert_eq!(outcome.status, ToolStatus::Failed, "{tool}");
    }
    assert_eq!(fake.told.begun.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn calls_belong_to_the_session_and_a_new_one_is_opened_once_when_it_is_gone() {
    let fake = fake::start().await;
    let lease = lease(&fake, Duration::from_secs(300)).await;
    let port = port(&fake, Some(Arc::clone(&lease)));
    let (_never, cancel) = cancel_pair();
    let first = call(&port, "bash", &cancel, || ()).await;
    assert_eq!(first.text, "done");
    fake.told.sessions.lock().unwrap().clear();
    let parallel = tokio::join!(
        call(&port, "bash", &cancel, || ()),
        call(&port, "bash", &cancel, || ())
    );
    for outcome in [parallel.0, parallel.1] {
        assert_eq!(outcome.status, ToolStatus::Done, "{outcome:?}");
        assert!(
            outcome.text.starts_with("done\n[new session: "),
            "{outcome:?}"
        );
    }
    let last = call(&port, "bash", &cancel, || ()).await;
    assert_eq!(last.text, "done");
    assert_eq!(fake.told.sessions.lock().unwrap().len(), 1);
    let called_in = fake.told.called_in.lock().unwrap().clone();
    assert_eq!(called_in, ["s-1", "s-1-2", "s-1-2", "s-1-2"]);
    lease.close().await;
    assert!(fake.told.sessions.lock().unwrap().is_empty());
    assert_eq!(fake.told.deleted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_lease_is_renewed_while_nobody_calls_also_after_the_connection_broke() {
    let fake = fake::start().await;
    let lease = lease(&fake, Duration::from_millis(90)).await;
    let kept = |more: u32| {
        let wanted = fake.told.kept_alive.load(Ordering::Relaxed) + more;
        let told = Arc::clone(&fake.told);
        let reached = async move {
            while told.kept_alive.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reached)
    };
    kept(3).await.unwrap();
    fake.told.break_connections();
    kept(3).await.unwrap();
    drop(lease);
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
    let fake = fake::start().await;
    let port = port(&fake, None);
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
