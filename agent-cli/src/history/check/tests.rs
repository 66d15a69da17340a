//! Each rule broken once, each with a control that keeps it.

use serde_json::json;

use super::*;

fn conversation(messages: &[(&str, Value)]) -> Vec<Message> {
    let make = |(role, content): &(&str, Value)| {
        let role = if *role == "U" {
            Role::User
        } else {
            Role::Assistant
        };
        Message::new(role, content.as_array().unwrap().clone())
    };
    messages.iter().map(make).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": ""})
}

fn pairing(at: usize, what: &'static str) -> Result<(), Violation> {
    Err(Violation::Pairing { at, what })
}

#[test]
fn valid_conversations_pass() {
    let u = || ("U", json!([text("hi")]));
    let cases = [
        vec![u()],
        vec![
            u(),
            ("A", json!([text("a"), call("1"), call("2")])),
            ("U", json!([result("1"), result("2"), text("and")])),
        ],
        vec![
            u(),
            (
                "A",
                json!([{"type": "thinking", "thinking": "", "signature": "s"}, text("a")]),
            ),
            u(),
        ],
        vec![
            u(),
            ("A", json!([{"type": "redacted_thinking", "data": "x"}])),
            u(),
        ],
        vec![(
            "U",
            json!([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]),
        )],
    ];
    for case in cases {
        assert_eq!(check(&conversation(&case)), Ok(()), "{case:?}");
    }
}

#[test]
fn role_rules_are_enforced() {
    let (u, a) = (|| ("U", json!([text("u")])), || ("A", json!([text("a")])));
    let cases = [
        (vec![], Err(Violation::FirstNotUser)),
        (vec![a(), u()], Err(Violation::FirstNotUser)),
        (vec![u(), a()], Err(Violation::LastNotUser)),
        (vec![u(), u()], Err(Violation::EqualRoles { at: 1 })),
        (
            vec![u(), a(), a(), u()],
            Err(Violation::EqualRoles { at: 2 }),
        ),
    ];
    for (case, expected) in cases {
        assert_eq!(check(&conversation(&case)), expected, "{case:?}");
    }
}

#[test]
fn content_rules_are_enforced() {
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let cases = [
        (json!([]), Violation::Empty { at: 0 }),
        (json!([{"text": "no type"}]), Violation::Empty { at: 0 }),
        (json!([text("")]), Violation::BlankText { at: 0 }),
        (
            json!([text("a"), text(" \n\t")]),
            Violation::BlankText { at: 0 },
        ),
        (
            json!([{"type": "thinking", "thinking": "t", "signature": "s"}]),
            Violation::Thinking { at: 0 },
        ),
        (json!([marked, marked]), Violation::Marker { at: 0 }),
    ];
    for (content, expected) in cases {
        assert_eq!(
            check(&conversation(&[("U", content.clone())])),
            Err(expected),
            "{content}"
        );
    }
    let unsigned = json!([{"type": "thinking", "thinking": "t", "signature": ""}]);
    let case = [
        ("U", json!([text("u")])),
        ("A", unsigned),
        ("U", json!([text("u")])),
    ];
    assert_eq!(
        check(&conversation(&case)),
        Err(Violation::Thinking { at: 1 })
    );
}

/// Judges a prompt, an assistant message and a user message.
fn judge_pair(assistant: Value, user: Value) -> Result<(), Violation> {
    check(&conversation(&[
        ("U", json!([text("u")])),
        ("A", assistant),
        ("U", user),
    ]))
}

#[test]
fn results_must_answer_the_calls_in_order() {
    let no_result = "a call has no result";
    let order = "a result has no call, or the order is not that of the calls";
    let cases = [
        (
            json!([call("1")]),
            json!([text("next")]),
            pairing(2, no_result),
        ),
        (
            json!([call("1"), call("2")]),
            json!([result("1")]),
            pairing(2, no_result),
        ),
        (
            json!([call("1"), call("2")]),
            json!([result("2"), result("1")]),
            pairing(2, order),
        ),
        (
            json!([call("1")]),
            json!([result("1"), result("1")]),
            pairing(2, order),
        ),
        (json!([text("a")]), json!([result("1")]), pairing(2, order)),
        (
            json!([call("1")]),
            json!([text("t"), result("1")]),
            pairing(2, "a result stands behind other content"),
        ),
    ];
    for (assistant, user, expected) in cases {
        assert_eq!(
            judge_pair(assistant.clone(), user.clone()),
            expected,
            "{assistant} {user}"
        );
    }
    let dangling = [("U", json!([text("u")])), ("A", json!([call("1")]))];
    assert_eq!(check(&conversation(&dangling)), pairing(1, no_result));
}

#[test]
fn calls_must_be_of_the_form_that_the_api_takes() {
    let bad_input = json!({"type": "tool_use", "id": "1", "name": "bash", "input": "ls"});
    let bad_name = json!({"type": "tool_use", "id": "1", "name": "a b", "input": {}});
    let cases = [
        (
            json!([call("1"), call("1")]),
            json!([result("1")]),
            pairing(1, "an id of a call is used twice"),
        ),
        (
            json!([call("a|b")]),
            json!([result("a|b")]),
            pairing(1, "a call has no valid id"),
        ),
        (
            json!([bad_name]),
            json!([result("1")]),
            pairing(1, "a call has no valid name"),
        ),
        (
            json!([bad_input]),
            json!([result("1")]),
            pairing(1, "a call's input is not an object"),
        ),
        (
            json!([result("1")]),
            json!([text("u")]),
            pairing(1, "a result of the assistant"),
        ),
        (
            json!([text("a")]),
            json!([call("1")]),
            pairing(2, "a call of the user"),
        ),
    ];
    for (assistant, user, expected) in cases {
        assert_eq!(
            judge_pair(assistant.clone(), user.clone()),
            expected,
            "{assistant} {user}"
        );
    }
}

#[test]
fn an_id_may_not_come_back_later() {
    let round = [("A", json!([call("1")])), ("U", json!([result("1")]))];
    let mut case = vec![("U", json!([text("u")]))];
    case.extend(round.clone());
    assert_eq!(check(&conversation(&case)), Ok(()));
    case.extend(round);
    assert_eq!(
        check(&conversation(&case)),
        pairing(3, "an id of a call is used twice")
    );
}
