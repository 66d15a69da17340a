//! The state machine, by example and by property.

use proptest::prelude::*;

use super::lifecycle::{Action, Input, Lifecycle, Millis};
use crate::{
    launch::LimitEnds,
    monitor::{Cause, LeaderStatus, StopReason, Usage},
    policy::Tier,
};

const EXITED: LeaderStatus = LeaderStatus::Exited(0);

fn start(tier: Tier) -> Lifecycle {
    let mut life = Lifecycle::new(Millis(0), (1_000, 200), tier);
    assert_eq!(
        life.step(Millis(1), Input::Executed),
        [Action::AnnounceStart]
    );
    life
}

fn cause(actions: &[Action]) -> Option<Cause> {
    actions.iter().find_map(|action| {
        if let Action::AnnounceEnd(end) = action {
            Some(end.cause)
        } else {
            None
        }
    })
}

#[test]
fn a_command_without_leftovers_ends_when_its_init_does() {
    let mut life = start(Tier::Rootless);
    let leader = life.step(Millis(5), Input::LeaderExited(EXITED));
    assert_eq!(leader, [Action::AnnounceLeader(EXITED)]);
    let usage = Usage {
        user_us: 3,
        ..Usage::default()
    };
    assert_eq!(
        life.step(
            Millis(5),
            Input::Empty {
                leftover: 0,
                usage,
                ends: LimitEnds::default()
            }
        ),
        []
    );
    let end = life.step(Millis(6), Input::InitGone);
    assert_eq!(cause(&end), Some(Cause::Leader));
    assert!(life.is_over());
}

#[test]
fn leftovers_are_killed_only_once_the_output_is_drained() {
    let mut life = start(Tier::Rootless);
    life.step(Millis(5), Input::LeaderExited(EXITED));
    assert_eq!(life.step(Millis(6), Input::Tick), []);
    assert_eq!(life.step(Millis(100), Input::Finish), [Action::Kill]);
}

#[test]
fn a_front_end_that_never_finishes_does_not_keep_a_tree_alive() {
    let mut life = start(Tier::Rootless);
    life.step(Millis(5), Input::LeaderExited(EXITED));
    let deadline = life.deadline().unwrap();
    assert_eq!(life.step(deadline, Input::Tick), [Action::Kill]);
}

#[test]
fn a_timeout_is_term_then_grace_then_kill() {
    let mut life = start(Tier::Rootless);
    assert_eq!(life.step(Millis(1_001), Input::Tick), [Action::Terminate]);
    assert_eq!(life.step(Millis(1_100), Input::Tick), []);
    assert_eq!(life.step(Millis(1_201), Input::Tick), [Action::Kill]);
    assert_eq!(life.step(Millis(1_701), Input::Tick), [Action::KillInit]);
    assert_eq!(
        cause(&life.step(Millis(1_702), Input::InitGone)),
        Some(Cause::Timeout)
    );
}

#[test]
fn a_stop_before_the_start_ends_the_set_up() {
    for (tier, ended) in [
        (Tier::HostRoot, Action::KillInit),
        (Tier::Rootless, Action::KillInit),
        (Tier::Nested, Action::Kill),
    ] {
        let stopped = || {
            let mut life = Lifecycle::new(Millis(0), (1_000, 200), tier);
            let stop = Input::Stop {
                reason: StopReason::Drained,
                grace_ms: None,
            };
            assert_eq!(life.step(Millis(1), stop), [ended]);
            life
        };
        let nothing = [Action::AnnounceNothingRan(StopReason::Drained)];
        assert_eq!(stopped().step(Millis(2), Input::InitGone), nothing);
        let mut life = stopped();
        life.step(Millis(2), Input::SetupFailed);
        assert_eq!(life.step(Millis(3), Input::InitGone), nothing);
        // It was executed before the KILL came.
        let mut life = stopped();
        let actions = life.step(Millis(2), Input::Executed);
        assert_eq!(actions, [Action::AnnounceStart, Action::Terminate]);
        let end = life.step(Millis(3), Input::InitGone);
        assert_eq!(cause(&end), Some(Cause::Stopped(StopReason::Drained)));
    }
}

#[test]
fn a_leader_that_ends_before_its_start_was_noticed_is_announced_after_it() {
    let mut life = Lifecycle::new(Millis(0), (1_000, 200), Tier::Rootless);
    assert_eq!(life.step(Millis(1), Input::LeaderExited(EXITED)), []);
    let actions = life.step(Millis(1), Input::Executed);
    assert_eq!(
        actions,
        [Action::AnnounceStart, Action::AnnounceLeader(EXITED)]
    );
    assert_eq!(life.step(Millis(2), Input::Finish), [Action::Kill]);
}

#[test]
fn the_leader_of_a_failed_set_up_is_not_announced() {
    let mut life = Lifecycle::new(Millis(0), (1_000, 200), Tier::Rootless);
    assert_eq!(life.step(Millis(1), Input::SetupFailed), []);
    let status = LeaderStatus::Exited(125);
    assert_eq!(life.step(Millis(1), Input::LeaderExited(status)), []);
    let end = life.step(Millis(2), Input::InitGone);
    assert_eq!(end, [Action::AnnounceFailure { too_long: false }]);
}

#[test]
fn a_set_up_that_hangs_is_ended_and_reported() {
    let mut life = Lifecycle::new(Millis(0), (1_000, 200), Tier::Rootless);
    let deadline = life.deadline().unwrap();
    assert_eq!(life.step(deadline, Input::Tick), [Action::KillInit]);
    let end = life.step(deadline.after(1), Input::InitGone);
    assert_eq!(end, [Action::AnnounceFailure { too_long: true }]);
}

#[test]
fn a_set_up_that_not_even_a_kill_ends_is_given_up_and_reported() {
    for (tier, kill) in [
        (Tier::HostRoot, Action::KillInit),
        (Tier::Rootless, Action::KillInit),
        (Tier::Nested, Action::Kill),
    ] {
        let mut life = Lifecycle::new(Millis(0), (1_000, 200), tier);
        let killed = life.deadline().unwrap();
        assert_eq!(life.step(killed, Input::Tick), [kill]);
        let given_up = life.deadline().unwrap();
        assert!(given_up <= killed.after(LIMITS_MS), "{given_up:?}");
        assert_eq!(
            life.step(given_up, Input::Tick),
            [Action::AnnounceFailure { too_long: true }]
        );
        assert!(life.is_over());
    }
}

#[test]
fn an_init_that_dies_is_never_reported_as_an_exit_code() {
    let mut life = start(Tier::Rootless);
    assert_eq!(
        cause(&life.step(Millis(5), Input::InitGone)),
        Some(Cause::InitDied)
    );
}

#[test]
fn without_a_pid_namespace_init_is_not_killed_but_the_tree_is_given_up_at_last() {
    let mut life = start(Tier::Nested);
    life.step(Millis(5), Input::LeaderExited(EXITED));
    life.step(Millis(6), Input::Finish);
    let mut now = Millis(6);
    let mut actions = Vec::new();
    while !life.is_over() {
        now = life.deadline().unwrap();
        actions.extend(life.step(now, Input::Tick));
    }
    assert!(!actions.contains(&Action::KillInit));
    assert!(now >= Millis(5_006), "{now:?}");
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Executed),
        Just(Input::SetupFailed),
        (-1..3).prop_map(|code| Input::LeaderExited(LeaderStatus::Exited(code))),
        (0..3_u32).prop_map(|leftover| Input::Empty {
            leftover,
            usage: Usage::default(),
            ends: LimitEnds::default()
        }),
        Just(Input::InitGone),
        Just(Input::Finish),
        prop_oneof![Just(None), (0..500_u64).prop_map(Some)].prop_map(|grace_ms| Input::Stop {
            reason: StopReason::Cancelled,
            grace_ms
        }),
        Just(Input::Tick),
    ]
}

/// Lets time pass: every tick that is due by `until` is delivered when it is due. Returns what was done,
/// with the moment. No tick may leave another one due at the same moment, or nothing would ever be waited
/// for.
fn pass(life: &mut Lifecycle, until: Millis) -> Vec<(Millis, Action)> {
    let mut done = Vec::new();
    while let Some(due) = life.deadline().filter(|due| *due <= until) {
        done.extend(
            life.step(due, Input::Tick)
                .into_iter()
                .map(|action| (due, action)),
        );
        assert!(life.deadline().is_none_or(|next| next > due), "{life:?}");
    }
    done
}

fn is_end(action: &Action) -> bool {
    matches!(
        action,
        Action::AnnounceEnd(_) | Action::AnnounceFailure { .. } | Action::AnnounceNothingRan(_)
    )
}

fn is_kill(action: &Action) -> bool {
    matches!(action, Action::Kill | Action::KillInit)
}

const LIMITS_MS: u64 = 45_000;

proptest! {
    /// Whatever happens in whatever order and at whatever time: one start or one failure, never both, one
    /// end once init is gone, the leader announced at most once and only in between, nothing after the end.
    #[test]
    fn there_is_exactly_one_end(
        inputs in prop::collection::vec((input(), 0..3_000_u64), 0..40),
        namespaced in any::<bool>(),
        times in (prop_oneof![1..5_000_u64, Just(u64::MAX)], 0..500_u64),
    ) {
        let tier = if namespaced { Tier::Rootless } else { Tier::Nested };
        let mut life = Lifecycle::new(Millis(0), times, tier);
        let mut now = Millis(0);
        let mut done = Vec::new();
        for (input, pause) in inputs.into_iter().chain([(Input::InitGone, 0)]) {
            now = now.after(pause);
            done.extend(pass(&mut life, now));
            let over = life.is_over();
            let actions = life.step(now, input);
            prop_assert!(!over || actions.is_empty());
            done.extend(actions.into_iter().map(|action| (now, action)));
        }
        prop_assert!(life.is_over() && life.deadline().is_none());
        let actions: Vec<Action> = done.into_iter().map(|(_, action)| action).collect();
        let count = |wanted: fn(&Action) -> bool| actions.iter().filter(|action| wanted(action)).count();
        let starts = count(|action| *action == Action::AnnounceStart);
        let failures = count(|action| {
            matches!(action, Action::AnnounceFailure { .. } | Action::AnnounceNothingRan(_))
        });
        let leaders = count(|action| matches!(action, Action::AnnounceLeader(_)));
        prop_assert_eq!((starts == 1, failures == 1), (failures == 0, starts == 0));
        prop_assert_eq!(count(is_end), 1);
        prop_assert!(actions.last().is_some_and(is_end));
        prop_assert!(leaders <= starts);
        let at = |wanted: fn(&Action) -> bool| actions.iter().position(wanted);
        if leaders == 1 {
            let start = at(|action| *action == Action::AnnounceStart);
            prop_assert!(at(|action| matches!(action, Action::AnnounceLeader(_))) > start);
        }
        if let Some(Action::AnnounceEnd(end)) = actions.last() {
            prop_assert!(!end.proven || namespaced);
        }
    }

    /// As long as init lives, time alone leads to a KILL: no later than the limit of whatever phase it is
    /// in. Only a command without a wall clock that nobody stops, and whose leader runs, lives on.
    #[test]
    fn time_alone_reaches_a_kill(
        inputs in prop::collection::vec((input(), 0..3_000_u64), 0..20),
        namespaced in any::<bool>(),
        times in (1..5_000_u64, 0..500_u64),
    ) {
        let tier = if namespaced { Tier::Rootless } else { Tier::Nested };
        let mut life = Lifecycle::new(Millis(0), times, tier);
        let mut now = Millis(0);
        let mut done = Vec::new();
        for (input, pause) in inputs.into_iter().filter(|(input, _)| *input != Input::InitGone) {
            now = now.after(pause);
            done.extend(pass(&mut life, now));
            done.extend(life.step(now, input).into_iter().map(|action| (now, action)));
        }
        done.extend(pass(&mut life, now.after(60_000)));
        let first = done.iter().find(|(_, action)| is_kill(action) || is_end(action));
        let (killed, _) = first.expect("a KILL");
        // Set-up, wall clock, grace, and a front end that never answers.
        let bound = Millis(LIMITS_MS).after(times.0).after(times.1).after(LIMITS_MS);
        prop_assert!(*killed <= bound, "{killed:?} {bound:?}");
        // And a KILL that has no effect is followed by a harder one, or by giving up.
        let harder = done.iter().any(|(_, action)| {
            *action == Action::KillInit || !namespaced && (is_end(action) || life.is_setting_up())
        });
        prop_assert!(harder, "{done:?}");
    }
}

#[test]
fn a_command_without_a_wall_clock_waits_for_nothing_until_it_is_stopped() {
    let mut life = Lifecycle::new(Millis(5), (u64::MAX, 200), Tier::HostRoot);
    life.step(Millis(6), Input::Executed);
    assert_eq!(life.deadline(), None);
    assert_eq!(life.step(Millis(u64::MAX), Input::Tick), []);
    let stop = Input::Stop {
        reason: StopReason::Drained,
        grace_ms: None,
    };
    assert_eq!(life.step(Millis(1_000), stop), [Action::Terminate]);
    assert_eq!(life.deadline(), Some(Millis(1_200)));
}

#[test]
fn no_grace_is_a_kill_at_once() {
    for (grace, asked) in [(0, None), (0, Some(500)), (200, Some(0))] {
        let mut life = Lifecycle::new(Millis(0), (1_000, grace), Tier::Rootless);
        life.step(Millis(1), Input::Executed);
        let stop = Input::Stop {
            reason: StopReason::Cancelled,
            grace_ms: asked,
        };
        let actions = life.step(Millis(2), stop);
        assert_eq!(actions, [Action::Terminate, Action::Kill]);
    }
}

#[test]
fn of_several_stops_the_first_reason_and_the_earliest_kill_count_before_the_start_too() {
    let stop = |reason, grace_ms| Input::Stop { reason, grace_ms };
    for (first, second, kill_at) in [
        (None, Some(50), 150),
        (Some(50), None, 150),
        (Some(150), Some(50), 150),
        (Some(50), Some(150), 150),
        (None, None, 300),
        (Some(9_000), Some(500), 300),
    ] {
        let stops = [
            stop(StopReason::Cancelled, first),
            stop(StopReason::Drained, second),
        ];
        for early in [true, false] {
            let mut life = Lifecycle::new(Millis(0), (1_000, 200), Tier::Rootless);
            if !early {
                life.step(Millis(100), Input::Executed);
            }
            for stop in stops {
                life.step(Millis(100), stop);
            }
            if early {
                life.step(Millis(100), Input::Executed);
            }
            assert_eq!(life.deadline(), Some(Millis(kill_at)), "{stops:?}");
            assert_eq!(life.step(Millis(kill_at), Input::Tick), [Action::Kill]);
            let end = life.step(Millis(kill_at), Input::InitGone);
            assert_eq!(cause(&end), Some(Cause::Stopped(StopReason::Cancelled)));
        }
    }
}
