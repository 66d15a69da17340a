//! Rounds of calls, one situation each.

use super::*;
use crate::agent::EndReason;
use crate::model::BlockFault;

#[test]
fn calls_are_run_whatever_the_stop_reason_says() {
    for stop in [
        "tool_use",
        "end_turn",
        "stop_sequence",
        "pause_turn",
        "brand_new",
        "",
    ] {
        let mut session = Session::prompted();
        session.reply(stop, vec![text("let me look"), call("1")]);
        assert_eq!(
            session.effects.last(),
            Some(&Effect::AskPermission(call_of("1"))),
            "{stop}"
        );
        session.allow();
        assert_eq!(
            session.effects,
            [Effect::RunTools(vec![call_of("1")])],
            "{stop}"
        );
        session.finished("1", done("out"));
        assert!(session.asks_model(), "{stop}");
        assert_eq!(
            session.last_content(),
            json!([result("1", "out")]),
            "{stop}"
        );
    }
}

#[test]
fn a_call_is_shown_before_its_permission_is_asked() {
    let mut session = Session::prompted();
    session.reply("tool_use", vec![call("1"), call("2")]);
    let (one, two) = (call_of("1"), call_of("2"));
    assert_eq!(
        session.effects,
        [
            Effect::ShowCall(one.clone()),
            Effect::AskPermission(one.clone())
        ]
    );
    session.allow();
    assert_eq!(
        session.effects,
        [
            Effect::ShowCall(two.clone()),
            Effect::AskPermission(two.clone())
        ]
    );
    session.allow();
    assert_eq!(session.effects, [Effect::RunTools(vec![one, two])]);
}

#[test]
fn results_go_back_in_call_order_in_one_message_whatever_finishes_first() {
    let mut session = Session::prompted();
    session.reply(
        "tool_use",
        vec![call("1"), text("and"), call("2"), call("3")],
    );
    session.allow();
    session.deny();
    session.allow();
    assert_eq!(
        session.effects.last(),
        Some(&Effect::RunTools(vec![call_of("1"), call_of("3")]))
    );
    session.finished("3", ToolOutcome::failed("broken"));
    assert!(!session.asks_model());
    session.finished("1", done(" \n"));
    assert!(session.asks_model());
    let denial = "Permission denied by user for tool: bash";
    let expected = json!([
        result("1", "(no output)"),
        error("2", denial),
        error("3", "broken")
    ]);
    assert_eq!(session.last_content(), expected);
}

#[test]
fn a_denial_names_its_reason_and_the_loop_goes_on() {
    let mut session = Session::prompted();
    session.reply("tool_use", vec![call("1")]);
    session.feed(Input::Permission(Decision::Deny {
        reason: Some("no terminal".into()),
    }));
    assert!(session.asks_model());
    let expected = "Permission denied by user for tool: bash (no terminal)";
    assert_eq!(session.last_content(), json!([error("1", expected)]));
}

#[test]
fn calls_that_cannot_run_are_answered_without_asking() {
    let broken = ReplyBlock {
        value: call("1"),
        fault: Some(BlockFault::InputNotJson("EOF at 7".into())),
    };
    let block = |value: Value| ReplyBlock::from(value);
    let cases = [
        (
            broken,
            "Error: the input of this call is not valid JSON (EOF at 7)",
        ),
        (
            block(json!({"type": "tool_use", "id": "1", "name": "bash", "input": "ls"})),
            "Error: the input of this call is not a JSON object",
        ),
        (
            block(json!({"type": "tool_use", "id": "1", "name": "bash"})),
            "Error: the input of this call is not a JSON object",
        ),
        (
            block(json!({"type": "tool_use", "id": "1", "name": "fly", "input": {}})),
            "Unknown tool: fly (available: bash)",
        ),
        (
            block(json!({"type": "tool_use", "id": "1", "name": "ba sh", "input": {}})),
            "Unknown tool: ba sh",
        ),
    ];
    for (block, expected) in cases {
        let mut session = Session::prompted();
        let mut reply = reply("tool_use", vec![]);
        reply.blocks.push(block);
        session.feed(Input::ReplyCompleted(reply));
        assert!(
            matches!(session.effects[0], Effect::ShowCall(_)),
            "{:?}",
            session.effects
        );
        assert!(session.asks_model(), "{:?}", session.effects);
        let content = session.last_content();
        assert!(
            content[0]["content"]
                .as_str()
                .unwrap()
                .starts_with(expected),
            "{content}"
        );
        assert_eq!(content[0]["is_error"], true);
    }
}

#[test]
fn calls_of_a_cut_off_reply_are_answered_and_never_run() {
    let mut session = Session::prompted();
    for round in 1..=2 {
        session.reply(
            "max_tokens",
            vec![call(&format!("{round}a")), call(&format!("{round}b"))],
        );
        assert!(session.asks_model(), "round {round}");
        assert!(session.shown()[0].starts_with("[Warning] Response was truncated"));
        let content = session.last_content();
        assert!(
            content[1]["content"]
                .as_str()
                .unwrap()
                .contains("output limit"),
            "{content}"
        );
        assert_eq!(content.as_array().unwrap().len(), 2);
    }
    session.reply("max_tokens", vec![call("3")]);
    assert_eq!(session.end().reason, EndReason::Truncated);
    session.prompt("go on");
    assert!(session.asks_model());
}

#[test]
fn a_whole_reply_resets_the_count_of_cut_off_ones() {
    let mut session = Session::prompted();
    for round in 0..6 {
        let stop = if round % 2 == 0 {
            "max_tokens"
        } else {
            "tool_use"
        };
        session.reply(stop, vec![call(&round.to_string())]);
        if stop == "tool_use" {
            session.deny();
        }
        assert!(session.asks_model(), "round {round}");
    }
}

#[test]
fn a_full_window_answers_the_calls_and_ends_the_turn() {
    let mut session = Session::prompted();
    session.reply("model_context_window_exceeded", vec![call("1")]);
    assert_eq!(session.end().reason, EndReason::Truncated);
    assert_eq!(session.last_content()[0]["is_error"], true);
}

#[test]
fn ids_that_come_back_are_renamed_and_their_results_follow() {
    let mut session = Session::prompted();
    for _ in 0..2 {
        session.reply("tool_use", vec![call("call_0")]);
        session.deny();
    }
    assert_eq!(session.last_content()[0]["tool_use_id"], "call_0_2");
    assert_eq!(session.messages()[3].content()[0]["id"], "call_0_2");
}
