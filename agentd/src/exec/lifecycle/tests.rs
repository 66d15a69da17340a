//! Every way a command can go, with time as data.

#![expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]

use proptest::prelude::*;

use super::*;

fn settings() -> Settings {
    Settings {
        idle_timeout: None,
        output_limit: None,
        disconnect: Disconnect::default(),
        streams: 2,
    }
}

struct Scene {
    life: Lifecycle,
    start: Instant,
}

impl Scene {
    fn new(settings: Settings, readers: usize) -> Self {
        let start = Instant::now();
        Self {
            life: Lifecycle::new(settings, readers, start),
            start,
        }
    }

    fn at(&mut self, millis: u64, input: Input) -> Effect {
        let now = self.start + Duration::from_millis(millis);
        self.life.step(now, input)
    }

    fn deadline(&self) -> Option<u128> {
        self.life
            .deadline()
            .map(|at| at.duration_since(self.start).as_millis())
    }
}

fn stop(reason: StopReason) -> Stop {
    Stop {
        reason,
        grace_ms: None,
    }
}

#[test]
fn an_ordinary_command_ends_without_any_wait() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(1, Input::Output(3)), Effect::None);
    assert_eq!(scene.at(2, Input::EndOfFile), Effect::None);
    assert_eq!(scene.at(2, Input::EndOfFile), Effect::None);
    assert_eq!(scene.at(3, Input::LeaderExited), Effect::Finish);
    assert_eq!(scene.deadline(), None);
    let complete = Effect::Complete {
        output_complete: true,
    };
    assert_eq!(scene.at(4, Input::Ended), complete);
}

#[test]
fn end_of_file_after_the_leader_ends_the_drain_at_once() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(1, Input::LeaderExited), Effect::None);
    assert_eq!(scene.at(2, Input::EndOfFile), Effect::None);
    assert_eq!(scene.at(2, Input::EndOfFile), Effect::Finish);
}

#[test]
fn a_held_pipe_costs_one_quiet_window() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(10, Input::LeaderExited), Effect::None);
    assert_eq!(scene.deadline(), Some(110));
    assert_eq!(scene.at(109, Input::Tick), Effect::None);
    assert_eq!(scene.at(110, Input::Tick), Effect::Finish);
    assert_eq!(scene.at(120, Input::Ended), Effect::None);
    assert_eq!(
        scene.deadline(),
        Some(220),
        "then the end of file is waited for, briefly"
    );
    assert_eq!(scene.at(121, Input::EndOfFile), Effect::None);
    let complete = Effect::Complete {
        output_complete: true,
    };
    assert_eq!(scene.at(122, Input::EndOfFile), complete);
}

#[test]
fn output_starts_the_quiet_window_anew_up_to_a_cap() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(0, Input::LeaderExited), Effect::None);
    for millis in (50..2000).step_by(50) {
        assert_eq!(scene.at(millis, Input::Output(1)), Effect::None, "{millis}");
    }
    assert_eq!(scene.deadline(), Some(2000));
    assert_eq!(
        scene.at(2000, Input::Output(1)),
        Effect::Finish,
        "even without a tick"
    );
}

#[test]
fn a_pipe_that_outlives_the_tree_makes_the_output_incomplete() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(0, Input::Ended), Effect::None);
    assert_eq!(scene.at(50, Input::EndOfFile), Effect::None);
    let complete = Effect::Complete {
        output_complete: false,
    };
    assert_eq!(scene.at(100, Input::Tick), complete);
}

#[test]
fn silence_ends_a_command_with_an_idle_timeout_once() {
    let idle = Settings {
        idle_timeout: Some(Duration::from_millis(500)),
        ..settings()
    };
    let mut scene = Scene::new(idle, 1);
    assert_eq!(scene.at(400, Input::Output(1)), Effect::None);
    assert_eq!(scene.deadline(), Some(900));
    assert_eq!(scene.at(899, Input::Tick), Effect::None);
    assert_eq!(
        scene.at(900, Input::Tick),
        Effect::Stop(stop(StopReason::IdleTimeout))
    );
    assert_eq!(scene.at(5000, Input::Tick), Effect::None);
    assert_eq!(scene.deadline(), None);
}

#[test]
fn too_much_output_ends_a_command() {
    let limited = Settings {
        output_limit: Some(10),
        ..settings()
    };
    let mut scene = Scene::new(limited, 1);
    assert_eq!(scene.at(1, Input::Output(10)), Effect::None);
    let expected = Stop {
        reason: StopReason::OutputLimit,
        grace_ms: Some(0),
    };
    assert_eq!(scene.at(2, Input::Output(1)), Effect::Stop(expected));
    assert_eq!(scene.at(3, Input::Output(1)), Effect::None);
}

#[test]
fn a_command_without_readers_lives_for_its_grace() {
    let short = Settings {
        disconnect: Disconnect::Grace(Duration::from_secs(1)),
        ..settings()
    };
    let mut scene = Scene::new(short, 1);
    assert_eq!(scene.deadline(), None);
    assert_eq!(scene.at(100, Input::Readers(0)), Effect::None);
    assert_eq!(scene.deadline(), Some(1100));
    assert_eq!(
        scene.at(1000, Input::Readers(1)),
        Effect::None,
        "it came back in time"
    );
    assert_eq!(scene.deadline(), None);
    assert_eq!(scene.at(2000, Input::Readers(0)), Effect::None);
    assert_eq!(
        scene.at(3000, Input::Tick),
        Effect::Stop(stop(StopReason::Disconnected))
    );
}

#[test]
fn a_command_that_nobody_has_read_yet_gets_the_default_grace() {
    let now = Settings {
        disconnect: Disconnect::Grace(Duration::ZERO),
        ..settings()
    };
    assert_eq!(Scene::new(now, 0).deadline(), Some(60_000));
    let keep = Settings {
        disconnect: Disconnect::Keep,
        ..settings()
    };
    assert_eq!(Scene::new(keep, 0).deadline(), None);
}

#[test]
fn a_stop_while_draining_kills_the_rest_and_keeps_the_leaders_end() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(1, Input::LeaderExited), Effect::None);
    let cancel = Input::Stop(stop(StopReason::Cancelled));
    assert_eq!(scene.at(2, cancel), Effect::Finish);
    assert_eq!(scene.at(3, cancel), Effect::None);
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        (1..100_000_u64).prop_map(Input::Output),
        Just(Input::EndOfFile),
        Just(Input::LeaderExited),
        Just(Input::Ended),
        Just(Input::Stop(stop(StopReason::Cancelled))),
        (0..3_usize).prop_map(Input::Readers),
        Just(Input::Tick),
    ]
}

proptest! {
    /// Whatever comes in whatever order: at most one stop, one finish and one completion, the last
    /// only after the tree has ended, and after that a completion in bounded time.
    #[test]
    fn every_history_completes_exactly_once(inputs in prop::collection::vec((0..300_u64, any_input()), 0..60)) {
        let mut scene = Scene::new(settings(), 1);
        let mut clock = 0;
        let (mut stops, mut finishes, mut completions, mut ended) = (0, 0, 0, false);
        let last = [(0, Input::Ended)].into_iter().chain((0..30).map(|_| (100, Input::Tick)));
        for (pause, input) in inputs.into_iter().chain(last) {
            clock += pause;
            ended |= input == Input::Ended;
            match scene.at(clock, input) {
                Effect::None => {}
                Effect::Stop(_) => stops += 1,
                Effect::Finish => finishes += 1,
                Effect::Complete { .. } => {
                    prop_assert!(ended);
                    completions += 1;
                }
            }
        }
        prop_assert!(stops <= 1);
        prop_assert!(finishes <= 1);
        prop_assert_eq!(completions, 1);
    }
}
