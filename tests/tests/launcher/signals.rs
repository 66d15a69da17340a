//! Signals by scope, and what they leave alone.

use agentd_sandbox::{
    monitor::{Cause, Request, SignalScope, StopReason},
    policy::Program,
};
use agentd_tests::harness::{Mode, in_every_mode};
use nix::sys::signal::Signal;

use crate::drive::{Launcher, exited, signaled};

/// A leader, a child in its group and a child in a session of its own; each says which signal it got.
const FAMILY: &str = r#"
report() { trap "echo $1 $2" "$2"; }
report leader "$SIG"
bash -c 'trap "echo member $0" "$0"; echo up; while :; do sleep 0.02; done' "$SIG" &
setsid bash -c 'trap "echo other $0" "$0"; echo up; while :; do sleep 0.02; done' "$SIG" &
while :; do sleep 0.02; done
"#;

#[test]
fn a_signal_reaches_the_leader_its_group_or_everybody() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for (scope, reached, spared) in [
            (SignalScope::Tree, vec!["leader", "member", "other"], vec![]),
            (SignalScope::Group, vec!["leader", "member"], vec!["other"]),
            (SignalScope::Leader, vec!["leader"], vec!["member", "other"]),
        ] {
            for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP] {
                let mut invocation = launcher.invocation(Program::Script);
                let name = signal.as_str().trim_start_matches("SIG");
                invocation.env_set.insert("SIG".into(), name.into());
                let mut run = launcher.ask(invocation, FAMILY);
                let started = run.started();
                run.shows("up\nup\n");
                run.signal(signal as i32, scope);
                for who in &reached {
                    run.shows(&format!("{who} {name}\n"));
                }
                run.signal(Signal::SIGKILL as i32, SignalScope::Tree);
                let outcome = run.end(started);
                assert_eq!(outcome.status, signaled(9));
                for who in &spared {
                    let hit = format!("{who} {name}");
                    assert!(!outcome.stdout.contains(&hit), "{scope:?}: {outcome:?}");
                }
                for who in &reached {
                    let times = outcome.stdout.matches(who).count();
                    assert_eq!(times, 1, "{scope:?} {signal}: {outcome:?}");
                }
            }
        }
    });
}

#[test]
fn only_signals_that_a_client_may_send_are_sent() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mut run = {
            let invocation = launcher.invocation(Program::Script);
            launcher.ask(
                invocation,
                "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done",
            )
        };
        let started = run.started();
        run.shows("ready\n");
        for signal in [
            i32::MIN,
            -1,
            0,
            4,
            6,
            8,
            11,
            13,
            14,
            17,
            20,
            31,
            34,
            64,
            65,
            271,
            i32::MAX,
        ] {
            run.signal(signal, SignalScope::Tree);
        }
        run.signal(15, SignalScope::Leader);
        assert_eq!(run.end(started).status, exited(5));
    });
}

#[test]
fn what_is_stopped_can_be_continued_and_still_hears_term() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let script = "trap 'echo bye; exit 6' TERM; trap 'echo on' CONT; echo ready; while :; do sleep 0.02; done";
        let stop = |exec| Request::Stop {
            exec,
            reason: StopReason::Cancelled,
            grace_ms: None,
        };
        for by_request in [true, false] {
            let invocation = launcher.invocation(Program::Script);
            let mut run = launcher.ask(invocation, script);
            let started = run.started();
            run.shows("ready\n");
            run.signal(Signal::SIGSTOP as i32, SignalScope::Tree);
            run.signal(Signal::SIGCONT as i32, SignalScope::Tree);
            run.shows("on\n");
            run.signal(Signal::SIGSTOP as i32, SignalScope::Tree);
            if by_request {
                let request = stop(run.exec);
                run.launcher.send(&request, &[]);
            } else {
                run.signal(15, SignalScope::Tree);
            }
            let outcome = run.end(started);
            assert_eq!(outcome.status, exited(6), "{outcome:?}");
            assert!(outcome.stdout.contains("bye\n"), "{outcome:?}");
            let cause = if by_request {
                Cause::Stopped(StopReason::Cancelled)
            } else {
                Cause::Leader
            };
            assert_eq!(outcome.cause, cause);
        }
    });
}

#[test]
fn a_leader_that_is_gone_is_not_signalled_and_its_tree_still_is() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let invocation = launcher.invocation(Program::Script);
        let script = "bash -c 'trap \"echo heard; exit\" USR1; echo up; while :; do sleep 0.02; done' & exec sleep 0.2";
        let mut run = launcher.ask(invocation, script);
        run.started();
        run.shows("up\n");
        let (event, _) = run.launcher.event();
        assert!(matches!(
            event,
            agentd_sandbox::monitor::Event::LeaderExited { .. }
        ));
        run.signal(Signal::SIGKILL as i32, SignalScope::Leader);
        run.signal(Signal::SIGKILL as i32, SignalScope::Group);
        run.signal(Signal::SIGUSR1 as i32, SignalScope::Tree);
        run.shows("heard\n");
    });
}

#[test]
fn the_end_is_proven_where_init_or_a_control_group_is_the_whole_tree() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let proves = mode != Mode::Nested || launcher.cgroup != "none";
        for script in ["true", "sleep 100 & sleep 100 & exit 3", "kill -9 $$"] {
            let outcome = launcher.script(script);
            assert_eq!(outcome.proven, proves, "{outcome:?}");
        }
    });
}
