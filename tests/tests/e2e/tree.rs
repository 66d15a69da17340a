//! Whole-tree death: when a result is back, nothing of the command is alive.

use std::time::Duration;

use agentd_tests::harness::{World, in_every_mode, wait_until};

/// Debug builds start slower; the promise is about release builds.
const PROMPT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2500 } else { 1000 });

#[track_caller]
fn nothing_is_left(world: &World) {
    // The private daemon is gone with its client, too.
    let gone = wait_until(Duration::from_secs(1), || world.everything().is_empty());
    assert!(gone, "left behind: {:?}", world.everything());
}

#[test]
fn a_background_process_does_not_hold_the_result_up_and_does_not_survive() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ended = world.cli(["exec", "--", "sleep 300 & echo started"]).run();
        ended.expect_code(0);
        assert_eq!(ended.stdout, "started\n");
        assert!(ended.elapsed < PROMPT, "{:?}", ended.elapsed);
        nothing_is_left(&world);
        let answer = world.exec_json(&[], "sleep 300 & echo started");
        assert_eq!(answer["leftover_processes"], 1, "{answer}");
        assert!(answer["duration_ms"].as_u64().unwrap() < 1000, "{answer}");
        nothing_is_left(&world);
    });
}

#[test]
fn every_way_to_hide_a_process_ends_with_the_command() {
    let scripts = [
        "setsid sleep 300 & echo hidden",
        "nohup sleep 300 >/dev/null 2>&1 & echo hidden",
        "(setsid bash -c 'sleep 300 & disown' >/dev/null 2>&1 &) ; echo hidden",
        "bash -c 'exec -a innocent sleep 300' & disown; echo hidden",
        "trap '' TERM HUP INT; (trap '' TERM HUP INT; while :; do sleep 300; done) & echo hidden",
        "sleep 300 & kill -STOP $!; echo hidden",
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        for script in scripts {
            let answer = world.exec_json(&[], script);
            assert_eq!(answer["stdout"], "hidden\n", "{script}: {answer}");
            assert_eq!(answer["reason"], "exited", "{script}: {answer}");
            assert!(
                answer["leftover_processes"].as_u64() >= Some(1),
                "{script}: {answer}"
            );
            nothing_is_left(&world);
        }
    });
}

#[test]
fn a_timeout_ends_a_tree_that_ignores_signals() {
    let script = "trap \"\" TERM; setsid sleep 999 & while :; do :; done";
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ended = world.cli(["exec", "--timeout", "2s", "--", script]).run();
        ended.expect_code(124);
        assert!(
            ended.elapsed > Duration::from_secs(2),
            "{:?}",
            ended.elapsed
        );
        assert!(
            ended.elapsed < Duration::from_secs(5),
            "{:?}",
            ended.elapsed
        );
        nothing_is_left(&world);
        let answer = world.exec_json(&["--timeout", "1s"], &format!("echo before; {script}"));
        assert_eq!(answer["reason"], "timeout", "{answer}");
        assert_eq!(
            answer["stdout"], "before\n",
            "partial output is returned: {answer}"
        );
        nothing_is_left(&world);
    });
}

#[test]
fn interrupting_the_client_ends_the_command() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let running = world
            .cli(["exec", "--", "setsid sleep 300 & echo up; sleep 300"])
            .start();
        running.wait_for_stdout("up");
        running.signal(nix::sys::signal::Signal::SIGINT);
        running.wait(Duration::from_secs(10)).expect_code(130);
        nothing_is_left(&world);
    });
}
