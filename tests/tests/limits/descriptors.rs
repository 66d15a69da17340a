//! A launcher that has no room for more descriptors refuses the next command and nothing else.

use agentd_sandbox::{monitor::Event, policy::TerminalSize};
use agentd_tests::harness::{Mode, binaries};
use nix::errno::Errno;

use super::{NONE, launcher::Launcher};

/// One descriptor, the one for the state of a session, has number 254.
const ROOM: u32 = 258;

#[test]
fn running_out_of_descriptors_fails_the_next_command_and_no_other() {
    let terminal = TerminalSize {
        columns: 80,
        rows: 24,
    };
    for mode in Mode::possible() {
        let mut command = mode.command("prlimit".as_ref());
        command.arg(format!("--nofile={ROOM}:{ROOM}"));
        command.arg(binaries().join("agentd-launcher"));
        let mut launcher = Launcher::of(*mode, command);
        for terminal in [None, Some(terminal)] {
            let mut running = Vec::new();
            // Every position at which the last descriptor can be missing is met: each command that ends
            // leaves room for one that fails further on.
            let mut failures = 0;
            while failures < 6 {
                assert!(running.len() < ROOM as usize, "{mode:?}: no end of room");
                match launcher.sleeper(terminal) {
                    Ok(started) => running.push(started),
                    Err(Event::SetupFailed { failure, .. }) => {
                        assert_eq!(failure.errno, Errno::EMFILE as i32, "{mode:?} {failure:?}");
                        failures += 1;
                        if failures % 2 == 0 {
                            let (exec, _terminal) = running.remove(0);
                            launcher.stop(exec);
                            launcher.ended(exec);
                        }
                    }
                    Err(other) => panic!("{mode:?}: {other:?}"),
                }
            }
            assert!(running.len() > 10, "{mode:?}: {}", running.len());
            for (exec, _terminal) in running {
                launcher.stop(exec);
                launcher.ended(exec);
            }
            // Whoever made room is served.
            let ended = launcher.bash("echo fine", NONE);
            assert_eq!(ended.output, "fine\n", "{mode:?}");
        }
    }
}
