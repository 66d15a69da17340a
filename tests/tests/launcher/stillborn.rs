//! Commands that end before they begin: stopped while their jail is built, or by the death of the process that
//! starts it.

use std::{
    fs,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use agentd_sandbox::{
    monitor::{Cause, Event, LeaderStatus, Request, StopReason},
    policy::{InSession, Program},
};
use agentd_tests::harness::{Mode, children_of, in_every_mode, state_of, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::drive::Launcher;

const NONE: &[OwnedFd] = &[];

#[test]
fn a_command_that_is_stopped_before_it_begins_does_not_begin() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mark = launcher.world.workspace.join("it-ran");
        let mut began = 0;
        for round in 0..20 {
            let reason = [StopReason::Cancelled, StopReason::Drained][round % 2];
            let grace_ms = [None, Some(0), Some(60_000)][round % 3];
            let invocation = launcher.invocation(Program::Script);
            let pid = Pid::from_raw(launcher.pid());
            // So that both requests are there when it looks.
            kill(pid, Signal::SIGSTOP).expect("a STOP");
            let run = launcher.ask(invocation, "trap '' TERM; touch it-ran; sleep 100");
            let exec = run.exec;
            let stop = Request::Stop {
                exec,
                reason,
                grace_ms,
            };
            run.launcher.send(&stop, NONE);
            kill(pid, Signal::SIGCONT).expect("a CONT");
            loop {
                match run.launcher.event().0 {
                    // On a busy machine the program may be executed before the launcher has heard of it.
                    Event::Started { .. } => began += 1,
                    Event::LeaderExited { .. } => {}
                    Event::Ended { cause, status, .. } => {
                        assert_eq!(cause, Cause::Stopped(reason), "{mode:?} {round}");
                        assert!(began > 0 || status == LeaderStatus::Unknown);
                        break;
                    }
                    event => panic!("{mode:?} {round}: {event:?}"),
                }
            }
            assert!(began > 0 || !mark.exists(), "{mode:?} {round}: it ran");
        }
        // Where the program is executed sooner than the second request is read, it begins; never each time.
        assert!(began < 20, "all of {began} began");
        assert_eq!(launcher.script("echo on").stdout, "on\n");
    });
}

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

/// Runs commands in a session, and kills who starts them, until the process in between has died.
fn lose_a_starter(launcher: &mut Launcher, session: &InSession) {
    let pid = launcher.pid();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                kill_starters(pid);
            }
        });
        let mut lost = false;
        for _ in 0..3_000 {
            let mut invocation = launcher.invocation(Program::Script);
            invocation.in_session = Some(Box::new(session.clone()));
            let run = launcher.ask(invocation, "true");
            let exec = run.exec;
            lost = loop {
                match run.launcher.event().0 {
                    Event::Started { .. } => {}
                    Event::LeaderExited { .. } => {
                        run.launcher.send(&Request::Finish { exec }, NONE);
                    }
                    Event::SetupFailed { failure, .. } => break failure.stage == "fork",
                    Event::Ended { .. } => break false,
                    event => panic!("{event:?}"),
                }
            };
            if lost {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(lost, "nobody was killed in time");
    });
}

/// It may have left an init behind, so its own session is closed only some time later.
#[test]
fn a_starter_that_was_killed_holds_up_the_closing_of_its_own_session_alone() {
    for mode in Mode::possible() {
        // There are no sessions with namespaces on T1.
        if *mode == Mode::Nested {
            continue;
        }
        let mut launcher = Launcher::start(*mode);
        // The session that it happens in is asked to close first, and has the smaller key.
        let [afflicted, other] = [(); 2].map(|()| launcher.session());
        lose_a_starter(&mut launcher, &afflicted);
        for session in [&afflicted, &other] {
            let session = session.session;
            launcher.send(&Request::CloseSession { session }, NONE);
        }
        for expected in [other, afflicted] {
            let session = expected.session;
            assert_eq!(launcher.event().0, Event::SessionClosed { session });
        }
    }
}

/// The window is between the look at what is there and the end of the failed start.
#[test]
fn what_somebody_else_makes_while_a_command_does_not_start_stays() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let name = launcher.world.workspace.join(".vscode");
        let pid = Pid::from_raw(launcher.pid());
        let mut stopped = 0;
        for round in 0..60_u64 {
            let is_stop = round % 2 == 0;
            let invocation = launcher.invocation(if is_stop {
                Program::Script
            } else {
                Program::Argv(vec![b"./missing".to_vec()])
            });
            kill(pid, Signal::SIGSTOP).expect("a STOP");
            let run = launcher.ask(invocation, "sleep 100");
            let exec = run.exec;
            if is_stop {
                let stop = Request::Stop {
                    exec,
                    reason: StopReason::Cancelled,
                    grace_ms: Some(0),
                };
                run.launcher.send(&stop, NONE);
            }
            let mut ran = false;
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_micros(400 * round));
                    fs::create_dir(&name).expect("nobody has made it");
                });
                kill(pid, Signal::SIGCONT).expect("a CONT");
                loop {
                    match run.launcher.event().0 {
                        Event::Started { .. } => ran = true,
                        Event::LeaderExited { .. } => {}
                        Event::Ended { .. } if is_stop => break,
                        Event::SetupFailed { .. } if !is_stop => break,
                        event => panic!("{mode:?} {round}: {event:?}"),
                    }
                }
            });
            if !ran {
                stopped += 1;
                assert!(name.exists(), "{mode:?} {round}: it was removed");
                fs::remove_dir(&name).expect("it is empty");
            } else if name.exists() {
                fs::remove_dir(&name).expect("it is empty");
            }
        }
        assert!(stopped > 30, "{mode:?}: {stopped} of 60 did not run");
        // What a command made is removed.
        assert_eq!(
            launcher.script("mkdir .vscode && echo made").stdout,
            "made\n"
        );
        assert!(!name.exists());
    });
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
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap_or_default();
        }
    }
}
