//! Where commands of a session start, and what they find in their environment.

use std::{fs, os::unix::fs::PermissionsExt};

use agentd_sandbox::policy::{Lifetime, NO_TIMEOUT, Program};
use agentd_tests::harness::{Mode, in_every_mode};

use crate::drive::{Launcher, exited};

#[test]
fn a_session_continues_where_it_was_or_in_the_workspace_and_says_so() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let workspace = launcher.world.workspace.clone();
        launcher.world.file("sub/dir/file", "");
        launcher.world.file("plain", "");
        let closed = launcher.world.file("closed/file", "");
        let closed = closed.parent().expect("a directory");
        fs::set_permissions(closed, fs::Permissions::from_mode(0o000)).expect("a mode");
        let mut cases = vec![
            (workspace.join("sub/dir"), workspace.join("sub/dir"), None),
            (workspace.clone(), workspace.clone(), None),
            (workspace.join("gone"), workspace.clone(), Some("is gone")),
            (workspace.join("plain"), workspace.clone(), Some("is gone")),
            ("/root/x".into(), workspace.clone(), Some("is outside")),
            ("relative".into(), workspace.clone(), Some("is outside")),
            (
                workspace.join("sub/.."),
                workspace.clone(),
                Some("is outside"),
            ),
        ];
        if mode != Mode::Root {
            cases.push((closed.into(), workspace.clone(), Some("is gone")));
        }
        let session = launcher.session();
        for (carried, expected, note) in cases {
            let mut session = session.clone();
            session.carried.cwd = Some(carried.clone());
            let mut invocation = launcher.invocation(Program::Script);
            invocation.in_session = Some(Box::new(session));
            let outcome = launcher.run(invocation, "pwd -P; echo $PWD");
            let expected = expected.display().to_string();
            assert_eq!(outcome.stdout, format!("{expected}\n{expected}\n"));
            assert_eq!(outcome.started.cwd, expected);
            match note {
                None => assert!(outcome.started.notes.is_empty(), "{outcome:?}"),
                Some(text) => {
                    let [said] = outcome.started.notes.as_slice() else {
                        panic!("{outcome:?}");
                    };
                    assert!(said.contains(text), "{said}");
                    assert!(said.contains(&carried.display().to_string()), "{said}");
                    assert!(said.ends_with("started in the workspace"), "{said}");
                }
            }
        }
    });
}

#[test]
fn a_directory_that_the_request_itself_names_is_entered_or_fails() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        launcher.world.file("sub/file", "");
        let workspace = launcher.world.workspace.clone();
        let mut session = launcher.session();
        session.carried.cwd = Some(workspace.clone());
        let mut invocation = launcher.invocation(Program::Script);
        invocation.in_session = Some(Box::new(session));
        invocation.cwd = Some(workspace.join("sub"));
        let outcome = launcher.run(invocation.clone(), "pwd");
        assert_eq!(
            outcome.stdout.trim_end(),
            workspace.join("sub").to_str().expect("UTF-8")
        );
        invocation.cwd = Some(workspace.join("gone"));
        let failure = launcher
            .ask(invocation, "pwd")
            .not_started()
            .expect("a failure");
        assert_eq!(failure.stage, "cwd");
    });
}

#[test]
fn variables_are_carried_as_far_as_the_profile_permits_and_the_request_wins() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mut session = launcher.session();
        let carried = [
            ("CARRIED", "a b\n\"c\""),
            ("BOTH", "carried"),
            ("LANG", "C"),
            ("PATH", "/carried:/usr/bin:/bin"),
            ("TERM", "dumb"),
            ("TMPDIR", "/tmp/of/another"),
            ("XDG_CACHE_HOME", "/tmp/agentd-1-1/.cache"),
            ("SHLVL", "7"),
            ("PWD", "/nowhere"),
            ("LD_PRELOAD", "x"),
            ("SOME_TOKEN", "x"),
            ("GIT_SSH_COMMAND", "x"),
            ("POSIXLY_CORRECT", "1"),
            ("not a name", "x"),
        ];
        session.carried.env_set = carried
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        session.carried.env_unset = vec!["PAGER".into(), "GIT_PAGER".into(), "HOME=".into()];
        let mut invocation = launcher.invocation(Program::Script);
        invocation.in_session = Some(Box::new(session));
        invocation.env_set.insert("BOTH".into(), "asked".into());
        invocation.env_set.insert("PAGER".into(), "asked".into());
        let script = "env -0 | tr '\\n\\0' '|\\n'";
        let outcome = launcher.run(invocation.clone(), script);
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        let has = |line: &str| lines.contains(&line);
        for line in [
            "CARRIED=a b|\"c\"",
            "BOTH=asked",
            "LANG=C",
            "PATH=/carried:/usr/bin:/bin",
            "PAGER=asked",
            "TERM=dumb",
        ] {
            assert!(has(line), "{line}: {lines:#?}");
        }
        for name in [
            "GIT_PAGER",
            "LD_PRELOAD",
            "SOME_TOKEN",
            "GIT_SSH_COMMAND",
            "POSIXLY_CORRECT",
            "not a name",
            "TMPDIR=/tmp/of",
            "XDG_CACHE_HOME=/tmp/agentd-1-1",
            "PWD=/nowhere",
            "SHLVL=8",
        ] {
            let hit = lines.iter().find(|line| line.starts_with(name));
            assert_eq!(hit, None);
        }
        assert!(lines.iter().any(|line| line.starts_with("XDG_CACHE_HOME=")));
        assert_eq!(outcome.status, exited(0));
        // Without a session, nothing is carried.
        invocation.in_session = None;
        let outcome = launcher.run(invocation, script);
        assert!(!outcome.stdout.contains("CARRIED"));
    });
}

#[test]
fn a_command_that_lives_as_long_as_its_session_has_no_wall_clock_unless_it_asks() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let hour = 60 * 60 * 1000;
        for (lifetime, asked, expected) in [
            (Lifetime::Session, None, NO_TIMEOUT),
            (Lifetime::Session, Some(2 * hour), 2 * hour),
            (Lifetime::Session, Some(u64::MAX), 24 * hour),
            (Lifetime::Call, None, 120_000),
            (Lifetime::Call, Some(2 * hour), hour),
        ] {
            let mut invocation = launcher.invocation(Program::Script);
            invocation.lifetime = lifetime;
            invocation.limits.timeout_ms = asked;
            let outcome = launcher.run(invocation, "exit 2");
            assert_eq!(outcome.started.limits.timeout_ms, expected);
            assert_eq!(outcome.status, exited(2));
        }
    });
}
