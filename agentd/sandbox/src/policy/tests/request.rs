//! Environment, limits and form of a request.

use super::*;

#[test]
fn a_request_cannot_set_what_must_not_reach_a_command() {
    for (name, fine) in [
        ("FOO", true),
        ("PATH", true),
        ("HOME", true),
        ("LD_PRELOAD", false),
        ("ld_preload", false),
        ("BASH_ENV", false),
        ("ENV", false),
        ("SHELLOPTS", false),
        ("PS4", false),
        ("GITHUB_TOKEN", false),
        ("TOKEN", false),
        ("MY_API_KEY", false),
        ("AWS_REGION", false),
        ("DB_PASSWORD", false),
        ("ANTHROPIC_BASE_URL", false),
        ("SSH_AUTH_SOCK", false),
        ("GIT_CONFIG_COUNT", false),
        ("GIT_SSH_COMMAND", false),
        ("KEYBOARD", true),
        ("TOKENIZER", true),
        ("", false),
        ("A=B", false),
        ("A B", false),
        ("1A", false),
        ("BASH_FUNC_ls%%", false),
        ("É", false),
    ] {
        let result = decide(|invocation, _| {
            invocation.env_set.insert(name.to_owned(), "v".to_owned());
        });
        match result {
            Ok(policy) => assert!(fine && policy.env[name] == "v", "{name:?}"),
            Err(Refusal::EnvDenied { .. }) => assert!(!fine, "{name:?}"),
            Err(other) => panic!("{name:?}: {other}"),
        }
    }
}

#[test]
fn a_request_can_remove_variables_that_the_profile_does_not_keep() {
    let unset = |name: &str| decide(|invocation, _| invocation.env_unset.push(name.to_owned()));
    assert!(!unset("PAGER").unwrap().env.contains_key("PAGER"));
    unset("NEVER_SET").unwrap();
    assert!(matches!(
        unset("GIT_SSH_COMMAND"),
        Err(Refusal::EnvDenied { .. })
    ));
}

#[test]
fn a_request_of_wrong_form_is_malformed() {
    type Change = fn(&mut Invocation);
    let cases: [(&str, Change); 10] = [
        ("zero timeout", |request| {
            request.limits.timeout_ms = Some(0);
        }),
        ("zero memory", |request| {
            request.limits.memory_bytes = Some(0);
        }),
        ("zero pids", |request| request.limits.pids = Some(0)),
        ("no argv", |request| {
            request.program = Program::Argv(Vec::new());
        }),
        ("empty program", |request| {
            request.program = Program::Argv(vec![Vec::new()]);
        }),
        ("NUL in argv", |request| {
            request.program = Program::Argv(vec![b"a\0b".to_vec()]);
        }),
        ("long argument", |request| {
            request.program = Program::Argv(vec![vec![b'a'; 128 * 1024]]);
        }),
        ("many arguments", |request| {
            request.program = Program::Argv(vec![vec![b'a']; 4097]);
        }),
        ("NUL in env", |request| {
            request.env_set.insert("A".to_owned(), "\0".to_owned());
        }),
        ("large env", |request| {
            request
                .env_set
                .insert("A".to_owned(), "x".repeat(64 * 1024));
        }),
    ];
    for (name, change) in cases {
        let result = decide(|invocation, _| change(invocation));
        assert!(
            matches!(result, Err(Refusal::Malformed(_))),
            "{name}: {result:?}"
        );
    }
}

#[test]
fn a_request_for_another_or_an_abstract_profile_is_refused() {
    let refusal = resolve(
        &profile("strict"),
        &invocation("workspace"),
        &facts(Tier::HostRoot),
    );
    assert!(matches!(refusal, Err(Refusal::UnknownProfile { .. })));
    let refusal = resolve(
        &profile("base"),
        &invocation("base"),
        &facts(Tier::HostRoot),
    );
    assert!(matches!(refusal, Err(Refusal::AbstractProfile { .. })));
}

#[test]
fn time_can_be_asked_for_up_to_the_maximum_and_everything_else_only_less() {
    let asked = |limits| {
        decide(|invocation, _| invocation.limits = limits)
            .unwrap()
            .limits
    };
    let none = asked(LimitRequest::default());
    assert_eq!(
        (none.timeout_ms, none.kill_grace_ms, none.pids),
        (120_000, 2_000, Some(512))
    );
    let much = asked(LimitRequest {
        timeout_ms: Some(u64::MAX),
        kill_grace_ms: Some(u64::MAX),
        pids: Some(u64::MAX),
        open_files: Some(u64::MAX),
        idle_timeout_ms: Some(5),
        cpu_seconds: Some(7),
        ..LimitRequest::default()
    });
    assert_eq!(
        (much.timeout_ms, much.kill_grace_ms, much.pids),
        (3_600_000, 10_000, Some(512))
    );
    assert_eq!(
        (much.open_files, much.idle_timeout_ms, much.cpu_seconds),
        (4096, Some(5), Some(7))
    );
}
