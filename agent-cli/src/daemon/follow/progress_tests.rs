//! The state machine against tables and against random breaks.

use std::time::Duration;

use proptest::prelude::*;

use super::{Fact, GiveUp, LastMessage, Next, Progress, Resume, Terms, Verdict, backoff};
use crate::daemon::fault::{Fault, Refusal};
use crate::daemon::follow::{PATIENCE, PATIENCE_WITH_NOBODY, Patience, SILENCE};

fn terms(last: LastMessage) -> Terms {
    Terms {
        patience: Patience::default(),
        last,
        can_redial: true,
        queue: Duration::from_secs(30),
    }
}

fn exec() -> Progress {
    Progress::new(terms(LastMessage::Exited))
}

fn private() -> Progress {
    Progress::new(Terms {
        can_redial: false,
        ..terms(LastMessage::Exited)
    })
}

const NOW: Duration = Duration::ZERO;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn output(offset: u64, length: u64) -> Fact {
    Fact::Output {
        lane: 0,
        offset,
        length,
    }
}

fn reset() -> Fault {
    Fault::Transport("reset".into())
}

/// A command that has started and printed ten bytes.
fn running() -> Progress {
    let mut progress = exec();
    for (seq, fact) in [(1, Fact::Started(None)), (2, output(0, 10))] {
        assert_eq!(progress.on_message(seq, fact, NOW), Ok(Verdict::Deliver));
    }
    progress
}

#[test]
fn what_was_seen_is_skipped_and_what_is_new_is_passed_on() {
    let mut progress = running();
    for (seq, fact, expected) in [
        (1, Fact::Started(None), Verdict::Skip),
        (2, output(0, 10), Verdict::Skip),
        (0, Fact::Heartbeat, Verdict::Skip),
        (3, output(10, 5), Verdict::Deliver),
        (3, output(10, 5), Verdict::Skip),
        (4, Fact::Exited, Verdict::Deliver),
    ] {
        assert!(!progress.is_done());
        assert_eq!(progress.on_message(seq, fact, NOW), Ok(expected), "{seq}");
    }
    assert!(progress.is_done());
}

#[test]
fn a_missing_event_or_byte_is_never_passed_over() {
    for (seq, fact) in [
        (4, output(10, 1)),
        (0, output(10, 1)),
        (3, output(11, 1)),
        (3, output(9, 1)),
        (5, Fact::Exited),
        (
            0,
            Fact::Gap {
                from: 4,
                to: 9,
                bytes: [1, 0, 0],
            },
        ),
    ] {
        let mut progress = running();
        assert!(
            progress.on_message(seq, fact, NOW).is_err(),
            "{seq} {fact:?}"
        );
        assert!(!progress.is_done());
    }
}

#[test]
fn a_gap_is_counted_exactly_also_when_the_stream_began_anew() {
    for (from, to, bytes, expected, next_offset) in [
        // Attached behind what was seen: what is lost is what is told.
        (3, 7, [20, 3, 0], Verdict::Lost([20, 3, 0]), 30),
        // Read from the start again: ten of the lost bytes had arrived before.
        (1, 7, [30, 3, 0], Verdict::Lost([20, 3, 0]), 30),
        // Nothing new is lost.
        (1, 2, [10, 0, 0], Verdict::Skip, 10),
    ] {
        let mut progress = running();
        let told = progress.on_message(0, Fact::Gap { from, to, bytes }, NOW);
        assert_eq!(told, Ok(expected));
        let seq = to.max(2) + 1;
        let next = progress.on_message(seq, output(next_offset, 1), NOW);
        assert_eq!(next, Ok(Verdict::Deliver), "{from} {to}");
    }
}

#[test]
fn a_tools_end_is_its_result_and_not_the_end_of_its_command() {
    let mut progress = Progress::new(terms(LastMessage::Result));
    let _: Verdict = progress.on_message(1, Fact::Exited, NOW).unwrap();
    assert!(!progress.is_done());
    assert_eq!(
        progress.on_message(0, Fact::Result, NOW),
        Ok(Verdict::Deliver)
    );
    assert!(progress.is_done());
}

#[test]
fn a_broken_stream_is_asked_for_again_behind_what_was_seen() {
    for fault in [reset(), Fault::Silent, Fault::Ended, Fault::NeverSent] {
        let mut progress = running();
        let next = progress.on_fault(&fault, NOW, 0);
        assert!(matches!(next, Next::Again(_)), "{fault}: {next:?}");
        assert_eq!(progress.resume(), Resume::After(2));
    }
    let mut unheard = exec();
    assert!(matches!(unheard.on_fault(&reset(), NOW, 0), Next::Again(_)));
    assert_eq!(unheard.resume(), Resume::Start);
    assert!(unheard.may_be_sent());
    let mut unsent = exec();
    assert!(matches!(
        unsent.on_fault(&Fault::NeverSent, NOW, 0),
        Next::Again(_)
    ));
    assert!(!unsent.may_be_sent());
}

#[test]
fn every_hopeless_fault_has_its_end_and_none_of_them_is_a_success() {
    use Refusal::*;
    let refused = Fault::Refused;
    for (progress, fault, expected) in [
        (exec(), refused(Other), GiveUp::Refused),
        (exec(), refused(Busy), GiveUp::Refused),
        (exec(), refused(Unknown), GiveUp::Refused),
        (exec(), Fault::HungUp, GiveUp::NotStarted),
        (running(), refused(Unknown), GiveUp::Forgotten),
        (running(), refused(Dying), GiveUp::Restarted),
        (running(), refused(Other), GiveUp::NoEnd),
        (running(), Fault::OtherBoot, GiveUp::Restarted),
        (running(), Fault::Overdue, GiveUp::Overdue),
        (running(), Fault::HungUp, GiveUp::Unreachable),
        (private(), reset(), GiveUp::Broken),
        (private(), Fault::Silent, GiveUp::Broken),
        (private(), Fault::Ended, GiveUp::NoEnd),
        (private(), Fault::NeverSent, GiveUp::Broken),
    ] {
        let mut tried = progress.clone();
        let next = tried.on_fault(&fault, NOW, 0);
        assert_eq!(next, Next::GiveUp(expected), "{fault}");
        assert!(!tried.is_done());
    }
}

#[test]
fn a_start_that_may_have_arrived_and_is_unknown_now_may_have_run() {
    for (refusal, unsent, sent) in [
        (Refusal::Unknown, GiveUp::Refused, GiveUp::Forgotten),
        (Refusal::Dying, GiveUp::Refused, GiveUp::Restarted),
    ] {
        let mut progress = exec();
        let refused = Fault::Refused(refusal);
        let next = progress.clone().on_fault(&refused, NOW, 0);
        assert_eq!(next, Next::GiveUp(unsent));
        let _: Next = progress.on_fault(&reset(), NOW, 0);
        assert_eq!(
            progress.on_fault(&refused, NOW, 0),
            Next::GiveUp(sent),
            "{refusal:?}"
        );
    }
}

#[test]
fn trouble_is_bounded_and_ends_with_the_next_message() {
    for (fault, patience) in [
        (reset(), PATIENCE),
        (Fault::Silent, PATIENCE),
        (Fault::NobodyListens, PATIENCE_WITH_NOBODY),
        (Fault::Refused(Refusal::Busy), PATIENCE),
        (Fault::Refused(Refusal::SlowReader), PATIENCE),
    ] {
        let mut progress = running();
        let almost = patience.saturating_sub(Duration::from_millis(1));
        for now in [NOW, almost] {
            let next = progress.on_fault(&fault, now, 0);
            assert!(matches!(next, Next::Again(_)), "{fault} at {now:?}");
        }
        let mut patient = progress.clone();
        let next = progress.on_fault(&fault, patience, 0);
        assert_eq!(next, Next::GiveUp(GiveUp::Unreachable), "{fault}");
        let told = patient.on_message(0, Fact::Heartbeat, patience);
        assert_eq!(told, Ok(Verdict::Skip));
        let next = patient.on_fault(&fault, patience, 0);
        assert!(matches!(next, Next::Again(_)), "{fault}");
    }
}

#[test]
fn a_daemon_that_only_repeats_itself_is_given_up() {
    let mut progress = running();
    let mut seconds = 0;
    let end = loop {
        let seen = progress.on_message(2, output(0, 10), at(seconds));
        assert_eq!(seen, Ok(Verdict::Skip));
        match progress.on_fault(&Fault::Ended, at(seconds), 0) {
            Next::Again(_) => seconds += 1,
            Next::GiveUp(end) => break end,
        }
    };
    assert_eq!((end, at(seconds)), (GiveUp::Unreachable, PATIENCE));
}

#[test]
fn a_command_that_waits_for_its_turn_may_be_silent_for_longer() {
    let mut progress = exec();
    assert_eq!(progress.silence(), SILENCE + at(30));
    progress.on_accepted();
    assert_eq!(progress.silence(), SILENCE);
}

#[test]
fn this_client_waits_longer_than_the_daemon_lets_a_command_run_but_not_for_ever() {
    let mut progress = exec();
    let limit = Fact::Started(Some(at(122)));
    let _: Verdict = progress.on_message(1, limit, at(5)).unwrap();
    assert!(!progress.is_overdue(at(127)));
    assert!(!progress.is_overdue(at(5 + 122 + 59)));
    assert!(progress.is_overdue(at(5 + 122 + 60)));
    let mut unlimited = running();
    assert!(!unlimited.is_overdue(at(1_000_000)));
    let next = unlimited.on_fault(&reset(), at(1_000_000), 0);
    assert!(matches!(next, Next::Again(_)));
}

#[test]
fn pauses_grow_to_a_bound_and_are_spread() {
    let mut before = Duration::ZERO;
    for attempt in 0..40 {
        let (low, high) = (backoff(attempt, 0), backoff(attempt, u8::MAX));
        assert!(low < high && high <= at(4), "{attempt}: {low:?} {high:?}");
        assert!(low >= before, "{attempt}");
        before = low;
    }
}

proptest! {
    /// A daemon that holds everything, a stream that breaks anywhere and sometimes begins anew.
    #[test]
    fn whatever_breaks_every_event_is_passed_on_exactly_once(
        lengths in prop::collection::vec(0_u64..5, 0..20),
        breaks in prop::collection::vec((0_usize..22, any::<bool>()), 0..12),
    ) {
        let mut offset: u64 = 0;
        let mut facts = vec![Fact::Started(None)];
        for length in &lengths {
            facts.push(output(offset, *length));
            offset = offset.saturating_add(*length);
        }
        facts.push(Fact::Exited);
        let events: Vec<(u64, Fact)> = (1..).zip(facts).collect();
        let mut progress = exec();
        let mut delivered = Vec::new();
        for (until, anew) in breaks.iter().copied().chain([(usize::MAX, false)]) {
            let from = match progress.resume() {
                Resume::After(seq) if !anew => usize::try_from(seq).unwrap(),
                Resume::After(_) | Resume::Start => 0,
            };
            for (seq, fact) in events.iter().skip(from).take(until) {
                if progress.is_done() {
                    break;
                }
                if progress.on_message(*seq, *fact, NOW).unwrap() == Verdict::Deliver {
                    delivered.push(*seq);
                }
            }
            if !progress.is_done() {
                let next = progress.on_fault(&reset(), NOW, 0);
                prop_assert!(matches!(next, Next::Again(_)));
            }
        }
        prop_assert!(progress.is_done());
        let all: Vec<u64> = events.iter().map(|(seq, _)| *seq).collect();
        prop_assert_eq!(delivered, all);
    }
}
