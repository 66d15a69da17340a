//! How turns end, one situation each.

use super::*;
use crate::agent::EndReason;

#[test]
fn a_reply_without_calls_ends_the_turn_with_its_text() {
    for stop in ["end_turn", "stop_sequence"] {
        let mut session = Session::prompted();
        session.reply(stop, vec![text("hel"), text("lo")]);
        assert_eq!(
            (session.end().reason.clone(), session.end().text.as_str()),
            (EndReason::Done, "hello")
        );
        assert_eq!(session.end().usage.input, 10);
        assert_eq!(session.messages().len(), 2);
    }
}

#[test]
fn endings_without_calls_follow_the_table() {
    let warning = "[Warning] Response was truncated";
    let cases = [
        (
            "tool_use",
            "x",
            EndReason::Done,
            "[Note] The model announced",
        ),
        ("max_tokens", "x", EndReason::Truncated, warning),
        (
            "model_context_window_exceeded",
            "x",
            EndReason::Truncated,
            warning,
        ),
        ("refusal", "", EndReason::Refusal, "[Refusal]"),
        (
            "sensitive",
            "",
            EndReason::Refusal,
            "[Refusal] The model declined to answer (sensitive)",
        ),
        (
            "brand_new",
            "x",
            EndReason::Done,
            "[Note] The model stopped for a reason this client does not know: brand_new",
        ),
        (
            "",
            "x",
            EndReason::Done,
            "[Note] The model stopped for a reason this client does not know: no reason",
        ),
    ];
    for (stop, said, reason, shown) in cases {
        let mut session = Session::prompted();
        session.reply(
            stop,
            if said.is_empty() {
                vec![]
            } else {
                vec![text(said)]
            },
        );
        assert_eq!(session.end().reason, reason, "{stop}");
        assert!(
            session.shown()[0].starts_with(shown),
            "{stop}: {:?}",
            session.shown()
        );
        assert!(
            session.end().text.starts_with(said),
            "{stop}: {:?}",
            session.end().text
        );
    }
}

#[test]
fn the_truncation_warning_ends_the_final_text() {
    let mut session = Session::prompted();
    session.reply("max_tokens", vec![text("half an ans")]);
    let expected = "half an ans\n[Warning] Response was truncated (max_tokens reached).";
    assert_eq!(session.end().text, expected);
}

#[test]
fn tool_use_with_empty_content_appends_nothing() {
    let mut session = Session::prompted();
    session.reply("tool_use", vec![]);
    assert_eq!(session.messages().len(), 1);
    assert_eq!(session.end().reason, EndReason::Done);
    session.prompt("again");
    assert!(session.asks_model());
}

#[test]
fn a_turn_in_which_every_call_was_denied_ends_as_denied() {
    for (allowed_first, reason) in [(false, EndReason::Denied), (true, EndReason::Done)] {
        let mut session = Session::prompted();
        session.reply("tool_use", vec![call("1"), call("2")]);
        if allowed_first {
            session.allow();
            session.deny();
            session.finished("1", done("x"));
        } else {
            session.deny();
            session.deny();
        }
        session.reply("end_turn", vec![text("I could not")]);
        assert_eq!(session.end().reason, reason);
        assert_eq!(
            session.end().denials.len(),
            if allowed_first { 1 } else { 2 }
        );
    }
}

#[test]
fn a_paused_turn_is_sent_back_and_continued_but_not_for_ever() {
    let mut session = Session::prompted();
    session.reply(
        "pause_turn",
        vec![json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})],
    );
    assert!(session.asks_model());
    session.reply("end_turn", vec![text("done")]);
    assert_eq!(
        (session.end().text.as_str(), session.messages().len()),
        ("done", 2)
    );
    session.prompt("next");
    let mut pauses = 0;
    while session.asks_model() {
        session.reply("pause_turn", vec![text("…")]);
        pauses += 1;
    }
    assert_eq!((pauses, &session.end().reason), (11, &EndReason::Truncated));
}

#[test]
fn a_refusal_is_not_replayed_and_runs_nothing() {
    let mut session = Session::prompted();
    session.reply("refusal", vec![text("part"), call("1")]);
    assert_eq!(session.end().reason, EndReason::Refusal);
    assert_eq!(
        session.last_content(),
        json!([text("[The model declined to answer this message.]")])
    );
    session.prompt("something else");
    assert!(session.asks_model());
}

#[test]
fn only_tool_rounds_count_and_the_limit_stops_with_the_seeds_words() {
    let mut session = Session::with_max_turns(2);
    session.prompt("go");
    for id in ["1", "2"] {
        session.reply("tool_use", vec![call(id)]);
        session.allow();
        session.finished(id, done("x"));
    }
    assert_eq!(
        session.end().text,
        "[Agent loop stopped] Reached maximum turns (2)."
    );
    assert_eq!(
        (session.end().iterations, &session.end().reason),
        (2, &EndReason::MaxTurns)
    );
    session.prompt("go on");
    assert!(session.asks_model());
    assert_eq!(
        session.last_content(),
        json!([result("2", "x"), text("go on")])
    );
    session.reply("end_turn", vec![text("ok")]);
    assert_eq!(
        (session.end().iterations, &session.end().reason),
        (0, &EndReason::Done)
    );
}

#[test]
fn a_failed_call_keeps_what_was_said_and_the_next_prompt_is_valid() {
    for (partial, roles) in [("", 3), ("I was about to", 3)] {
        let mut session = Session::prompted();
        let failure = || Input::ReplyFailed {
            class: ErrorClass::Unreachable,
            message: "no route".into(),
            partial: partial.into(),
        };
        session.feed(failure());
        let reason = EndReason::Failed {
            class: ErrorClass::Unreachable,
            message: "no route".into(),
        };
        assert_eq!(
            (&session.end().reason, session.end().text.as_str()),
            (&reason, partial)
        );
        session.prompt("again");
        assert!(session.asks_model());
        assert_eq!(session.messages().len(), roles);
        let kept = session.messages()[1].text();
        assert!(
            kept.starts_with(partial) && !kept.contains("no route"),
            "{kept}"
        );
    }
}

#[test]
fn blank_prompts_are_not_sent() {
    let mut session = Session::new();
    session.prompt(" \n");
    assert!(matches!(
        session.end().reason,
        EndReason::Failed {
            class: ErrorClass::Usage,
            ..
        }
    ));
    assert!(session.messages().is_empty());
}
