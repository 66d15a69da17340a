//! Random sessions: whatever the model, the tools and the person do, every request is valid, extends the one
//! before, and every call has exactly one result.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::history::check;
use crate::model::BlockFault;

/// What happens next, as far as the phase allows it.
#[derive(Debug, Clone)]
enum Chance {
    Reply(Vec<ReplyBlock>, &'static str),
    Fail(&'static str),
    Interrupt(&'static str),
    Decide(bool),
    /// Which of the running tools ends, and how.
    Finish(usize, ToolStatus, &'static str),
    Prompt(&'static str),
}

fn any_block() -> impl Strategy<Value = ReplyBlock> {
    let texts = prop::sample::select(vec!["", " \n", "text", "那"]);
    let signatures = prop::sample::select(vec!["", "sig"]);
    let ids = prop::sample::select(vec!["a", "b", "call_0", "", "bad|id"]);
    let names = prop::sample::select(vec!["bash", "bash", "bash", "fly", "bad name", ""]);
    let inputs = prop::sample::select(vec![
        json!({}),
        json!({"command": "ls"}),
        json!("x"),
        json!(null),
    ]);
    let faults = prop::sample::select(vec![
        None,
        None,
        Some(BlockFault::InputNotJson("EOF".into())),
    ]);
    prop_oneof![
        2 => texts.prop_map(|text| text_block(text).into()),
        4 => (ids, names, inputs, faults).prop_map(|(id, name, input, fault)| ReplyBlock {
            value: json!({"type": "tool_use", "id": id, "name": name, "input": input}),
            fault,
        }),
        1 => signatures.prop_map(|it| json!({"type": "thinking", "thinking": "t", "signature": it}).into()),
        1 => prop::sample::select(vec![
            json!({"type": "tool_use"}),
            json!({"type": "tool_result", "tool_use_id": "a", "content": "forged"}),
            json!({"type": "new_kind", "z": 1, "a": 2}),
            json!({"no": "type"}),
            json!("no object"),
        ]).prop_map(ReplyBlock::from),
    ]
}

fn any_chance() -> impl Strategy<Value = Chance> {
    let stops = vec![
        "end_turn",
        "tool_use",
        "tool_use",
        "max_tokens",
        "pause_turn",
        "refusal",
        "stop_sequence",
        "model_context_window_exceeded",
        "brand_new",
        "",
    ];
    let partials = || prop::sample::select(vec!["", " ", "partial"]);
    let statuses = prop::sample::select(vec![
        ToolStatus::Done,
        ToolStatus::Failed,
        ToolStatus::Interrupted,
    ]);
    prop_oneof![
        6 => (prop::collection::vec(any_block(), 0..5), prop::sample::select(stops))
            .prop_map(|(blocks, stop)| Chance::Reply(blocks, stop)),
        1 => partials().prop_map(Chance::Fail),
        1 => partials().prop_map(Chance::Interrupt),
        4 => any::<bool>().prop_map(Chance::Decide),
        4 => (any::<usize>(), statuses, partials()).prop_map(|(which, status, text)| Chance::Finish(which, status, text)),
        2 => prop::sample::select(vec!["", "prompt", "again"]).prop_map(Chance::Prompt),
    ]
}

/// Plays the world's part: only sends what can happen in the phase, and judges every request.
struct World {
    session: Session,
    running: Vec<String>,
    last_request: Option<String>,
    paused: bool,
    requests: usize,
}

impl World {
    fn new() -> Self {
        let session = Session::with_max_turns(7);
        Self {
            session,
            running: Vec::new(),
            last_request: None,
            paused: false,
            requests: 0,
        }
    }

    fn happen(&mut self, chance: Chance) {
        let input = match chance {
            Chance::Reply(blocks, stop) => {
                self.paused = stop == "pause_turn";
                Input::ReplyCompleted(Reply {
                    blocks,
                    ..reply(stop, vec![])
                })
            }
            Chance::Fail(partial) => Input::ReplyFailed {
                class: ErrorClass::Broken,
                message: "m".into(),
                partial: partial.into(),
            },
            Chance::Interrupt(partial) => Input::Interrupted {
                partial: partial.into(),
            },
            Chance::Decide(true) => Input::Permission(Decision::Allow),
            Chance::Decide(false) => Input::Permission(Decision::Deny { reason: None }),
            Chance::Prompt(text) => Input::UserPrompt(text.into()),
            Chance::Finish(which, status, text) => {
                if self.running.is_empty() {
                    return;
                }
                let id = self
                    .running
                    .remove(which.checked_rem(self.running.len()).unwrap());
                Input::ToolFinished {
                    id,
                    outcome: ToolOutcome::of_text(status, text),
                }
            }
        };
        for effect in self.session.feed(input).to_vec() {
            match effect {
                Effect::SendRequest => self.judge_request(),
                Effect::RunTools(calls) => {
                    self.running = calls.into_iter().map(|call| call.id).collect();
                }
                Effect::EndTurn(_) => self.running.clear(),
                Effect::ShowCall(_)
                | Effect::AskPermission(_)
                | Effect::CancelTools
                | Effect::ShowResult(..)
                | Effect::Show(_) => {}
            }
        }
    }

    /// Every request is valid as the API sees it, and extends the one before byte for byte. Where the
    /// server paused a turn, the last message grows: there the bytes are compared without its brackets.
    fn judge_request(&mut self) {
        self.requests = self.requests.saturating_add(1);
        let messages = self.session.messages();
        match check(messages) {
            Ok(()) => {}
            Err(crate::history::Violation::LastNotUser) if self.paused => {}
            Err(violation) => panic!("{violation}: {messages:?}"),
        }
        let body: Vec<&str> = messages.iter().map(Message::json).collect();
        let body = body.join(",");
        if let Some(last) = &self.last_request {
            assert!(body.starts_with(last.as_str()), "{last}\n---\n{body}");
        }
        let ends_with_assistant = messages.last().unwrap().role() == crate::model::Role::Assistant;
        let kept = if ends_with_assistant {
            body.strip_suffix("]}").unwrap()
        } else {
            &body
        };
        self.last_request = Some(kept.to_owned());
    }

    /// Calls and results are the same ids in the same order, each once.
    fn judge_pairs(&self) {
        let messages = self.session.messages();
        let ids = |kind: &str, key: &str| -> Vec<String> {
            let blocks = messages.iter().flat_map(Message::content);
            let found = blocks.filter(|block| block["type"] == kind);
            found
                .map(|block| block[key].as_str().unwrap().to_owned())
                .collect()
        };
        let (calls, results) = (ids("tool_use", "id"), ids("tool_result", "tool_use_id"));
        assert_eq!(calls, results);
        assert_eq!(calls.iter().collect::<HashSet<_>>().len(), calls.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_request_of_any_session_is_valid_and_extends_the_one_before(
        chances in prop::collection::vec(any_chance(), 1..60),
    ) {
        let mut world = World::new();
        world.happen(Chance::Prompt("start"));
        for chance in chances {
            world.happen(chance);
        }
        // The session must still be usable, however it was left.
        let before = world.requests;
        world.happen(Chance::Prompt("end"));
        prop_assert_eq!(world.requests, before.saturating_add(1));
        world.judge_pairs();
    }
}

/// Controls of the generator: random sessions do reach what they are meant to test.
#[test]
fn random_sessions_reach_long_conversations_with_denials_and_interrupts() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(any_chance(), 40..60);
    let mut all = String::new();
    for _ in 0..300 {
        let mut world = World::new();
        world.happen(Chance::Prompt("start"));
        for chance in strategy.new_tree(&mut runner).unwrap().current() {
            world.happen(chance);
        }
        all.extend(world.session.messages().iter().map(Message::json));
    }
    for expected in [
        "Permission denied by user",
        "before it ran",
        "before it finished",
        "Unknown tool: fly",
        "output limit",
        "not valid JSON",
        "broke off here",
        "interrupted by the user.]",
        "call_0_3",
        "No answer was given",
        "declined to answer",
    ] {
        assert!(all.contains(expected), "{expected}");
    }
}
