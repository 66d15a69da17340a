//! What a model reads about a command that a person interrupted: what was printed, that it was ended, and that what
//! it did stays done. A model that is told nothing of it does the same again.

use std::{io::Write as _, time::Duration};

use agentd_tests::{
    harness::{Mode, World, in_every_mode_at_once, wait_until},
    mock::{KEY, Message, MockApi, Reply, text, tool_use},
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::room::PROMPT;

/// Source, script, and what the model must read of its output. Each makes `up` when it may be interrupted.
const SCRIPTS: &[(&str, &str, &[&str])] = &[
    (
        "codex#35735",
        "for i in $(seq 1000); do echo line $i; [ $i = 5 ] && touch up; sleep 0.2; done",
        &["line 1\n", "line 5\n"],
    ),
    (
        "cc#88608",
        "git init -q r && cd r && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m x && echo committed; touch ../up; sleep 600",
        &["committed"],
    ),
    (
        "cc#88608",
        "touch effect up; exec sleep 600",
        &["(no output)"],
    ),
    (
        "codex#41009",
        "trap '' TERM INT; echo deaf; touch up; while :; do sleep 0.1; done",
        &["deaf"],
    ),
    (
        "codex#35735",
        "echo to the error stream >&2; (setsid sleep 600 &); touch up; sleep 600",
        &["to the error stream"],
    ),
];

fn reply(content: Vec<Value>) -> Reply {
    Reply::Message(Message::new(content))
}

/// Text of the only result in the last message of a request, and whether it is an error.
fn result(body: &Value) -> (String, bool) {
    let last = body["messages"].as_array().and_then(|list| list.last());
    let blocks = last.and_then(|message| message["content"].as_array());
    let mut results = blocks
        .into_iter()
        .flatten()
        .filter(|block| block["type"] == "tool_result");
    let result = results.next().unwrap_or_else(|| panic!("none in {body}"));
    assert!(results.next().is_none(), "{body}");
    let content = match &result["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    (content, result["is_error"] == true)
}

/// codex#35735, cc#88608, codex#41009, cc#17466: the model was told nothing, or that nothing had run.
#[test]
fn a_model_is_told_what_an_interrupted_command_printed_and_that_it_may_have_done_something() {
    in_every_mode_at_once(|mode: Mode| {
        let world = World::new(mode);
        let turns = SCRIPTS.iter().enumerate().flat_map(|(n, (_, script, _))| {
            [
                reply(vec![tool_use(&format!("toolu_{n}"), script)]),
                reply(vec![text(&format!("turn {n} is over"))]),
            ]
        });
        let mock = MockApi::start(turns);
        let client = world
            .cli::<&str>([])
            .env("ANTHROPIC_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", &mock.base_url())
            .env("MODEL_ID", "mock-1");
        let mut client = client.piped().start();
        for (n, (source, script, wanted)) in SCRIPTS.iter().enumerate() {
            writeln!(client.input(), "do it").expect("the client reads");
            let up = world.workspace.join("up");
            let runs = wait_until(PROMPT * 2, || up.exists());
            assert!(runs, "{source}: {}", client.stderr());
            // What it printed before is on its way.
            std::thread::sleep(Duration::from_millis(200));
            client.signal(Signal::SIGINT);
            let gone = wait_until(PROMPT, || world.processes().is_empty());
            assert!(gone, "{source}: {:?}", world.processes());
            std::fs::remove_file(&up).expect("it was made");
            writeln!(client.input(), "go on").expect("the session survives");
            client.wait_for_stdout(&format!("turn {n} is over"));
            let requests = mock.requests();
            let body = requests.last().expect("a request").body();
            let (told, is_error) = result(&body);
            let name = format!("{source}, {mode:?}: {script}: {told}");
            assert!(is_error, "{name}");
            for word in
                wanted
                    .iter()
                    .chain(&["interrupted by the user", "[cancelled after ", "stays done"])
            {
                assert!(told.contains(word), "no {word:?}: {name}");
            }
            for wrong in ["nothing was", "nothing of", "not started", "line 900"] {
                assert!(!told.contains(wrong), "{wrong:?}: {name}");
            }
        }
        client.close_input();
        client.wait(PROMPT).expect_code(0);
        // The control: what they did did stay.
        for effect in ["effect", "r/.git/HEAD"] {
            assert!(world.workspace.join(effect).exists(), "{effect}");
        }
    });
}
