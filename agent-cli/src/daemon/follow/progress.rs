//! How far following one execution has come, and what to do next: a pure state machine over what arrives,
//! what breaks and the time. It never lets a command be started twice and never invents an end.

use std::time::Duration;

use super::terms::{
    Fact, GiveUp, Lanes, LastMessage, MARGIN, Next, Resume, Terms, Verdict, backoff,
};
use crate::daemon::fault::{Fault, Refusal};

/// Whether anything is where the daemon was.
#[derive(Debug, Clone, Copy)]
enum Heard {
    Something,
    Nobody,
}

/// How far the request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The daemon cannot have it.
    Unsent,
    /// It may have reached the daemon.
    Sent,
    /// The daemon has accepted it.
    Accepted,
    /// The last message has come.
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: Duration,
    attempts: u32,
    nobody_since: Option<Duration>,
}

/// How far following one execution has come. Times are since its beginning.
#[derive(Debug, Clone)]
pub struct Progress {
    terms: Terms,
    seen: u64,
    offsets: Lanes,
    phase: Phase,
    trouble: Option<Trouble>,
    overdue_at: Option<Duration>,
}

impl Progress {
    /// Nothing has been sent.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            seen: 0,
            offsets: [0; 3],
            phase: Phase::Unsent,
            trouble: None,
            overdue_at: None,
        }
    }

    /// Follows an execution that was started before.
    #[must_use]
    pub fn attached(terms: Terms) -> Self {
        Self {
            phase: Phase::Accepted,
            ..Self::new(terms)
        }
    }

    /// Whether the last message has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether the request may have reached the daemon.
    #[must_use]
    pub fn may_be_sent(&self) -> bool {
        self.phase >= Phase::Sent
    }

    /// What to ask for now.
    #[must_use]
    pub fn resume(&self) -> Resume {
        if self.phase >= Phase::Accepted {
            Resume::After(self.seen)
        } else {
            Resume::Start
        }
    }

    /// How long to wait for the next message.
    #[must_use]
    pub fn silence(&self) -> Duration {
        let silence = self.terms.patience.silence;
        if self.phase >= Phase::Accepted {
            silence
        } else {
            silence.saturating_add(self.terms.queue)
        }
    }

    /// Whether the command should have ended long ago.
    #[must_use]
    pub fn is_overdue(&self, now: Duration) -> bool {
        self.overdue_at.is_some_and(|at| now >= at)
    }

    /// The daemon answers with a stream: it has the request.
    pub fn on_accepted(&mut self) {
        self.phase = self.phase.max(Phase::Accepted);
    }

    /// A message has come.
    ///
    /// # Errors
    /// It breaks the protocol; names what is missing.
    pub fn on_message(
        &mut self,
        seq: u64,
        fact: Fact,
        now: Duration,
    ) -> Result<Verdict, &'static str> {
        self.on_accepted();
        match fact {
            Fact::Heartbeat => {
                self.trouble = None;
                return Ok(Verdict::Skip);
            }
            Fact::Gap { from, to, bytes } => return self.gap((from, to), bytes),
            Fact::Result => {
                self.phase = Phase::Done;
                return Ok(Verdict::Deliver);
            }
            Fact::Started(_) | Fact::Output { .. } | Fact::Exited => {}
        }
        if seq != 0 && seq <= self.seen {
            return Ok(Verdict::Skip);
        }
        if seq != self.seen.saturating_add(1) {
            return Err("every event in its order");
        }
        self.seen = seq;
        // Only what is new shows that asking again helps.
        self.trouble = None;
        match fact {
            Fact::Started(limit) => {
                self.overdue_at =
                    limit.map(|limit| now.saturating_add(limit).saturating_add(MARGIN));
            }
            Fact::Output {
                lane,
                offset,
                length,
            } => match self.offsets.get_mut(lane) {
                Some(at) if *at == offset => *at = at.saturating_add(length),
                Some(_) | None => return Err("every byte in its order"),
            },
            Fact::Exited if self.terms.last == LastMessage::Exited => self.phase = Phase::Done,
            Fact::Exited | Fact::Gap { .. } | Fact::Heartbeat | Fact::Result => {}
        }
        Ok(Verdict::Deliver)
    }

    /// Events are lost. A stream that is read from its start again counts what had arrived as lost too.
    fn gap(&mut self, (from, to): (u64, u64), bytes: Lanes) -> Result<Verdict, &'static str> {
        if to <= self.seen {
            return Ok(Verdict::Skip);
        }
        if from > self.seen.saturating_add(1) {
            return Err("every event in its order");
        }
        let again = from <= self.seen;
        let mut lost = [0; 3];
        for ((lost, at), bytes) in lost.iter_mut().zip(&mut self.offsets).zip(bytes) {
            *lost = if again {
                bytes.saturating_sub(*at)
            } else {
                bytes
            };
            *at = at.saturating_add(*lost);
        }
        self.seen = to;
        self.trouble = None;
        Ok(Verdict::Lost(lost))
    }

    /// Something went wrong. `chance` spreads the pauses.
    pub fn on_fault(&mut self, fault: &Fault, now: Duration, chance: u8) -> Next {
        if self.is_overdue(now) {
            return Next::GiveUp(GiveUp::Overdue);
        }
        match fault {
            Fault::HungUp => Next::GiveUp(self.unreachable()),
            Fault::Overdue => Next::GiveUp(GiveUp::Overdue),
            Fault::OtherBoot => Next::GiveUp(GiveUp::Restarted),
            Fault::Refused(refusal) => self.on_refusal(*refusal, now, chance),
            Fault::NobodyListens => self.again(now, chance, Heard::Nobody),
            Fault::Ended if !self.terms.can_redial => Next::GiveUp(GiveUp::NoEnd),
            Fault::NeverSent if self.terms.can_redial => self.again(now, chance, Heard::Something),
            Fault::NeverSent | Fault::Transport(_) | Fault::Silent | Fault::Ended => {
                // ORDER: from here on, only the same process may be asked to start it again.
                self.phase = self.phase.max(Phase::Sent);
                if self.terms.can_redial {
                    self.again(now, chance, Heard::Something)
                } else {
                    Next::GiveUp(GiveUp::Broken)
                }
            }
        }
    }

    fn on_refusal(&mut self, refusal: Refusal, now: Duration, chance: u8) -> Next {
        if self.phase < Phase::Accepted {
            return Next::GiveUp(match refusal {
                // It may have been started and forgotten since.
                Refusal::Unknown if self.phase >= Phase::Sent => GiveUp::Forgotten,
                // It may have been started before the launcher died.
                Refusal::Dying if self.phase >= Phase::Sent => GiveUp::Restarted,
                Refusal::Unknown
                | Refusal::SlowReader
                | Refusal::Busy
                | Refusal::Unexplained
                | Refusal::Dying
                | Refusal::Other => GiveUp::Refused,
            });
        }
        match refusal {
            Refusal::SlowReader | Refusal::Busy | Refusal::Unexplained => {
                self.again(now, chance, Heard::Something)
            }
            Refusal::Unknown => Next::GiveUp(GiveUp::Forgotten),
            Refusal::Dying => Next::GiveUp(GiveUp::Restarted),
            Refusal::Other => Next::GiveUp(GiveUp::NoEnd),
        }
    }

    fn again(&mut self, now: Duration, chance: u8, heard: Heard) -> Next {
        let patience = self.terms.patience;
        let trouble = self.trouble.get_or_insert(Trouble {
            since: now,
            attempts: 0,
            nobody_since: None,
        });
        trouble.nobody_since = match heard {
            Heard::Nobody => trouble.nobody_since.or(Some(now)),
            Heard::Something => None,
        };
        let tired = now.saturating_sub(trouble.since) >= patience.broken
            || trouble
                .nobody_since
                .is_some_and(|since| now.saturating_sub(since) >= patience.nobody);
        let pause = backoff(trouble.attempts, chance);
        trouble.attempts = trouble.attempts.saturating_add(1);
        if tired {
            Next::GiveUp(self.unreachable())
        } else {
            Next::Again(pause)
        }
    }

    fn unreachable(&self) -> GiveUp {
        if self.phase >= Phase::Sent {
            GiveUp::Unreachable
        } else {
            GiveUp::NotStarted
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
