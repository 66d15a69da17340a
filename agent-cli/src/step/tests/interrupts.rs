//! Interrupts in every phase, and inputs that come at the wrong time.

use super::*;
use crate::agent::EndReason;

#[test]
fn an_interrupted_reply_keeps_its_text_with_a_mark() {
    let mut session = Session::prompted();
    session.interrupt("I will now ");
    assert_eq!(session.end().reason, EndReason::Interrupted);
    let kept = json!([text("I will now\n[The reply was interrupted by the user.]")]);
    assert_eq!(session.last_content(), kept);
}

#[test]
fn an_interrupt_while_permissions_are_asked_answers_every_call() {
    let mut session = Session::prompted();
    session.reply("tool_use", vec![call("1"), call("2"), call("3")]);
    session.deny();
    session.allow();
    session.interrupt("");
    assert_eq!(session.end().reason, EndReason::Interrupted);
    let text = "interrupted by the user before it ran";
    let denial = "Permission denied by user for tool: bash";
    assert_eq!(
        session.last_content(),
        json!([error("1", denial), error("2", text), error("3", text)])
    );
}

#[test]
fn an_interrupt_while_tools_run_waits_for_what_they_printed() {
    let mut session = Session::prompted();
    session.reply("tool_use", vec![call("1"), call("2"), call("3")]);
    for _ in 0..3 {
        session.allow();
    }
    session.finished("2", done("whole"));
    assert_eq!(session.interrupt(""), [Effect::CancelTools]);
    assert_eq!(session.interrupt(""), []);
    session.finished("1", ToolOutcome::of_text(ToolStatus::Interrupted, "half\n"));
    session.finished("3", ToolOutcome::of_text(ToolStatus::Interrupted, ""));
    assert_eq!(session.end().reason, EndReason::Interrupted);
    let text = "interrupted by the user before it finished";
    let half = format!("{text}; until then:\nhalf");
    assert_eq!(
        session.last_content(),
        json!([error("1", &half), result("2", "whole"), error("3", text)])
    );
    session.prompt("what now?");
    assert!(session.asks_model());
    assert_eq!(session.last_content()[3], text_block("what now?"));
}

#[test]
fn a_prompt_in_the_middle_of_a_turn_closes_what_was_open() {
    let mut session = Session::prompted();
    session.reply("tool_use", vec![call("1")]);
    session.allow();
    session.prompt("never mind");
    assert_eq!(session.effects[0], Effect::CancelTools);
    assert!(session.asks_model());
    let content = session.last_content();
    assert_eq!(
        content[0],
        error("1", "interrupted by the user before it finished")
    );
    assert_eq!(session.finished("1", done("late")), []);
}

#[test]
fn inputs_that_do_not_fit_change_nothing() {
    let mut session = Session::new();
    assert_eq!(session.interrupt("x"), []);
    assert_eq!(session.allow(), []);
    assert_eq!(session.finished("1", done("x")), []);
    assert_eq!(session.reply("end_turn", vec![text("x")]), []);
    assert!(session.messages().is_empty());
    session.prompt("go");
    session.reply("tool_use", vec![call("1")]);
    session.allow();
    assert_eq!(session.finished("other", done("x")), []);
    session.finished("1", done("x"));
    assert_eq!(session.finished("1", done("twice")), []);
}
