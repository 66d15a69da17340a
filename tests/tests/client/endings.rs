//! How a turn ends, and what a script learns from it.

use agentd_tests::mock::{Message, MockApi, Reply, text, tool_use};
use serde_json::{Value, json};

use crate::stage::{client, judge, results, world};

fn reply(content: Vec<Value>) -> Reply {
    Reply::Message(Message::new(content))
}

#[test]
fn every_ending_has_its_exit_code() {
    let ended =
        |reason: &str| Reply::Message(Message::new(vec![text("an answer")]).stopping(reason));
    let table = [
        ("end_turn", 0),
        ("stop_sequence", 0),
        ("something_new", 0),
        ("max_tokens", 8),
        ("model_context_window_exceeded", 8),
        ("refusal", 7),
    ];
    let world = world();
    for (reason, code) in table {
        let mock = MockApi::start([ended(reason)]);
        let run = client(&world, &mock, &["run", "a question"]).run();
        assert_eq!(run.code, code, "{reason}: {run:?}");
        assert!(run.stdout.contains("an answer"), "{reason}: {run:?}");
        assert_eq!(judge(&mock).len(), 1, "{reason}: no ending is asked again");
    }
}

#[test]
fn content_decides_and_not_the_stop_reason() {
    let world = world();
    let call = Message::new(vec![tool_use("toolu_1", "echo ran")]).stopping("end_turn");
    let mock = MockApi::start([Reply::Message(call), reply(vec![text("done")])]);
    client(&world, &mock, &["run", "x"]).run().expect_code(0);
    let bodies = judge(&mock);
    assert!(results(&bodies[1])[0].1.contains("ran"), "{}", bodies[1]);
}

#[test]
fn a_call_cut_off_by_the_token_limit_never_runs() {
    let world = world();
    let cut = Message::new(vec![tool_use("toolu_1", "touch ran")]).stopping("max_tokens");
    let mock = MockApi::start([Reply::Message(cut), reply(vec![text("sorry")])]);
    client(&world, &mock, &["run", "x"]).run();
    assert!(!world.workspace.join("ran").exists());
    judge(&mock);
}

#[test]
fn the_turn_limit_ends_the_run_with_its_own_code() {
    let world = world();
    let calls = (0..3).map(|n| reply(vec![tool_use(&format!("toolu_{n}"), "true")]));
    let mock = MockApi::start(calls);
    let run = client(&world, &mock, &["run", "--max-turns", "2", "x"]).run();
    run.expect_code(3);
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(
        told.contains("[Agent loop stopped] Reached maximum turns"),
        "{run:?}"
    );
    judge(&mock);
}

#[test]
fn empty_and_blank_answers_are_survived() {
    let world = world();
    for content in [vec![], vec![text(" \n")]] {
        let mock = MockApi::start([reply(content), reply(vec![text("more")])]);
        let run = client(&world, &mock, &["run", "x"]).run();
        assert!(!run.stderr.contains("panicked"), "{run:?}");
        judge(&mock);
    }
}

#[test]
fn json_and_stream_json_are_one_object_a_line() {
    let world = world();
    let script = || {
        [
            reply(vec![tool_use("toolu_1", "echo out")]),
            reply(vec![text("final words")]),
        ]
    };
    let mock = MockApi::start(script());
    let run = client(
        &world,
        &mock,
        &["run", "--output-format", "stream-json", "x"],
    )
    .run();
    run.expect_code(0);
    let events: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(kinds.first(), Some(&"init"), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"result"), "{kinds:?}");
    for kind in ["tool_use", "tool_result", "message"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    judge(&mock);

    let mock = MockApi::start(script());
    let run = client(&world, &mock, &["run", "--output-format", "json", "x"]).run();
    run.expect_code(0);
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    assert!(run.json().to_string().contains("final words"), "{run:?}");
    judge(&mock);
}

#[test]
fn lone_surrogates_from_a_model_become_replacement_characters() {
    let world = world();
    // The mock's own JSON cannot hold one, so the call is sent as text that holds the escape.
    let escape = json!({"type": "tool_use", "id": "toolu_1", "name": "bash",
                        "input": {"command": "printf '%s' '\\ud83d'"}});
    let mock = MockApi::start([reply(vec![escape]), reply(vec![text("done")])]);
    client(&world, &mock, &["run", "x"]).run().expect_code(0);
    judge(&mock);
}
