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
        Self::of((readers > 0).then_some(readers), settings)
    }

    fn of(readers: Option<usize>, settings: Settings) -> Self {
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
        pipes_held: false,
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
        pipes_held: true,
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
        pipes_held: false,
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
    let gone_before_the_start = Scene::of(Some(0), now);
    assert_eq!(gone_before_the_start.deadline(), Some(0));
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

#[test]
fn a_stop_with_a_shorter_grace_brings_the_end_nearer_and_none_puts_it_off() {
    let stop = |grace_ms| Stop {
        reason: StopReason::Cancelled,
        grace_ms,
    };
    // When the stops come, their graces, and whether the launcher is told.
    let told = true;
    for history in [
        [
            (0, Some(9_000), told),
            (10, Some(0), told),
            (20, Some(0), !told),
        ],
        [
            (0, Some(0), told),
            (10, Some(9_000), !told),
            (20, None, !told),
        ],
        [
            (0, Some(500), told),
            (100, Some(400), !told),
            (100, Some(399), told),
        ],
        [(0, None, told), (10, None, !told), (20, Some(300), told)],
        [
            (0, None, told),
            (10, Some(900), told),
            (20, Some(900), !told),
        ],
    ] {
        let mut scene = Scene::new(settings(), 1);
        for (at, grace, is_told) in history {
            let effect = scene.at(at, Input::Stop(stop(grace)));
            let expected = if is_told {
                Effect::Stop(stop(grace))
            } else {
                Effect::None
            };
            assert_eq!(effect, expected, "{history:?} at {at}");
        }
    }
}

#[test]
fn too_much_output_ends_a_command_that_has_a_long_grace() {
    let mut scene = Scene::new(
        Settings {
            output_limit: Some(10),
            ..settings()
        },
        1,
    );
    let long = Stop {
        reason: StopReason::Cancelled,
        grace_ms: Some(60_000),
    };
    assert_eq!(scene.at(0, Input::Stop(long)), Effect::Stop(long));
    assert_eq!(scene.at(1, Input::Output(10)), Effect::None);
    let now = Stop {
        reason: StopReason::OutputLimit,
        grace_ms: Some(0),
    };
    assert_eq!(scene.at(2, Input::Output(1)), Effect::Stop(now));
    assert_eq!(scene.at(3, Input::Output(1)), Effect::None);
}

#[test]
fn a_terminal_is_one_stream() {
    let one = Settings {
        streams: 1,
        ..settings()
    };
    let mut scene = Scene::new(one, 1);
    assert_eq!(scene.at(1, Input::LeaderExited), Effect::None);
    assert_eq!(scene.at(2, Input::EndOfFile), Effect::Finish);
}

/// The daemon itself was stopped between the end of the tree and reading what is left in the pipes.
#[test]
fn what_the_pipes_hold_is_read_however_late_and_an_endless_writer_is_not_waited_for() {
    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(0, Input::Ended), Effect::None);
    for _ in 0..20 {
        assert_eq!(scene.at(60_000, Input::Output(65_536)), Effect::None);
    }
    assert_eq!(scene.at(60_000, Input::EndOfFile), Effect::None);
    let complete = |output_complete| Effect::Complete {
        output_complete,
        pipes_held: false,
    };
    assert_eq!(scene.at(60_000, Input::EndOfFile), complete(true));

    let mut scene = Scene::new(settings(), 1);
    assert_eq!(scene.at(0, Input::Ended), Effect::None);
    let mut bytes = 0;
    let effect = loop {
        bytes += 65_536;
        match scene.at(3000, Input::Output(65_536)) {
            Effect::None => assert!(bytes <= HELD_BYTES),
            effect @ (Effect::Finish | Effect::Stop(_) | Effect::Complete { .. }) => break effect,
        }
    };
    assert_eq!(effect, complete(false));
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => (1..100_000_u64).prop_map(Input::Output),
        2 => Just(Input::EndOfFile),
        1 => Just(Input::LeaderExited),
        1 => Just(Input::Ended),
        1 => prop_oneof![Just(None), (0..2_000_u64).prop_map(Some)].prop_map(|grace_ms| Input::Stop(Stop {
            reason: StopReason::Cancelled,
            grace_ms,
        })),
        2 => (0..3_usize).prop_map(Input::Readers),
        4 => Just(Input::Tick),
    ]
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let disconnect = prop_oneof![
        Just(Disconnect::Keep),
        (0..2000_u64).prop_map(|ms| Disconnect::Grace(Duration::from_millis(ms))),
    ];
    let idle = prop::option::of((1..2000_u64).prop_map(Duration::from_millis));
    let limit = prop::option::of(0..500_000_u64);
    (disconnect, idle, limit, 1..3_u8).prop_map(
        |(disconnect, idle_timeout, output_limit, streams)| Settings {
            idle_timeout,
            output_limit,
            disconnect,
            streams,
        },
    )
}

/// What a history has brought about so far.
#[derive(Default)]
struct Tally {
    /// When each stop kills; `None`: after the execution's own grace.
    stops: Vec<Option<u64>>,
    finishes: u32,
    completions: u32,
    ended: bool,
    left_at: Option<u64>,
}

impl Tally {
    fn take(&mut self, clock: u64, (input, effect): (Input, Effect)) {
        assert_eq!(
            (self.completions, effect),
            (
                self.completions,
                if self.completions > 0 {
                    Effect::None
                } else {
                    effect
                }
            ),
            "nothing happens after the end"
        );
        self.ended |= input == Input::Ended;
        if input == Input::LeaderExited && self.left_at.is_none() {
            self.left_at = Some(clock);
        }
        match effect {
            Effect::None => {}
            Effect::Stop(stop) => {
                let kill_at = stop.grace_ms.map(|grace| clock + grace);
                let sooner = match (self.stops.last(), kill_at) {
                    (None, _) | (Some(None), Some(_)) => true,
                    (Some(Some(before)), Some(now)) => now < *before,
                    (Some(_), None) => false,
                };
                assert!(sooner, "it was told already");
                self.stops.push(kill_at);
            }
            Effect::Finish => self.finishes += 1,
            Effect::Complete { .. } => {
                assert!(self.ended, "no end before the tree's");
                self.completions += 1;
            }
        }
        assert!(self.finishes <= 1 && self.completions <= 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever comes in whatever order: stops that each bring the end nearer, at most one finish and one
    /// completion, the last only after the tree has ended, and after that a completion in bounded time and nothing more.
    #[test]
    fn every_history_completes_exactly_once(
        settings in any_settings(),
        inputs in prop::collection::vec((0..300_u64, any_input()), 0..60),
    ) {
        let mut scene = Scene::new(settings, 1);
        let (mut clock, mut tally) = (0, Tally::default());
        let mut open = settings.streams;
        let last = [(0, Input::Ended)].into_iter().chain((0..30).map(|_| (100, Input::Tick)));
        for (pause, input) in inputs.into_iter().chain(last) {
            clock += pause;
            // A stream ends once, and then nothing comes out of it.
            match input {
                Input::EndOfFile | Input::Output(_) if open == 0 => continue,
                Input::EndOfFile => open -= 1,
                Input::Output(_) | Input::LeaderExited | Input::Ended | Input::Stop(_)
                | Input::Readers(_) | Input::Tick => {}
            }
            let effect = scene.at(clock, input);
            tally.take(clock, (input, effect));
        }
        prop_assert_eq!(tally.completions, 1);
    }

    /// A driver that comes back at every deadline always gets on: each tick either says something or
    /// moves the deadline, and a drain is over within its cap even when somebody prints all the time.
    #[test]
    fn deadlines_make_progress_and_a_drain_is_capped(
        settings in any_settings(),
        chatter in 1..300_u64,
    ) {
        let mut scene = Scene::new(settings, 1);
        let mut stopped = false;
        let mut clock = 10;
        stopped |= scene.at(clock, Input::LeaderExited) != Effect::None;
        let mut finished = stopped;
        for _ in 0..5000 {
            let deadline = scene.deadline().map(|at| u64::try_from(at).unwrap());
            let Some(deadline) = deadline else { break };
            let next = clock + chatter;
            let effect = if next < deadline {
                clock = next;
                scene.at(clock, Input::Output(1))
            } else {
                clock = clock.max(deadline);
                let effect = scene.at(clock, Input::Tick);
                let later = scene.deadline().is_none_or(|at| at > u128::from(clock));
                prop_assert!(effect != Effect::None || later, "a tick at a deadline gets on");
                effect
            };
            prop_assert!(clock <= 10 + 2000 + chatter, "the drain ended in time");
            finished |= effect != Effect::None;
            if effect == Effect::Finish { break }
        }
        prop_assert!(finished);
    }

    /// While bytes keep coming and the pipes can hold them, completion waits for them.
    #[test]
    fn bytes_that_are_readable_before_completion_are_never_abandoned(
        sizes in prop::collection::vec(1..65_537_u64, 1..60),
        pauses in prop::collection::vec(0..5000_u64, 60),
    ) {
        let mut scene = Scene::new(settings(), 1);
        let mut clock = 0;
        prop_assert_eq!(scene.at(clock, Input::Ended), Effect::None);
        for (size, pause) in sizes.iter().zip(pauses) {
            // The driver always reads before it ticks.
            clock += pause;
            prop_assert_eq!(scene.at(clock, Input::Output(*size)), Effect::None);
        }
        prop_assert_eq!(scene.at(clock, Input::EndOfFile), Effect::None);
        let complete = Effect::Complete { output_complete: true, pipes_held: false };
        prop_assert_eq!(scene.at(clock, Input::EndOfFile), complete);
    }
}
