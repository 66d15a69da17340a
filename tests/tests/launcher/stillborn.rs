//! Commands that end before they begin, by the death of the process that starts them.

use std::{
    fs,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use agentd_sandbox::{
    monitor::{Event, Request},
    policy::Program,
};
use agentd_tests::harness::{Mode, children_of, state_of, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::drive::Launcher;

const NONE: &[OwnedFd] = &[];

/// In a session a process in between forks the init. Whenever it is killed, nothing is left of either.
#[test]
fn whoever_starts_a_jail_may_be_killed_and_leaves_no_zombie() {
    for mode in Mode::possible() {
        // There are no sessions with namespaces on T1.
        if *mode == Mode::Nested {
            continue;
        }
        let mut launcher = Launcher::start(*mode);
        let session = launcher.session();
        let pid = launcher.pid();
        let stop = AtomicBool::new(false);
        let mut failures = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    kill_starters(pid);
                }
            });
            for _ in 0..150 {
                let mut invocation = launcher.invocation(Program::Script);
                invocation.in_session = Some(Box::new(session.clone()));
                let run = launcher.ask(invocation, "true");
                let exec = run.exec;
                loop {
                    match run.launcher.event().0 {
                        Event::Started { .. } => {}
                        Event::LeaderExited { .. } => {
                            run.launcher.send(&Request::Finish { exec }, NONE);
                        }
                        Event::SetupFailed { .. } => {
                            failures += 1;
                            break;
                        }
                        Event::Ended { .. } => break,
                        event => panic!("{event:?}"),
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(failures > 0, "nobody was killed in time");
        let zombies = || {
            let children = children_of(pid).into_iter();
            let dead = children.filter(|child| state_of(child.pid) == Some('Z'));
            dead.map(|child| format!("{child:?}")).collect::<Vec<_>>()
        };
        let gone = wait_until(Duration::from_secs(5), || zombies().is_empty());
        assert!(gone, "{mode:?}: {:?} after {failures} failures", zombies());
        assert_eq!(launcher.script("echo on").stdout, "on\n");
    }
}

/// Kills the children of a launcher that have not become anything else yet.
fn kill_starters(launcher: i32) {
    let list = format!("/proc/{launcher}/task/{launcher}/children");
    let list = fs::read_to_string(list).unwrap_or_default();
    for child in list.split_whitespace() {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if name.trim_end() == "agentd-launcher"
            && let Ok(pid) = child.parse()
        {
            // ESRCH: it has ended by itself.
            drop(kill(Pid::from_raw(pid), Signal::SIGKILL));
        }
    }
}
