//! The state machine, by example and by property.

use proptest::prelude::*;

use super::lifecycle::{Action, Input, Lifecycle, Millis};
use crate::{
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
        life.step(Millis(5), Input::Empty { leftover: 0, usage }),
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
fn a_stop_before_the_start_is_kept() {
    let mut life = Lifecycle::new(Millis(0), (1_000, 200), Tier::Rootless);
    let stop = Input::Stop {
        reason: StopReason::Cancelled,
        grace_ms: None,
    };
    assert_eq!(life.step(Millis(1), stop), []);
    let actions = life.step(Millis(2), Input::Executed);
    assert_eq!(actions, [Action::AnnounceStart, Action::Terminate]);
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
            usage: Usage::default()
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

proptest! {
    /// Whatever happens in whatever order: at most one start, exactly one end once init is gone, nothing
    /// after the end, and time alone always reaches a KILL.
    #[test]
    fn there_is_exactly_one_end(
        inputs in prop::collection::vec((input(), 0..3_000_u64), 0..40),
        namespaced in any::<bool>(),
    ) {
        let tier = if namespaced { Tier::Rootless } else { Tier::Nested };
        let mut life = Lifecycle::new(Millis(0), (1_000, 200), tier);
        let mut now = Millis(0);
        let (mut starts, mut ends) = (0_u32, 0_u32);
        let mut count = |actions: &[Action]| {
            for action in actions {
                let end =
                    matches!(action, Action::AnnounceEnd(_) | Action::AnnounceFailure { .. });
                starts = starts.saturating_add(u32::from(*action == Action::AnnounceStart));
                ends = ends.saturating_add(u32::from(end));
            }
        };
        for (input, pause) in inputs {
            let over = life.is_over();
            let actions = life.step(now, input);
            prop_assert!(!over || actions.is_empty());
            count(&actions);
            now = now.after(pause);
        }
        let mut killed = life.is_over();
        for _ in 0..10 {
            if let Some(deadline) = life.deadline() {
                now = now.max(deadline);
                let actions = life.step(now, Input::Tick);
                killed |= actions.iter().any(|action| {
                    matches!(action, Action::Kill | Action::KillInit | Action::AnnounceEnd(_))
                });
                count(&actions);
            }
        }
        prop_assert!(killed);
        count(&life.step(now, Input::InitGone));
        prop_assert!(starts <= 1);
        prop_assert_eq!(ends, 1);
    }
}
