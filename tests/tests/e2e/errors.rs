//! Mistakes: one clear line that names the remedy, the documented exit code, no panic.

use std::process::{Command, Stdio};

use agentd_tests::harness::{Mode, World, binaries, in_every_mode};
use nix::unistd::{Uid, User};

fn world() -> World {
    World::new(*Mode::possible().first().expect("some kind of host"))
}

#[test]
fn a_missing_model_or_key_is_named() {
    let world = world();
    world
        .cli(["run", "hello"])
        .env("ANTHROPIC_API_KEY", "sk-x")
        .run()
        .expect_code(2)
        .expect_one_line(&["MODEL_ID"]);
    world
        .cli(["run", "hello"])
        .env("MODEL_ID", "mock-1")
        .run()
        .expect_code(2)
        .expect_one_line(&["ANTHROPIC_API_KEY"]);
    let neither = world.cli(["run", "hello"]).run();
    neither.expect_code(2).expect_one_line(&[]);
}

#[test]
fn an_unreachable_daemon_is_named() {
    let world = world();
    let url = format!("unix://{}/none.sock", world.base.display());
    let exec = world.cli(["--connect", &url, "exec", "--", "true"]).run();
    exec.expect_code(125)
        .expect_one_line(&["none.sock", "agentd serve"]);
    let status = world.cli(["--connect", &url, "status"]).run();
    assert_ne!(status.code, 0);
    status.expect_one_line(&["none.sock"]);
}

#[test]
fn a_bad_profile_is_named_with_the_good_ones() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let unknown = world
            .cli(["--profile", "nonsense", "exec", "--", "true"])
            .run();
        unknown
            .expect_code(125)
            .expect_one_line(&["nonsense", "workspace"]);
        let parent = world.cli(["--profile", "base", "exec", "--", "true"]).run();
        parent
            .expect_code(125)
            .expect_one_line(&["base", "workspace"]);
    });
}

#[test]
fn a_profile_that_the_host_cannot_enforce_is_refused_with_the_remedy() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ended = world
            .cli(["--profile", "strict", "exec", "--", "echo ran"])
            .run();
        if mode == Mode::Nested {
            ended
                .expect_code(125)
                .expect_one_line(&["strict", "T1", "T2"]);
            assert_eq!(ended.stdout, "");
        } else {
            ended.expect_code(0);
        }
    });
}

#[test]
fn an_unknown_flag_is_named_and_points_to_the_help() {
    let world = world();
    for (words, code) in [
        (&["--bogus"][..], 2),
        (&["run", "x", "--bogus"], 2),
        (&["exec", "--bogus", "--", "ls"], 125),
    ] {
        let ended = world.cli(words).run();
        ended.expect_code(code);
        assert!(ended.stderr.contains("--bogus"), "{ended:?}");
        assert!(ended.stderr.contains("--help"), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
    let daemon = world.agentd(["serve", "--bogus"]).run();
    daemon
        .expect_code(64)
        .expect_one_line(&["--bogus", "; see agentd serve --help"]);
}

#[test]
fn a_workspace_that_cannot_be_one_is_refused() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        for bad in ["/", "/etc", "/usr", "/no/such/directory"] {
            let ended = world
                .cli(["--workspace", bad, "exec", "--", "echo ran"])
                .run();
            ended.expect_code(125).expect_one_line(&[bad]);
            assert_eq!(ended.stdout, "");
        }
        // The home is that of the password file, whatever $HOME says.
        let user = User::from_uid(Uid::from_raw(mode.uid())).expect("the password file");
        let home = user.map_or_else(|| "/".into(), |user| user.dir);
        let words = ["exec", "--", "echo ran"];
        let at_home = world.cli(["--workspace"]).args([home]).args(words).run();
        at_home.expect_code(125).expect_one_line(&["workspace"]);
        assert_eq!(at_home.stdout, "");
    });
}

#[test]
fn a_daemon_with_a_bad_listener_or_config_says_so() {
    let world = world();
    let tcp = world.agentd(["serve", "--listen", "tcp:127.0.0.1:0"]).run();
    assert_ne!(tcp.code, 0);
    tcp.expect_one_line(&["tcp"]);
    let config = world.base.join("agentd.toml");
    std::fs::write(&config, "lisn = [\"unix:/tmp/x\"]\n").unwrap();
    let path = config.to_string_lossy().into_owned();
    let unknown = world.agentd(["serve", "--config", &path]).run();
    unknown.expect_code(78).expect_one_line(&["lisn"]);
    // What the launcher refuses, it says itself, and nothing is added.
    let profiles = world.base.join("profiles");
    std::fs::create_dir(&profiles).unwrap();
    std::fs::write(profiles.join("bad.toml"), "name = [\n").unwrap();
    let path = profiles.to_string_lossy().into_owned();
    let bad = world.agentd(["check", "--profile-dir", &path]).run();
    bad.expect_code(78).expect_one_line(&["bad.toml:1"]);
}

/// A kernel without Landlock, made by failing its first system call in every process of the daemon.
#[test]
fn a_kernel_without_landlock_is_refused_with_the_remedy() {
    let found = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status();
    if !found.is_ok_and(|status| status.success()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "strace must be installed in CI"
        );
        eprintln!("SKIPPED: no strace to take Landlock away with");
        return;
    }
    let world = world();
    let agentd = binaries().join("agentd").to_string_lossy().into_owned();
    let inject = "inject=landlock_create_ruleset:error=ENOSYS";
    let options = [
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=landlock_create_ruleset",
        "-e",
        inject,
    ];
    let runtime = world.home.to_string_lossy().into_owned();
    let ended = world
        .program("strace")
        .env("XDG_RUNTIME_DIR", &runtime)
        .args(options)
        .args([&agentd, "check"])
        .run();
    assert_ne!(ended.code, 0, "{ended:?}");
    let text = format!("{}{}", ended.stdout, ended.stderr).to_lowercase();
    assert!(text.contains("landlock"), "{ended:?}");
    assert!(!text.contains("panicked"), "{ended:?}");
    let control = world
        .program("strace")
        .env("XDG_RUNTIME_DIR", &runtime)
        .args(["-f", "-o", "/dev/null", "-e", "trace=none"])
        .args([&agentd, "check"])
        .run();
    control.expect_code(0);
}
