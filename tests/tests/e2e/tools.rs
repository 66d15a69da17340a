//! The daemon's own commands: check, doctor, profile; and the client's status.

use agentd_tests::harness::{World, in_every_mode};
use serde_json::Value;

#[test]
fn check_and_doctor_tell_tier_and_landlock() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        // The default place of the socket is part of what is checked.
        let runtime = world.home.to_string_lossy().into_owned();
        let check = world
            .agentd(["check"])
            .env("XDG_RUNTIME_DIR", &runtime)
            .run();
        check.expect_code(0);
        assert!(check.stdout.contains(mode.tier()), "{check:?}");
        let doctor = world.agentd(["doctor", "--json"]).run();
        doctor.expect_code(0);
        let text = doctor.json().to_string();
        assert!(
            text.contains(mode.tier()) && text.contains("landlock"),
            "{text}"
        );
    });
}

#[test]
fn profiles_are_listed_shown_and_explained() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let list = world.agentd(["profile", "list"]).run();
        list.expect_code(0);
        for name in ["read-only", "workspace", "strict"] {
            assert!(list.stdout.contains(name), "{list:?}");
        }
        world
            .agentd(["profile", "show", "workspace"])
            .run()
            .expect_code(0);
        let workspace = world.workspace.to_string_lossy().into_owned();
        let ask = |words: &[&str]| {
            let options = ["profile", "explain", "workspace", "--workspace", &workspace];
            world.agentd(options).args(words).run()
        };
        let denied = ask(&["--path", "/etc/shadow", "--access", "read"]);
        denied.expect_code(1);
        assert!(
            denied.stdout.contains("landlock") || denied.stdout.contains("own-root"),
            "{denied:?}"
        );
        let inside = format!("{workspace}/a");
        ask(&["--path", &inside, "--access", "write"]).expect_code(0);
        ask(&["--path", "/usr/bin/env", "--access", "exec"]).expect_code(0);
        ask(&["--host", "example.org:443"]).expect_code(1);
        ask(&["--syscall", "mount"]).expect_code(1);
    });
}

/// What an access means to a kernel: a script that succeeds exactly when it is granted. What a user may not do
/// anyway, whatever the profile says, is not asked.
fn attempt(access: &str, path: &str) -> String {
    match access {
        "read" => format!("if [ -d {path} ]; then ls {path}; else head -c1 {path}; fi"),
        "write" => format!(
            "if [ -d {path} ]; then touch {path}/.probe && rm {path}/.probe; else : >>{path}; fi"
        ),
        _ => format!("{path} --version"),
    }
}

#[test]
fn what_explain_says_is_what_the_kernel_does() {
    let outside = [
        ("/etc/shadow", &["read", "write"][..]),
        ("/etc/passwd", &["read", "write"]),
        ("/etc/sudoers", &["read"]),
        ("/etc/hosts", &["read", "write"]),
        ("/usr/bin/env", &["read", "write", "exec"]),
        ("/bin/ls", &["read", "exec"]),
        ("/usr", &["read", "write"]),
        ("/usr/lib", &["read", "write"]),
        ("/var/log", &["read", "write"]),
        ("/root", &["read", "write"]),
        ("/home", &["read", "write"]),
        ("/dev/null", &["read", "write"]),
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        world.file("kept", "text");
        world.file("sub/deep", "text");
        let hook = world.file(".git/hooks/pre-commit", "#!/bin/sh\n");
        let workspace = world.workspace.to_string_lossy().into_owned();
        let inside = ["kept", "sub", "sub/deep", ""].map(|name| format!("{workspace}/{name}"));
        let mut questions: Vec<(String, &str)> = Vec::new();
        for (path, accesses) in outside {
            questions.extend(accesses.iter().map(|access| (path.to_owned(), *access)));
        }
        for path in inside {
            let path = path.trim_end_matches('/');
            questions.extend(["read", "write"].map(|access| (path.to_owned(), access)));
        }
        questions.push((hook.to_string_lossy().into_owned(), "read"));
        let (mut granted, mut refused) = (0, 0);
        for (path, access) in questions {
            if !std::path::Path::new(&path).exists() {
                continue;
            }
            let words = ["profile", "explain", "workspace", "--workspace", &workspace];
            let asked = world
                .agentd(words)
                .args(["--path", &path, "--access", access])
                .run();
            let answer = world.exec_json(&[], &attempt(access, &path));
            let kernel = answer["exit_code"] == 0;
            assert_eq!(
                asked.code == 0,
                kernel,
                "{access} {path}, {mode:?}: {asked:?} but {answer}"
            );
            if kernel {
                granted += 1;
            } else {
                refused += 1;
            }
        }
        assert!(granted > 8 && refused > 8, "{granted} and {refused}");
    });
}

#[test]
fn status_names_daemon_host_and_tier() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let status = world.cli(["status", "--json"]).run();
        status.expect_code(0);
        let answer: Value = status.json();
        assert!(answer.to_string().contains(mode.tier()), "{answer}");
        let human = world.cli(["status"]).run();
        human.expect_code(0);
        assert!(human.stdout.contains(mode.tier()), "{human:?}");
    });
}
