//! The client: it ends with its command, never with an invented result, and never hangs.

use std::time::Duration;

use agentd_tests::harness::{in_every_mode, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::room::{PROMPT, Room};

/// OpenShell#828: the client had everything and still waited for its own input.
#[test]
fn an_open_input_does_not_keep_the_client() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for script in ["echo hi", "exit 3", "sleep 600 & echo hi"] {
            let mut client = room.exec(&[], script).piped().start();
            let _open = client.input();
            let code = i32::from(script == "exit 3") * 3;
            client.wait(PROMPT).expect_code(code);
        }
    });
}

/// OpenShell#2732, sandbox-sdk#873: the server died and the client exited 0.
#[test]
fn a_daemon_that_dies_is_never_a_success() {
    for victim in ["agentd", "agentd-launcher"] {
        in_every_mode(|mode| {
            let room = Room::new(mode);
            let client = room
                .exec(&["--json"], "echo up >started; sleep 600")
                .start();
            let started = room.world.workspace.join("started");
            assert!(wait_until(PROMPT, || started.exists()), "it starts");
            let pid = if victim == "agentd" {
                room.daemon.pid()
            } else {
                room.daemon.launcher()
            };
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
            // A client may look for the daemon for as long as the daemon would have kept the command.
            let ended = client.wait(Duration::from_secs(90));
            ended.expect_code(125);
            assert!(!ended.stdout.contains("\"exited\""), "{victim}: {ended:?}");
            room.is_empty(victim);
        });
    }
}

/// E2B#1128: a daemon that stands still is not a reason to lose a result. Also codex#28512.
#[test]
fn a_daemon_that_was_stopped_for_a_while_goes_on() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let client = room.exec(&[], "echo up; sleep 1; echo down").start();
        client.wait_for_stdout("up");
        room.daemon.signal(Signal::SIGSTOP);
        // Longer than the command, so that its end falls into the pause.
        std::thread::sleep(Duration::from_millis(1500));
        room.daemon.signal(Signal::SIGCONT);
        let ended = client.wait(PROMPT);
        ended.expect_code(0);
        assert_eq!(ended.stdout, "up\ndown\n", "{ended:?}");
    });
}
