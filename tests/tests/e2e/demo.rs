//! The demo: what a newcomer runs first, on each kind of host.

use std::{fs, time::Duration};

use agentd_tests::harness::{World, in_every_mode, wait_until};

#[test]
fn the_demo_solves_its_task_and_shows_a_refusal() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ended = world.cli(["demo"]).run();
        ended.expect_code(0);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        for part in [mode.tier(), "landlock", "seccomp", "denied", "$ "] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert_eq!(
            fs::read_dir(&world.workspace).expect("workspace").count(),
            0
        );
        let gone = wait_until(Duration::from_secs(2), || world.everything().is_empty());
        assert!(gone, "{:?}", world.everything());
    });
}

#[test]
fn the_demo_needs_no_key_and_sends_none() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ended = world
            .cli(["demo"])
            .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
            .run();
        ended.expect_code(0);
    });
}
