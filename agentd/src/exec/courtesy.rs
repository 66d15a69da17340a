//! How long a command that prints faster than its readers read is held up for them. Who reads as fast as it
//! can is waited for like the reader of a pipe; all others together have a budget of time, so that no
//! reader holds up the command or another reader for long, however it reads. Pure.
//!
//! What a reader takes pays for the time in which it is waited for, at a fixed rate; what is not paid for
//! comes out of the budget.

use std::time::{Duration, Instant};

use super::log::{Lag, Look};

/// Longest wait for readers that take next to nothing. Longer than a busy machine keeps a process off its
/// processors.
const PATIENCE: Duration = Duration::from_millis(100);

/// Bytes that pay for one second. Who takes that much reads as fast as it can, on whatever machine.
const FAST: u64 = 10 * 1024 * 1024;

/// Time for which everybody else may hold up a command at first, in all.
const BUDGET: Duration = Duration::from_secs(2);

/// What of it is left when others wait who have read everything: those come first.
const RESERVE: Duration = Duration::from_secs(1);

/// The budget grows back by one part in this many of the time.
const REFILL: u32 = 10;

/// Shorter waits are none: timers are no finer than a tenth of it.
const SHORTEST: Duration = Duration::from_millis(10);

/// Whether readers are being waited for, and what it may still cost.
#[derive(Debug)]
pub(super) struct Courtesy {
    budget: Duration,
    /// Time that is paid for: readers take much at once, and then nothing for a moment.
    paid: Duration,
    /// When that was last reckoned up.
    at: Instant,
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    /// Since then, those who are waited for have taken next to nothing.
    since: Instant,
    lag: Lag,
}

/// What became of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on, or there is nothing to wait for.
    Fine,
    /// It was in vain.
    InVain,
}

impl Courtesy {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            budget: BUDGET,
            paid: Duration::ZERO,
            at: now,
            held: None,
        }
    }

    /// Until when the command is held up, if nobody takes anything meanwhile.
    pub(super) fn until(&self) -> Option<Instant> {
        let held = self.held?;
        let patience = held.since.checked_add(PATIENCE)?;
        let left = self.left(held.lag);
        Some(patience.min(self.at.checked_add(left)?))
    }

    /// The readers were looked at.
    pub(super) fn look(&mut self, now: Instant, look: Look) -> Outcome {
        self.reckon(now, look.taken);
        if look.lag == Lag::Nobody {
            self.held = None;
            return Outcome::Fine;
        }
        let since = match self.held {
            Some(held) if !look.progressed => held.since,
            Some(_) | None => now,
        };
        let in_vain = now.saturating_duration_since(since) >= PATIENCE;
        let may_wait = !in_vain && self.left(look.lag) >= SHORTEST;
        self.held = may_wait.then_some(Held {
            since,
            lag: look.lag,
        });
        if in_vain {
            Outcome::InVain
        } else {
            Outcome::Fine
        }
    }

    fn left(&self, lag: Lag) -> Duration {
        match lag {
            Lag::Nobody | Lag::Somebody => self.budget.saturating_add(self.paid),
            Lag::WhileOthersWait => self.budget.saturating_sub(RESERVE),
        }
    }

    /// Charges the time since the last look, in which one reader took `taken` and no other more.
    fn reckon(&mut self, now: Instant, taken: u64) {
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        let micros = taken.saturating_mul(1_000_000).checked_div(FAST);
        let more = Duration::from_micros(micros.unwrap_or(0));
        self.paid = self.paid.saturating_add(more).min(PATIENCE);
        let charged = match self.held {
            None => Duration::ZERO,
            Some(held) if held.lag == Lag::WhileOthersWait => passed,
            Some(_) => {
                let charged = passed.saturating_sub(self.paid);
                self.paid = self.paid.saturating_sub(passed);
                charged
            }
        };
        if charged.is_zero() {
            let more = passed.checked_div(REFILL).unwrap_or_default();
            self.budget = self.budget.saturating_add(more).min(BUDGET);
        } else {
            self.budget = self.budget.saturating_sub(charged);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::arithmetic_side_effects,
        clippy::unchecked_time_subtraction,
        clippy::cast_precision_loss,
        reason = "an overflow fails the test, and the numbers are small"
    )]

    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    /// Time held up in so many seconds, in which a look every millisecond sees that.
    fn held(courtesy: &mut Courtesy, seconds: u64, look: Look) -> Duration {
        let begun = courtesy.at;
        let mut held = Duration::ZERO;
        while courtesy.at < begun + Duration::from_secs(seconds) {
            let now = courtesy.at + STEP;
            if courtesy.until().is_some_and(|until| until >= now) {
                held += STEP;
            }
            courtesy.look(now, look);
        }
        held
    }

    fn look(lag: Lag, taken: u64) -> Look {
        Look {
            lag,
            taken,
            progressed: taken > 0,
        }
    }

    #[test]
    fn who_reads_as_fast_as_it_can_is_waited_for_without_end() {
        let minute = Duration::from_secs(60);
        for bytes in [FAST / 1000 + 1000, 1 << 20] {
            let mut courtesy = Courtesy::new(Instant::now());
            let held = held(&mut courtesy, 60, look(Lag::Somebody, bytes));
            assert!(held + 2 * STEP >= minute, "{held:?}");
        }
        // Much at once, and then nothing for a moment.
        let mut courtesy = Courtesy::new(Instant::now());
        for _ in 0..1000 {
            courtesy.look(courtesy.at + 90 * STEP, look(Lag::Somebody, 1 << 20));
            assert!(courtesy.until().is_some());
        }
        assert_eq!(courtesy.budget, BUDGET);
    }

    #[test]
    fn who_trickles_holds_up_the_command_for_its_share_and_a_tenth() {
        for taken in [1, 100, 1000, 3000] {
            let mut courtesy = Courtesy::new(Instant::now());
            let all = held(&mut courtesy, 60, look(Lag::Somebody, taken)).as_secs_f64();
            let share = taken as f64 * 1000.0 / FAST as f64 + 0.1;
            let most = BUDGET.as_secs_f64() + 60.0 * share * 1.2;
            assert!(all < most, "{taken}: {all} of {most}");
            assert!(all > 1.9, "{taken}: {all}");
        }
    }

    #[test]
    fn who_lags_while_others_wait_costs_them_less_and_never_the_reserve() {
        let mut courtesy = Courtesy::new(Instant::now());
        // However fast it reads.
        let all = held(&mut courtesy, 60, look(Lag::WhileOthersWait, 1 << 20));
        assert!(
            all < BUDGET - RESERVE + Duration::from_secs(60) / 8,
            "{all:?}"
        );
        assert!(courtesy.budget >= RESERVE - STEP);
        let alone = held(&mut courtesy, 60, look(Lag::Somebody, 1 << 20));
        assert!(alone + 20 * STEP >= Duration::from_secs(60), "{alone:?}");
    }

    #[test]
    fn who_takes_nothing_is_given_up_on_after_a_moment() {
        let begun = Instant::now();
        let mut courtesy = Courtesy::new(begun);
        let dead = look(Lag::Somebody, 0);
        assert_eq!(courtesy.look(begun, dead), Outcome::Fine);
        assert_eq!(courtesy.until(), Some(begun + PATIENCE));
        assert_eq!(courtesy.look(begun + PATIENCE - STEP, dead), Outcome::Fine);
        assert_eq!(courtesy.look(begun + PATIENCE, dead), Outcome::InVain);
        assert_eq!(courtesy.until(), None);
        courtesy.look(begun + PATIENCE, look(Lag::Nobody, 0));
        assert_eq!(courtesy.until(), None, "nobody lags");
    }
}
