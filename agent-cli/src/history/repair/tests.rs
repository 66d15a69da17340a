//! What interrupts and crashes leave, and that any conversation at all becomes a valid one.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::history::{Violation, check};

fn message(role: &str, content: &Value) -> Message {
    let role = if role == "U" {
        Role::User
    } else {
        Role::Assistant
    };
    Message::new(role, content.as_array().unwrap().clone())
}

fn repaired(messages: &[(&str, Value)]) -> Value {
    let messages: Vec<Message> = messages
        .iter()
        .map(|(role, content)| message(role, content))
        .collect();
    let out = repair(&messages);
    assert_eq!(check(&out), Ok(()));
    out.iter()
        .map(|it| serde_json::from_str::<Value>(it.json()).unwrap()["content"].clone())
        .collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": id})
}

#[test]
fn an_unanswered_call_gets_an_error_result_before_the_next_prompt() {
    let out = repaired(&[
        ("U", json!([text("u")])),
        ("A", json!([call("1"), call("2")])),
        ("U", json!([result("2"), text("go on")])),
    ]);
    assert_eq!(out[2], json!([lost("1"), result("2"), text("go on")]));
    assert_eq!(out[2][0]["is_error"], true);
    assert!(
        out[2][0]["content"]
            .as_str()
            .unwrap()
            .starts_with("interrupted")
    );
}

#[test]
fn a_call_at_the_very_end_is_answered_too() {
    let out = repaired(&[("U", json!([text("u")])), ("A", json!([call("1")]))]);
    assert_eq!(out[2], json!([lost("1")]));
}

#[test]
fn results_in_separate_messages_come_together() {
    let out = repaired(&[
        ("U", json!([text("u")])),
        ("A", json!([call("1"), call("2")])),
        ("U", json!([result("2")])),
        ("U", json!([text("t"), result("1")])),
    ]);
    assert_eq!(out[2], json!([result("1"), result("2"), text("t")]));
}

#[test]
fn orphans_and_blanks_are_dropped_and_what_falls_together_is_merged() {
    let out = repaired(&[
        ("A", json!([text("lead")])),
        ("U", json!([text("u"), text(" ")])),
        ("A", json!([text("a"), text("")])),
        ("U", json!([result("nobody")])),
        (
            "A",
            json!([text("b"), {"type": "thinking", "thinking": "t"}]),
        ),
        ("U", json!([text("v")])),
    ]);
    assert_eq!(
        out,
        json!([[text("u")], [text("a"), text("b")], [text("v")]])
    );
}

#[test]
fn what_is_in_order_keeps_its_bytes() {
    let messages = [
        message("U", &json!([text("u")])),
        message(
            "A",
            &json!([text("a"), call("1"), {"type": "new_kind", "z": 1, "a": 2}]),
        ),
        message("U", &json!([result("1"), text("v")])),
    ];
    assert_eq!(repair(&messages), messages);
}

fn any_block() -> impl Strategy<Value = Value> {
    let id = || prop::sample::select(vec!["1", "2", "3", "", "bad id"]);
    prop_oneof![
        prop::sample::select(vec!["", " ", "text"]).prop_map(text),
        id().prop_map(call),
        id().prop_map(result),
        prop::sample::select(vec!["", "sig"]).prop_map(
            |signature| json!({"type": "thinking", "thinking": "", "signature": signature})
        ),
        Just(json!({"type": "text", "text": "m", "cache_control": {"type": "ephemeral"}})),
        Just(json!({"type": "tool_use", "id": "4", "name": "bash", "input": []})),
        Just(json!({"type": "new_kind"})),
        Just(json!("no object")),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let role = prop::sample::select(vec![Role::User, Role::Assistant]);
    (role, prop::collection::vec(any_block(), 0..6))
        .prop_map(|(role, blocks)| Message::new(role, blocks))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_conversation_becomes_valid_and_repairing_again_changes_nothing(
        messages in prop::collection::vec(any_message(), 0..10),
    ) {
        let once = repair(&messages);
        let verdict = check(&once);
        let mendable = matches!(verdict, Ok(()) | Err(Violation::LastNotUser))
            || (once.is_empty() && verdict == Err(Violation::FirstNotUser));
        prop_assert!(mendable, "{verdict:?}: {once:?}");
        prop_assert_eq!(&repair(&once), &once);
    }
}
