//! Requests that pass, and everything that must not.

#![expect(clippy::too_many_lines, reason = "a table")]

use agentd_sandbox::policy::Caller;

use super::*;

const ASKER: Asker<'static> = Asker {
    caller: Caller { uid: 5, gid: 6 },
    default_profile: "workspace",
    features: features::FEATURES,
};

fn good() -> pb::ExecSpec {
    pb::ExecSpec {
        exec_id: "call-1".to_owned(),
        command: Some(pb::CommandSpec {
            command: Some(pb::command_spec::Command::Shell(pb::ShellScript {
                script: Bytes::from_static(b"true"),
            })),
            cwd: String::new(),
            env: None,
        }),
        sandbox: Some(pb::SandboxSpec {
            profile: String::new(),
            workspace: "/w".to_owned(),
        }),
        ..pb::ExecSpec::default()
    }
}

fn with_argv(argv: &[&[u8]]) -> pb::ExecSpec {
    let mut spec = good();
    spec.command.as_mut().unwrap().command = Some(pb::command_spec::Command::Argv(pb::Argv {
        argv: argv
            .iter()
            .map(|word| Bytes::copy_from_slice(word))
            .collect(),
    }));
    spec
}

fn with(change: impl FnOnce(&mut pb::ExecSpec)) -> pb::ExecSpec {
    let mut spec = good();
    change(&mut spec);
    spec
}

fn with_command(change: impl FnOnce(&mut pb::CommandSpec)) -> pb::ExecSpec {
    with(|spec| change(spec.command.as_mut().unwrap()))
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

#[test]
fn a_plain_request_gets_the_defaults() {
    let spec = exec_spec(good(), ASKER).unwrap();
    assert_eq!(spec.invocation.profile, "workspace");
    assert_eq!(spec.invocation.caller, ASKER.caller);
    assert_eq!(spec.invocation.cwd, None);
    assert_eq!(spec.invocation.limits, LimitRequest::default());
    assert_eq!(spec.disconnect, Disconnect::Grace(DEFAULT_GRACE));
    assert_eq!(spec.script.as_deref(), Some(b"true".as_slice()));
}

#[test]
fn a_relative_directory_starts_at_the_workspace() {
    let spec = exec_spec(with_command(|c| c.cwd = "src/x".to_owned()), ASKER).unwrap();
    assert_eq!(spec.invocation.cwd.as_deref(), Some(Path::new("/w/src/x")));
    let spec = exec_spec(with_command(|c| c.cwd = "/tmp".to_owned()), ASKER).unwrap();
    assert_eq!(spec.invocation.cwd.as_deref(), Some(Path::new("/tmp")));
}

#[test]
fn arguments_pass_byte_for_byte() {
    let spec = exec_spec(with_argv(&[b"printf", b"\xff\n", b""]), ASKER).unwrap();
    let words = vec![b"printf".to_vec(), b"\xff\n".to_vec(), Vec::new()];
    assert_eq!(spec.invocation.program, Program::Argv(words));
    assert_eq!(spec.script, None);
}

#[test]
fn limits_are_translated_and_a_grace_is_capped() {
    let spec = with(|spec| {
        spec.limits = Some(pb::LimitRequest {
            timeout: Some(prost_types::Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
            pids: Some(9),
            ..pb::LimitRequest::default()
        });
        spec.on_disconnect = Some(pb::DisconnectPolicy {
            policy: Some(pb::disconnect_policy::Policy::Grace(
                prost_types::Duration {
                    seconds: 100_000,
                    nanos: 0,
                },
            )),
        });
    });
    let spec = exec_spec(spec, ASKER).unwrap();
    assert_eq!(spec.invocation.limits.timeout_ms, Some(1500));
    assert_eq!(spec.invocation.limits.pids, Some(9));
    assert_eq!(spec.disconnect, Disconnect::Grace(MAX_GRACE));
}

#[test]
fn malformed_requests_are_refused_with_the_field_named() {
    use pb::disconnect_policy::Policy;
    let limits = |limits: pb::LimitRequest| with(|spec| spec.limits = Some(limits));
    let none = pb::LimitRequest::default;
    let env = |name: &str, value: &str| {
        let set = [(name.to_owned(), value.to_owned())].into_iter().collect();
        with_command(|c| {
            c.env = Some(pb::EnvSpec {
                set,
                unset: Vec::new(),
            });
        })
    };
    let huge = vec![b'x'; MAX_ARG_BYTES + 1];
    let workspace =
        |path: &str| with(|spec| spec.sandbox.as_mut().unwrap().workspace = path.to_owned());
    let table: Vec<(pb::ExecSpec, &str)> = vec![
        (with(|spec| spec.exec_id = "a b".to_owned()), "id"),
        (with(|spec| spec.command = None), "command"),
        (with_command(|c| c.command = None), "shell"),
        (
            with_command(|c| {
                c.command = Some(pb::command_spec::Command::Shell(pb::ShellScript::default()));
            }),
            "empty",
        ),
        (with_argv(&[]), "argv"),
        (with_argv(&[b""]), "argv"),
        (with_argv(&[b"a", b"b\0c"]), "NUL"),
        (with_argv(&[b"a", &huge]), "argv"),
        (with_argv(&vec![b"x".as_slice(); MAX_ARGS + 1]), "4097"),
        (workspace(""), "workspace"),
        (workspace("w"), "absolute"),
        (workspace("/w\0"), "NUL"),
        (with(|spec| spec.sandbox = None), "workspace"),
        (with_command(|c| c.cwd = "a\0".to_owned()), "NUL"),
        (env("A=B", ""), "name"),
        (env("", ""), "name"),
        (env("1A", ""), "name"),
        (env("A", "x\0"), "NUL"),
        (env("A", &"x".repeat(MAX_ENV_BYTES)), "env.set"),
        (
            limits(pb::LimitRequest {
                timeout: Some(seconds(0)),
                ..none()
            }),
            "timeout",
        ),
        (
            limits(pb::LimitRequest {
                timeout: Some(seconds(-1)),
                ..none()
            }),
            "timeout",
        ),
        (
            limits(pb::LimitRequest {
                pids: Some(0),
                ..none()
            }),
            "pids",
        ),
        (
            with(|spec| {
                spec.on_disconnect = Some(pb::DisconnectPolicy {
                    policy: Some(Policy::Keep(false)),
                });
            }),
            "on_disconnect",
        ),
        (
            with(|spec| spec.labels = (0..17).map(|n| (n.to_string(), String::new())).collect()),
            "labels",
        ),
    ];
    for (spec, word) in table {
        let problem = exec_spec(spec.clone(), ASKER).expect_err(&format!("{spec:?}"));
        assert_eq!(problem.kind().0, tonic::Code::InvalidArgument, "{spec:?}");
        assert!(
            problem.message().contains(word),
            "{word}: {}",
            problem.message()
        );
    }
}

#[test]
fn a_file_for_the_output_needs_a_session() {
    for io in [
        pb::IoSpec {
            output_file_bytes: 1,
            ..pb::IoSpec::default()
        },
        pb::IoSpec {
            stdin: true,
            pty: None,
            output_file_bytes: u64::MAX,
        },
    ] {
        let problem = exec_spec(with(|spec| spec.io = Some(io)), ASKER).unwrap_err();
        assert_eq!(
            problem.kind(),
            (tonic::Code::InvalidArgument, "INVALID_REQUEST")
        );
        assert!(
            problem.message().contains("session"),
            "{}",
            problem.message()
        );
    }
}

#[test]
fn a_restriction_that_this_release_does_not_know_is_refused_rather_than_ignored() {
    let spec = with(|spec| spec.required_features = vec!["cgroup-v3".to_owned()]);
    let problem = exec_spec(spec, ASKER).unwrap_err();
    assert_eq!(
        problem.kind(),
        (tonic::Code::FailedPrecondition, "FEATURE_UNSUPPORTED")
    );
    assert!(
        problem.message().contains("cgroup-v3"),
        "{}",
        problem.message()
    );
}
