//! Broken connections and busy servers.

use agentd_tests::mock::{Fault, Framing, Message, MockApi, Reply, text, tool_use};

use crate::stage::{client, judge, world};

fn done() -> Reply {
    Reply::Message(Message::new(vec![text("final words")]))
}

fn status(status: u16, kind: &'static str, headers: &[(&str, &str)]) -> Reply {
    let owned = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let headers = owned.collect();
    Reply::Fault(Fault::Status {
        status,
        kind,
        headers,
    })
}

#[test]
fn what_may_pass_is_tried_again() {
    let world = world();
    let table = [
        ("overloaded", status(529, "overloaded_error", &[])),
        (
            "rate limit",
            status(429, "rate_limit_error", &[("retry-after", "1")]),
        ),
        ("server error", status(500, "api_error", &[])),
        (
            "cut before any text",
            Reply::Fault(Fault::CutAfter(Message::new(vec![text("x")]), 2)),
        ),
    ];
    for (name, fault) in table {
        let mock = MockApi::start([fault, done()]);
        let run = client(&world, &mock, &["run", "x"]).run();
        assert_eq!(run.code, 0, "{name}: {run:?}");
        assert!(run.stdout.contains("final words"), "{name}: {run:?}");
        assert_eq!(judge(&mock).len(), 2, "{name}");
    }
}

#[test]
fn what_will_not_pass_is_told_at_once_in_one_line() {
    let world = world();
    let table = [
        (status(401, "authentication_error", &[]), "401"),
        (status(400, "invalid_request_error", &[]), "400"),
        (status(403, "permission_error", &[]), "403"),
        (status(404, "not_found_error", &[]), "404"),
        (status(413, "request_too_large", &[]), "413"),
    ];
    for (fault, word) in table {
        let mock = MockApi::start([fault, done()]);
        let run = client(&world, &mock, &["run", "x"]).run();
        run.expect_code(1).expect_one_line(&[word]);
        assert_eq!(judge(&mock).len(), 1, "{word}");
    }
}

#[test]
fn a_call_is_never_run_twice_or_half() {
    let world = world();
    let call = || Message::new(vec![text("now"), tool_use("toolu_1", "echo x >> runs")]);
    for fault in [
        Fault::CutAfter(call(), 7),
        Fault::ErrorEventAfter(call(), 7),
    ] {
        let mock = MockApi::start([Reply::Fault(fault), Reply::Message(call()), done()]);
        drop(client(&world, &mock, &["run", "x"]).run());
        let runs = std::fs::read_to_string(world.workspace.join("runs")).unwrap_or_default();
        assert!(runs.lines().count() <= 1, "{runs:?}");
        drop(std::fs::remove_file(world.workspace.join("runs")));
        judge(&mock);
    }
}

#[test]
fn any_cut_of_the_stream_into_chunks_reads_the_same() {
    let world = world();
    for size in [1, 2, 3, 5, 4096] {
        let content = vec![
            text("Grüße 二つ 🦀"),
            tool_use("toolu_1", "echo 'ü🦀' > out; cat out"),
        ];
        let first = Message::new(content).framed(Framing::Bytes(size));
        let mock = MockApi::start([Reply::Message(first), done()]);
        let run = client(&world, &mock, &["run", "x"]).run();
        run.expect_code(0);
        let bodies = judge(&mock);
        assert!(
            bodies[1].to_string().contains("Grüße 二つ 🦀"),
            "chunks of {size}: {}",
            bodies[1]
        );
        let out = std::fs::read_to_string(world.workspace.join("out")).expect("the command ran");
        assert_eq!(out, "ü🦀\n", "chunks of {size}");
    }
}

#[test]
fn an_unreachable_api_is_told_in_one_line() {
    let world = world();
    let mock = MockApi::start([]);
    let url = mock.base_url();
    drop(mock);
    let run = world
        .cli(["run", "x"])
        .env("ANTHROPIC_API_KEY", "sk-x")
        .env("ANTHROPIC_BASE_URL", &url)
        .env("MODEL_ID", "mock-1")
        .run();
    run.expect_code(1);
    assert!(run.stderr.contains("127.0.0.1"), "{run:?}");
    assert!(
        !run.stderr.contains("panicked") && !run.stderr.contains("sk-x"),
        "{run:?}"
    );
}
