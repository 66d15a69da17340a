//! Long sessions: many rounds, parallel calls, refusals, failures, interrupts.

use std::{io::Write as _, time::Duration};

use agentd_tests::{
    harness::wait_until,
    mock::{Fault, Framing, Message, MockApi, Reply, text, tool_use},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::stage::{client, judge, results, world};

const PATIENCE: Duration = Duration::from_secs(60);

/// One round of the model: what a real one does, and what a confused one does.
fn round(number: usize) -> Reply {
    let id = |letter: &str| format!("toolu_{number}{letter}");
    let one = |command: &str| vec![tool_use(&id("a"), command)];
    let content = match number % 10 {
        1 => vec![
            text("Three at once."),
            tool_use(&id("a"), "sleep 0.2; echo slow"),
            tool_use(&id("b"), "echo quick"),
            tool_use(&id("c"), "false"),
        ],
        2 => one("exit 3"),
        3 => one("sudo true"),
        4 => one("cat /etc/shadow"),
        5 => vec![json!({"type": "tool_use", "id": id("a"), "name": "no_such_tool", "input": {}})],
        6 => one("true"),
        7 => one("printf '\\377\\000\\033[31mred\\033[0m\\n'"),
        8 => vec![
            json!({"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"}),
            text("Zwei — 二つ 🦀"),
            tool_use(&id("a"), "echo äöü 🦀 > file; cat file"),
            tool_use(&id("b"), "cat file no-such-file"),
        ],
        9 => vec![json!({"type": "tool_use", "id": id("a"), "name": "bash", "input": {}})],
        _ => vec![
            text("  \n"),
            tool_use(&id("a"), &format!("seq {}", number * 100)),
        ],
    };
    let framing = if number.is_multiple_of(3) {
        Framing::Bytes(7)
    } else {
        Framing::Events
    };
    Reply::Message(Message::new(content).framed(framing))
}

fn done(words: &str) -> Reply {
    Reply::Message(Message::new(vec![text(words)]))
}

#[test]
fn sixty_rounds_with_an_interrupt_make_only_valid_requests_that_extend_each_other() {
    let world = world();
    let mut script: Vec<Reply> = (0..30).map(round).collect();
    script.push(done("first part done"));
    script.push(Reply::Message(Message::new(vec![
        tool_use("toolu_long1", "echo begun; sleep 300"),
        tool_use("toolu_long2", "sleep 301"),
    ])));
    script.extend((30..60).map(round));
    script.push(done("second part done"));
    let mock = MockApi::start(script);
    let mut running = client(&world, &mock, &[]).piped().start();

    writeln!(running.input(), "do the first part").expect("the client reads");
    running.wait_for_stdout("first part done");
    writeln!(running.input(), "now something long").expect("the client reads");
    let sleeping = wait_until(PATIENCE, || {
        world
            .processes()
            .iter()
            .filter(|process| process.name == "sleep")
            .count()
            == 2
    });
    assert!(sleeping, "both long commands run: {:?}", world.processes());
    running.signal(Signal::SIGINT);
    let stopped = wait_until(Duration::from_secs(10), || world.processes().is_empty());
    assert!(
        stopped,
        "the interrupt ends the tools: {:?}",
        world.processes()
    );
    writeln!(running.input(), "go on").expect("the session survives");
    running.wait_for_stdout("second part done");
    running.close_input();
    running.wait(PATIENCE).expect_code(0);

    let bodies = judge(&mock);
    assert_eq!(
        bodies.len(),
        63,
        "30 rounds and an end, one interrupted, 30 rounds and an end"
    );
    assert_eq!(mock.unused(), 0);
    the_rounds_were_real(&bodies);
    the_interrupt_is_told(&bodies[32]);
}

fn the_rounds_were_real(bodies: &[Value]) {
    // Request n carries the results of round n - 1.
    let of = |round: usize| results(&bodies[round + 1]);
    let find = |round: usize, id: &str| {
        let all = of(round);
        let found = all.iter().find(|(call, _, _)| *call == id);
        found.unwrap_or_else(|| panic!("{id} in {all:?}")).clone()
    };
    assert_eq!(of(1).len(), 3);
    assert!(find(1, "toolu_1a").1.contains("slow"));
    assert!(find(1, "toolu_1b").1.contains("quick"));
    assert!(
        find(2, "toolu_2a").1.contains("[exit code: 3]"),
        "{:?}",
        of(2)
    );
    assert!(
        find(3, "toolu_3a")
            .1
            .starts_with("Error: Dangerous command blocked"),
        "{:?}",
        of(3)
    );
    let (_, denied, _) = find(4, "toolu_4a");
    assert!(
        denied.contains("denied") && denied.contains("/etc/shadow"),
        "{denied}"
    );
    let (_, unknown, is_error) = find(5, "toolu_5a");
    assert!(
        unknown.contains("Unknown tool: no_such_tool") && is_error,
        "{unknown}"
    );
    assert_eq!(find(6, "toolu_6a").1, "(no output)");
    assert!(!find(7, "toolu_7a").1.contains('\u{1b}'), "{:?}", of(7));
    assert!(find(8, "toolu_8a").1.contains("äöü 🦀"), "{:?}", of(8));
    assert!(
        find(9, "toolu_9a").2,
        "a call without a command is an error: {:?}",
        of(9)
    );
    assert!(
        find(10, "toolu_10a").1.starts_with("1\n2\n"),
        "{:?}",
        of(10)
    );
}

fn the_interrupt_is_told(next: &Value) {
    let told = results(next);
    assert_eq!(told.len(), 2, "{told:?}");
    for (id, text, is_error) in told {
        assert!(is_error, "{id}: {text}");
        assert!(text.to_lowercase().contains("interrupt"), "{id}: {text}");
    }
    assert!(next.to_string().contains("go on"), "{next}");
}

#[test]
fn an_interrupt_while_the_model_speaks_keeps_the_session_valid() {
    let world = world();
    let long = Message::new(vec![
        text(&"words ".repeat(100)),
        tool_use("toolu_1", "touch never"),
    ]);
    let mock = MockApi::start([
        done("hello"),
        Reply::Fault(Fault::HangAfter(long, 6)),
        done("back again"),
    ]);
    let mut running = client(&world, &mock, &[]).piped().start();
    writeln!(running.input(), "first").expect("the client reads");
    running.wait_for_stdout("hello");
    writeln!(running.input(), "second").expect("the client reads");
    running.wait_for_stdout("words words");
    running.signal(Signal::SIGINT);
    writeln!(running.input(), "third").expect("the session survives");
    running.wait_for_stdout("back again");
    running.close_input();
    running.wait(PATIENCE).expect_code(0);
    let bodies = judge(&mock);
    assert_eq!(bodies.len(), 3);
    let last = bodies[2].to_string();
    assert!(last.contains("first") && last.contains("third"), "{last}");
    assert!(
        !world.workspace.join("never").exists(),
        "a half-received call ran"
    );
}

#[test]
fn the_request_is_what_the_service_expects() {
    let world = world();
    let mock = MockApi::start([done("hello")]);
    client(&world, &mock, &["run", "say hello"])
        .run()
        .expect_code(0);
    let body = judge(&mock).remove(0);
    assert_eq!(body["model"], "mock-1");
    assert_eq!(body["max_tokens"], 8000);
    assert_eq!(body["stream"], true);
    let system = crate::stage::text_of(&body["system"]);
    let place = world.workspace.display();
    let start =
        format!("You are a coding agent at {place}. Use bash to solve tasks. Act, don't explain.");
    assert!(system.starts_with(&start), "{system}");
    let bash = body["tools"]
        .as_array()
        .and_then(|tools| tools.iter().find(|tool| tool["name"] == "bash"));
    let bash = bash.expect("a tool named bash");
    assert!(
        bash["description"]
            .as_str()
            .unwrap()
            .starts_with("Run a shell command."),
        "{bash}"
    );
    assert_eq!(bash["input_schema"]["required"], json!(["command"]));
    assert!(body.to_string().contains("say hello"));
}
