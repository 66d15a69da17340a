//! Where keys come from, and where they may go.

use agentd_tests::mock::{KEY, Message, MockApi, Reply, text};

use crate::stage::{client, judge, world};

fn mock() -> MockApi {
    MockApi::start([Reply::Message(Message::new(vec![text("hello")]))])
}

#[test]
fn the_environment_file_wins_over_the_environment() {
    let world = world();
    let mock = mock();
    let url = mock.base_url();
    let file = format!("ANTHROPIC_API_KEY={KEY}\nANTHROPIC_BASE_URL={url}\nMODEL_ID=from-file\n");
    world.file(".env", &file);
    let run = world
        .cli(["run", "x"])
        .env("ANTHROPIC_API_KEY", "sk-wrong")
        .env("MODEL_ID", "wrong");
    run.run().expect_code(0);
    assert_eq!(judge(&mock)[0]["model"], "from-file");
}

#[test]
fn a_repository_cannot_send_a_key_of_the_environment_elsewhere() {
    let world = world();
    let mock = mock();
    world.file(".env", &format!("ANTHROPIC_BASE_URL={}\n", mock.base_url()));
    let run = |words: &[&str]| {
        let program = world
            .cli(words)
            .env("ANTHROPIC_API_KEY", KEY)
            .env("MODEL_ID", "mock-1");
        program.run()
    };
    let refused = run(&["run", "x"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("--allow-base-url"), "{refused:?}");
    assert_eq!(mock.requests().len(), 0, "the key was sent");
    run(&["--allow-base-url", "run", "x"]).expect_code(0);
    assert_eq!(judge(&mock).len(), 1);
}

#[test]
fn exactly_one_credential_is_sent() {
    let world = world();
    let key = mock();
    client(&world, &key, &["run", "x"])
        .env("ANTHROPIC_AUTH_TOKEN", "other")
        .run()
        .expect_code(0);
    let first = &key.requests()[0].request;
    assert_eq!(first.header("x-api-key"), [KEY]);
    assert!(first.header("authorization").is_empty());

    let token = mock();
    let bearer = world
        .cli(["--auth", "bearer", "run", "x"])
        .env("ANTHROPIC_AUTH_TOKEN", KEY)
        .env("ANTHROPIC_BASE_URL", &token.base_url())
        .env("MODEL_ID", "mock-1");
    bearer.run().expect_code(0);
    let first = &token.requests()[0].request;
    assert_eq!(first.header("authorization"), [format!("Bearer {KEY}")]);
    assert!(first.header("x-api-key").is_empty());
}

#[test]
fn the_base_url_may_carry_slashes_and_a_version() {
    let world = world();
    for end in ["/", "//", "/v1", "/v1/"] {
        let mock = mock();
        let url = format!("{}{end}", mock.base_url());
        let run = world
            .cli(["run", "x"])
            .env("ANTHROPIC_API_KEY", KEY)
            .env("MODEL_ID", "mock-1");
        run.env("ANTHROPIC_BASE_URL", &url).run().expect_code(0);
        assert_eq!(judge(&mock).len(), 1, "{end}");
    }
}

#[test]
fn the_key_reaches_neither_the_daemon_nor_a_command() {
    use agentd_tests::mock::tool_use;
    let world = world();
    let look = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; cat .env 2>/dev/null";
    let mock = MockApi::start([
        Reply::Message(Message::new(vec![tool_use("toolu_1", look)])),
        Reply::Message(Message::new(vec![text("done")])),
    ]);
    client(&world, &mock, &["run", "x"]).run().expect_code(0);
    let bodies = judge(&mock);
    let seen = &crate::stage::results(&bodies[1])[0].1;
    assert!(seen.contains("PATH="), "{seen}");
    assert!(!seen.contains(KEY), "the key is visible to a command");
}
