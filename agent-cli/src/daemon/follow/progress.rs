//! How far following one execution has come, and what to do next: a pure state machine over what arrives,
//! what breaks and the time. It never lets a command be started twice and never invents an end.

use std::time::Duration;

use crate::daemon::fault::{Fault, Refusal};

/// The daemon sends a heartbeat after 15 s without an event; three missing ones are a broken stream.
pub const SILENCE: Duration = Duration::from_secs(45);
/// How long a broken connection is tried again: as long as the daemon keeps a command without a reader.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long, when nothing listens any more: then the daemon and what it ran have ended, unless something
/// between us and it has.
pub const PATIENCE_WITH_NOBODY: Duration = Duration::from_secs(4);
/// How much longer than its time limit and its grace a command may seem to run.
pub const MARGIN: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// The pause before attempt `attempt`, from 0: doubling, between one half of it and all of it as `chance`
/// (0 to 255) says, so that many clients do not come back at once.
#[must_use]
pub fn backoff(attempt: u32, chance: u8) -> Duration {
    let factor = 1_u32.checked_shl(attempt.min(16)).unwrap_or(u32::MAX);
    let whole = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
    let half = whole.div_f32(2.0);
    half.saturating_add(half.mul_f32(f32::from(chance) / 255.0))
}

/// Which message is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastMessage {
    /// The end of the command.
    Exited,
    /// The result of the tool, which follows that.
    Result,
}

/// How long this client waits for what does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without any message, before a stream counts as broken.
    pub silence: Duration,
    /// Without a working connection, before an end counts as unknown.
    pub broken: Duration,
    /// The same, when nothing even listens where the daemon was.
    pub nobody: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            silence: SILENCE,
            broken: PATIENCE,
            nobody: PATIENCE_WITH_NOBODY,
        }
    }
}

/// Under which terms an execution is followed.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long to wait.
    pub patience: Patience,
    /// The last message.
    pub last: LastMessage,
    /// A lost connection can be made again.
    pub can_redial: bool,
    /// How long the command may wait for its turn before the daemon says anything.
    pub queue: Duration,
}

/// Numbers of the three streams: standard output, standard error, terminal.
pub type Lanes = [u64; 3];

/// What a message says, as far as following it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The command runs, for at most this long.
    Started(Option<Duration>),
    /// Bytes of a stream.
    Output {
        /// Index into [`Lanes`].
        lane: usize,
        /// Offset of the first.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Events that this reader cannot have.
    Gap {
        /// First lost sequence number.
        from: u64,
        /// Last.
        to: u64,
        /// Lost bytes.
        bytes: Lanes,
    },
    /// A sign of life.
    Heartbeat,
    /// The command has ended.
    Exited,
    /// The tool's result.
    Result,
}

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Pass it on.
    Deliver,
    /// Pass on that these bytes are lost.
    Lost(Lanes),
    /// It was seen before, or says nothing.
    Skip,
}

/// What to ask for on the next stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// The start: the daemon has not been heard to have accepted it.
    Start,
    /// What follows this event.
    After(u64),
}

/// What to do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask again after a pause.
    Again(Duration),
    /// Nothing more can be learned.
    GiveUp(GiveUp),
}

/// Why nothing more can be learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// The daemon refused; nothing was started.
    Refused,
    /// The daemon could not be asked; nothing was started.
    NotStarted,
    /// The one connection broke; what ran has ended with the daemon.
    Broken,
    /// The stream ended without an end.
    NoEnd,
    /// The daemon was restarted, and everything it ran has ended.
    Restarted,
    /// The daemon cannot be reached any more.
    Unreachable,
    /// The daemon does not know the execution any more.
    Forgotten,
    /// The command should have ended long ago.
    Overdue,
}

/// Whether anything is where the daemon was.
#[derive(Debug, Clone, Copy)]
enum Heard {
    Something,
    Nobody,
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
    /// The request may have reached the daemon.
    sent: bool,
    /// The daemon has accepted it.
    accepted: bool,
    trouble: Option<Trouble>,
    overdue_at: Option<Duration>,
    done: bool,
}

impl Progress {
    /// Nothing has been sent.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            seen: 0,
            offsets: [0; 3],
            sent: false,
            accepted: false,
            trouble: None,
            overdue_at: None,
            done: false,
        }
    }

    /// Follows an execution that was started before.
    #[must_use]
    pub fn attached(terms: Terms) -> Self {
        Self {
            sent: true,
            accepted: true,
            ..Self::new(terms)
        }
    }

    /// Whether the last message has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the request may have reached the daemon.
    #[must_use]
    pub fn may_be_sent(&self) -> bool {
        self.sent
    }

    /// What to ask for now.
    #[must_use]
    pub fn resume(&self) -> Resume {
        if self.accepted {
            Resume::After(self.seen)
        } else {
            Resume::Start
        }
    }

    /// How long to wait for the next message.
    #[must_use]
    pub fn silence(&self) -> Duration {
        let silence = self.terms.patience.silence;
        if self.accepted {
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
        self.sent = true;
        self.accepted = true;
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
        self.trouble = None;
        match fact {
            Fact::Heartbeat => return Ok(Verdict::Skip),
            Fact::Gap { from, to, bytes } => return self.gap((from, to), bytes),
            Fact::Result => {
                self.done = true;
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
        match fact {
            Fact::Started(limit) => {
                self.overdue_at = limit.map(|limit| now.saturating_add(limit).saturating_add(MARGIN));
            }
            Fact::Output {
                lane,
                offset,
                length,
            } => match self.offsets.get_mut(lane) {
                Some(at) if *at == offset => *at = at.saturating_add(length),
                Some(_) | None => return Err("every byte in its order"),
            },
            Fact::Exited => self.done = self.terms.last == LastMessage::Exited,
            Fact::Gap { .. } | Fact::Heartbeat | Fact::Result => {}
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
                self.sent = true;
                if self.terms.can_redial {
                    self.again(now, chance, Heard::Something)
                } else {
                    Next::GiveUp(GiveUp::Broken)
                }
            }
        }
    }

    fn on_refusal(&mut self, refusal: Refusal, now: Duration, chance: u8) -> Next {
        if !self.accepted {
            return Next::GiveUp(match refusal {
                // It may have been started and forgotten since.
                Refusal::Unknown if self.sent => GiveUp::Forgotten,
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
        if self.sent {
            GiveUp::Unreachable
        } else {
            GiveUp::NotStarted
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
