//! Either process dying takes every jail with it.

use std::time::Duration;

use agentd_tests::harness::{Daemon, Running, World, in_every_mode, is_running, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const GRANDCHILD: &str = "(setsid nohup sleep 300 >/dev/null 2>&1 &); echo up; sleep 300";

fn busy(world: &World, daemon: &Daemon) -> Running {
    let client = daemon.cli(world, &["exec", "--", GRANDCHILD]).start();
    client.wait_for_stdout("up");
    let sleeping = || {
        let all = world.processes();
        all.iter().filter(|process| process.name == "sleep").count() == 2
    };
    let seen = wait_until(Duration::from_secs(5), sleeping);
    assert!(
        seen,
        "the control: both sleeps run; {:?}",
        world.processes()
    );
    client
}

#[track_caller]
fn gone_within_a_second(world: &World) {
    let gone = wait_until(Duration::from_secs(1), || world.processes().is_empty());
    assert!(gone, "one second later: {:?}", world.processes());
}

#[test]
fn killing_agentd_ends_a_command_with_a_daemonised_grandchild() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let launcher = daemon.launcher();
        let client = busy(&world, &daemon);
        daemon.signal(Signal::SIGKILL);
        gone_within_a_second(&world);
        let launcher_gone = wait_until(Duration::from_secs(1), || !is_running(launcher));
        assert!(launcher_gone, "the launcher outlives agentd");
        let all_gone = wait_until(Duration::from_secs(1), || world.everything().is_empty());
        assert!(all_gone, "{:?}", world.everything());
        client.wait(Duration::from_secs(10)).expect_code(125);
    });
}

#[test]
fn killing_the_launcher_ends_the_command_and_agentd_says_so() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let client = busy(&world, &daemon);
        kill(Pid::from_raw(daemon.launcher()), Signal::SIGKILL).expect("the launcher is killed");
        gone_within_a_second(&world);
        client.wait(Duration::from_secs(10)).expect_code(125);
        let ended = daemon.wait(Duration::from_secs(10));
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains("launcher"), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    });
}

#[test]
fn killing_the_client_ends_its_private_daemon_and_the_command() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let client = world.cli(["exec", "--", GRANDCHILD]).start();
        client.wait_for_stdout("up");
        client.signal(Signal::SIGKILL);
        let gone = wait_until(Duration::from_secs(3), || world.everything().is_empty());
        assert!(gone, "{:?}", world.everything());
    });
}

#[test]
fn a_terminated_daemon_ends_its_commands_and_exits_cleanly() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let client = busy(&world, &daemon);
        daemon.signal(Signal::SIGTERM);
        daemon.wait(Duration::from_secs(10)).expect_code(0);
        gone_within_a_second(&world);
        client.wait(Duration::from_secs(10)).expect_code(125);
        // Whatever is left of the socket, a new daemon takes its place.
        let next = Daemon::start(&world);
        next.cli(&world, &["exec", "--", "true"])
            .run()
            .expect_code(0);
    });
}
