//! The driver in a small world. Every request is checked by the world itself: valid, and an extension of
//! the one before.

mod world;

use std::time::Duration;

use serde_json::{Value, json};
use world::{Turn, World, answer, calls, text};

use super::*;
use crate::provider::ErrorClass;

fn never() -> (Canceller, Cancel) {
    cancel_pair()
}

fn last_results(agent: &Agent) -> Vec<(String, bool)> {
    let is_results = |message: &&Message| message.content()[0]["type"] == "tool_result";
    let results = agent.messages().iter().rev().find(is_results).unwrap();
    let result = |block: &Value| {
        (
            block["content"].as_str().unwrap().to_owned(),
            block["is_error"] == true,
        )
    };
    results
        .content()
        .iter()
        .filter(|block| block["type"] == "tool_result")
        .map(result)
        .collect()
}

#[tokio::test]
async fn a_turn_goes_through_all_ports_in_order() {
    let (world, _lines) = World::new(vec![
        calls(&[("1", "ls"), ("2", "forbidden")]),
        answer("fine"),
    ]);
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    let end = agent.run("go", &cancel).await;
    assert_eq!(
        (end.reason, end.text.as_str(), end.iterations),
        (EndReason::Done, "fine", 1)
    );
    assert_eq!(end.denials, ["bash"]);
    assert_eq!(
        world.log(),
        [
            "request",
            "reply 2",
            "call 1",
            "ask 1",
            "call 2",
            "ask 2",
            "result 2 Failed Permission denied by user for tool: bash",
            "start 1",
            "output 1 ls",
            "result 1 Done ls",
            "request",
            "text fine",
            "reply 1",
            "end done",
        ]
    );
}

#[tokio::test]
async fn calls_of_one_reply_run_at_the_same_time() {
    let (world, _lines) = World::new(vec![
        calls(&[("1", "together"), ("2", "together")]),
        answer("ok"),
    ]);
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    let turn = tokio::time::timeout(Duration::from_secs(20), agent.run("go", &cancel));
    assert_eq!(turn.await.unwrap().reason, EndReason::Done);
    assert_eq!(
        last_results(&agent),
        [("met".to_owned(), false), ("met".to_owned(), false)]
    );
}

#[tokio::test]
async fn an_interrupted_reply_keeps_its_text_and_the_session() {
    let (world, mut lines) = World::new(vec![Turn::Stall("thinking about"), answer("ok")]);
    let mut agent = world.agent();
    let (canceller, cancel) = cancel_pair();
    let interrupt = async {
        lines.wait_for("text thinking about").await;
        canceller.cancel();
    };
    let (end, ()) = tokio::join!(agent.run("go", &cancel), interrupt);
    assert_eq!(
        (end.reason, end.text.as_str()),
        (EndReason::Interrupted, "thinking about")
    );
    let (_canceller, cancel) = never();
    assert_eq!(agent.run("and now?", &cancel).await.reason, EndReason::Done);
    assert_eq!(agent.messages().len(), 4);
}

#[tokio::test]
async fn an_interrupt_at_a_permission_withdraws_the_question() {
    let (world, mut lines) = World::new(vec![calls(&[("1", "ls"), ("2", "unsure")]), answer("ok")]);
    let mut agent = world.agent();
    let (canceller, cancel) = cancel_pair();
    let interrupt = async {
        lines.wait_for("ask 2").await;
        canceller.cancel();
    };
    let (end, ()) = tokio::join!(agent.run("go", &cancel), interrupt);
    assert_eq!(end.reason, EndReason::Interrupted);
    let text = "interrupted by the user before it ran".to_owned();
    assert_eq!(last_results(&agent), [(text.clone(), true), (text, true)]);
    let (_canceller, cancel) = never();
    assert_eq!(agent.run("and now?", &cancel).await.reason, EndReason::Done);
}

#[tokio::test]
async fn an_interrupt_stops_running_tools_and_keeps_what_they_printed() {
    let (world, mut lines) = World::new(vec![calls(&[("1", "hang"), ("2", "ls")]), answer("ok")]);
    let mut agent = world.agent();
    let (canceller, cancel) = cancel_pair();
    let interrupt = async {
        lines.wait_for("result 2 Done ls").await;
        canceller.cancel();
    };
    let (end, ()) = tokio::join!(agent.run("go", &cancel), interrupt);
    assert_eq!(end.reason, EndReason::Interrupted);
    let half = "interrupted by the user before it finished; until then:\nhalf".to_owned();
    assert_eq!(
        last_results(&agent),
        [(half, true), ("ls".to_owned(), false)]
    );
    let (_canceller, cancel) = never();
    assert_eq!(agent.run("and now?", &cancel).await.reason, EndReason::Done);
    assert_eq!(world.requests.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_stop_is_left_behind() {
    let (world, mut lines) = World::new(vec![calls(&[("1", "deaf"), ("2", "hang")]), answer("ok")]);
    let mut agent = world.agent();
    let (canceller, cancel) = cancel_pair();
    let interrupt = async {
        lines.wait_for("output 1 deaf").await;
        canceller.cancel();
    };
    let (end, ()) = tokio::join!(agent.run("go", &cancel), interrupt);
    assert_eq!(end.reason, EndReason::Interrupted);
    assert_eq!(
        last_results(&agent)[0].0,
        "interrupted by the user before it finished"
    );
    assert!(last_results(&agent)[1].0.ends_with("half"));
    let (_canceller, cancel) = never();
    assert_eq!(agent.run("and now?", &cancel).await.reason, EndReason::Done);
}

#[tokio::test]
async fn a_panicking_tool_is_a_result_and_its_siblings_are_kept() {
    let (world, _lines) = World::new(vec![calls(&[("1", "panic"), ("2", "ls")]), answer("ok")]);
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    assert_eq!(agent.run("go", &cancel).await.reason, EndReason::Done);
    let results = last_results(&agent);
    assert!(
        results[0].0.contains("failed inside the client") && results[0].1,
        "{results:?}"
    );
    assert_eq!(results[1], ("ls".to_owned(), false));
}

#[tokio::test]
async fn a_dropped_turn_leaves_a_session_that_can_go_on() {
    let (world, mut lines) = World::new(vec![calls(&[("1", "hang")]), answer("ok")]);
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    tokio::select! {
        end = agent.run("go", &cancel) => panic!("{end:?}"),
        () = lines.wait_for("output 1 half") => {}
    }
    assert_eq!(agent.run("go on", &cancel).await.reason, EndReason::Done);
    assert!(last_results(&agent)[0].1);
    assert_eq!(agent.messages()[2].content()[1], text("go on"));
}

#[tokio::test]
async fn a_broken_call_ends_the_turn_with_its_kind_and_the_session_goes_on() {
    let (world, _lines) = World::new(vec![Turn::Break("half"), Turn::Break(""), answer("ok")]);
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    for text in ["half", ""] {
        let end = agent.run("go", &cancel).await;
        let EndReason::Failed {
            class: ErrorClass::Broken,
            message,
        } = end.reason
        else {
            panic!("{end:?}")
        };
        assert!(message.contains("cut"), "{message}");
        assert_eq!(end.text, text);
    }
    assert_eq!(agent.run("go", &cancel).await.reason, EndReason::Done);
}

#[tokio::test]
async fn sixty_rounds_of_parallel_calls_stay_valid() {
    let round = |index: usize| {
        let (a, b) = (format!("a{index}"), format!("b{index}"));
        calls(&[
            (&a, "ls"),
            (
                &b,
                if index.is_multiple_of(7) {
                    "forbidden"
                } else {
                    "pwd"
                },
            ),
        ])
    };
    let turns = (0..60).map(round).chain([answer("ok")]).collect();
    let (world, _lines) = World::new(turns);
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    let end = agent.run("go", &cancel).await;
    assert_eq!((end.reason, end.iterations), (EndReason::MaxTurns, 50));
    let end = agent.run("go on", &cancel).await;
    assert_eq!((end.reason, end.iterations), (EndReason::Done, 10));
    assert_eq!(world.requests.lock().unwrap().len(), 61);
}

#[tokio::test]
async fn a_script_that_reality_contradicts_fails_the_turn() {
    let script = r#"[
        {"content": [{"type": "tool_use", "name": "bash", "input": {"command": "ls"}}], "stop_reason": "tool_use"},
        {"expect_contains": ["PASSED"], "content": [{"type": "text", "text": "all is well"}], "stop_reason": "end_turn"}
    ]"#;
    let (world, _lines) = World::new(Vec::new());
    let provider = crate::provider::scripted::ScriptedProvider::from_json(script, &[]).unwrap();
    let mut agent = world.agent();
    agent.ports.provider = Arc::new(provider);
    let (_canceller, cancel) = never();
    let end = agent.run("go", &cancel).await;
    let EndReason::Failed {
        class: ErrorClass::Script,
        message,
    } = end.reason
    else {
        panic!("{end:?}")
    };
    assert!(message.contains("expects \"PASSED\""), "{message}");
}

#[test]
fn the_system_prompt_starts_with_the_seeds_words_and_holds_no_date() {
    let prompt = system_prompt("/w");
    let seed = "You are a coding agent at /w. Use bash to solve tasks. Act, don't explain.";
    assert!(prompt.starts_with(seed), "{prompt}");
    assert_eq!(prompt, system_prompt("/w"));
    assert_eq!(json!(Settings::new("m", "/w").max_tokens), 8000);
    assert_eq!(Settings::new("m", "/w").max_turns, 50);
}

#[test]
fn exit_codes_are_those_of_the_command_line() {
    let failed = EndReason::Failed {
        class: ErrorClass::Auth,
        message: String::new(),
    };
    let cases = [
        (EndReason::Done, 0),
        (failed, 1),
        (EndReason::MaxTurns, 3),
        (EndReason::Denied, 6),
        (EndReason::Refusal, 7),
        (EndReason::Truncated, 8),
        (EndReason::Interrupted, 130),
    ];
    for (reason, code) in cases {
        assert_eq!(reason.exit_code().code(), code, "{reason:?}");
    }
    let rest = [
        ExitCode::Usage,
        ExitCode::Budget,
        ExitCode::DoomLoop,
        ExitCode::Terminated,
    ];
    assert_eq!(rest.map(ExitCode::code), [2, 4, 5, 143]);
}

#[test]
fn a_turn_can_be_spawned_on_any_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (world, _lines) = World::new(Vec::new());
    let mut agent = world.agent();
    let (_canceller, cancel) = never();
    drop(is_send(agent.run("go", &cancel)));
}
