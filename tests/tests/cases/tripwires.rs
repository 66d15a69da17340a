//! Protected names that a command made are gone when it is, also when the daemon is killed.

use std::{fs, time::Duration};

use agentd_tests::harness::{in_every_mode, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::room::Room;

/// The janitor waits for 5 s at most for what the launcher left running.
const SOON: Duration = Duration::from_secs(12);

#[test]
fn protected_names_go_whoever_of_the_daemon_is_killed() {
    in_every_mode(|mode| {
        for (name, agentd, launcher) in [
            ("the launcher", false, true),
            ("agentd", true, false),
            ("both", true, true),
        ] {
            let room = Room::new(mode);
            room.world.file(".git/config", "");
            let made = ["kept", ".envrc", ".git/hooks/pre-commit"];
            let script =
                "mkdir .git/hooks; touch kept .envrc .git/hooks/pre-commit; echo up; sleep 600";
            let client = room.exec(&[], script).start();
            client.wait_for_stdout("up");
            let there = |file: &&str| fs::exists(room.world.workspace.join(file)).expect("a look");
            assert!(made.iter().all(there), "{name}");
            let pids = [
                (agentd, room.daemon.pid()),
                (launcher, room.daemon.launcher()),
            ];
            for (_, pid) in pids.into_iter().filter(|(killed, _)| *killed) {
                kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a KILL");
            }
            let gone = wait_until(SOON, || made.iter().filter(|file| there(file)).count() == 1);
            assert!(gone, "killed: {name}");
            assert!(there(&"kept") && there(&".git/config"), "killed: {name}");
            client.signal(Signal::SIGKILL);
            let empty = wait_until(SOON, || room.world.processes().is_empty());
            assert!(empty, "killed: {name}: {:?}", room.world.processes());
        }
    });
}
