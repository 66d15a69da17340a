//! The life of a running command as a state machine. Pure: time comes in as an argument, what to do
//! comes out as an [`Effect`]. It never waits for end of file alone (a process left behind would hold
//! it open) and never loses readable bytes to a timer alone (every byte starts the quiet window anew).
//!
//! ```text
//! Running ──leader exited──▶ Draining ──quiet, or both ends of file──▶ Killing ──ended──▶ Flushing ──▶ Done
//!    └──────────────────────────── ended (timeout, stop) ──────────────────────────────────▲
//! ```

use std::time::{Duration, Instant};

use agentd_sandbox::monitor::{ExecKey, Request, StopReason};

use super::{Disconnect, spec::DEFAULT_GRACE};

/// After the leader's exit, silence for this long means that its output is all here.
const QUIET_WINDOW: Duration = Duration::from_millis(100);

/// Longest time after the leader's exit that others may go on printing.
const DRAIN_CAP: Duration = Duration::from_secs(2);

/// More bytes than the pipes of a command hold when its last process is gone. Up to here, reading them
/// is never cut short by the clock: the daemon itself may have been stopped for a while.
const HELD_BYTES: u64 = 4 * 1024 * 1024;

/// What is fixed when the command starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// Longest silence.
    pub idle_timeout: Option<Duration>,
    /// Most bytes of output.
    pub output_limit: Option<u64>,
    /// What becomes of it without readers.
    pub disconnect: Disconnect,
    /// How many output streams are open at first: 2, or 1 with a terminal.
    pub streams: u8,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// That many bytes were read.
    Output(u64),
    /// One stream reached its end.
    EndOfFile,
    /// The leader ended.
    LeaderExited,
    /// No process is left.
    Ended,
    /// Somebody wants it ended.
    Stop(Stop),
    /// That many readers are there now.
    Readers(usize),
    /// Time passed, and nothing is readable.
    Tick,
}

/// A wish to end the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    /// Why.
    pub reason: StopReason,
    /// Milliseconds between TERM and KILL; `None` for the execution's own.
    pub grace_ms: Option<u64>,
}

impl Stop {
    /// The launcher's order.
    pub(super) fn request(self, exec: ExecKey) -> Request {
        Request::Stop {
            exec,
            reason: self.reason,
            grace_ms: self.grace_ms,
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// Ask the launcher to kill what is left.
    Finish,
    /// Ask the launcher to end the tree.
    Stop(Stop),
    /// Everything is over.
    Complete {
        /// All output was read.
        output_complete: bool,
        /// Some process still held an output stream open when the leader had ended and the drain was
        /// over.
        pipes_held: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Draining { until: Instant },
    Killing,
    Flushing { until: Instant, bytes: u64 },
    Done,
}

/// The launcher was asked to end it.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    /// When it kills; `None`: after the execution's own grace, which the launcher knows.
    kill_at: Option<Instant>,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Lifecycle {
    phase: Phase,
    settings: Settings,
    stopping: Option<Stopping>,
    open_streams: u8,
    written: u64,
    last_output: Instant,
    alone_since: Option<Instant>,
    /// A reader has been there. Before, a short grace would end a command whose client is only about
    /// to attach.
    was_read: bool,
    pipes_held: bool,
}

impl Lifecycle {
    /// A command that has just started, with that many readers; `None`: nobody has ever been one.
    pub(super) fn new(settings: Settings, readers: Option<usize>, now: Instant) -> Self {
        Self {
            phase: Phase::Running,
            settings,
            stopping: None,
            open_streams: settings.streams,
            written: 0,
            last_output: now,
            alone_since: readers.is_none_or(|count| count == 0).then_some(now),
            was_read: readers.is_some(),
            pipes_held: false,
        }
    }

    /// Takes one input and says what to do.
    pub(super) fn step(&mut self, now: Instant, input: Input) -> Effect {
        match input {
            Input::Output(bytes) => self.on_output(now, bytes),
            Input::EndOfFile => self.on_end_of_file(),
            Input::LeaderExited => self.on_leader_exited(now),
            Input::Ended => self.on_ended(now),
            Input::Stop(stop) => self.on_stop(now, stop),
            Input::Readers(count) => {
                self.alone_since = match (count, self.alone_since) {
                    (0, None) => Some(now),
                    (0, since) => since,
                    (_, _) => None,
                };
                self.was_read |= count > 0;
                Effect::None
            }
            Input::Tick => self.on_tick(now),
        }
    }

    /// When to come back with [`Input::Tick`]; `None`: only when something happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running if self.stopping.is_some() => None,
            Phase::Running => [self.idle_deadline(), self.alone_deadline()]
                .into_iter()
                .flatten()
                .min(),
            Phase::Draining { until } | Phase::Flushing { until, .. } => {
                Some(until.min(after(self.last_output, QUIET_WINDOW)))
            }
            Phase::Killing | Phase::Done => None,
        }
    }

    fn idle_deadline(&self) -> Option<Instant> {
        self.settings
            .idle_timeout
            .map(|idle| after(self.last_output, idle))
    }

    fn alone_deadline(&self) -> Option<Instant> {
        match self.settings.disconnect {
            Disconnect::Grace(grace) if self.was_read => {
                self.alone_since.map(|since| after(since, grace))
            }
            Disconnect::Grace(grace) => self
                .alone_since
                .map(|since| after(since, grace.max(DEFAULT_GRACE))),
            Disconnect::Keep => None,
        }
    }

    fn on_output(&mut self, now: Instant, bytes: u64) -> Effect {
        self.written = self.written.saturating_add(bytes);
        self.last_output = now;
        let over = self
            .settings
            .output_limit
            .is_some_and(|limit| self.written > limit);
        if over && matches!(self.phase, Phase::Running | Phase::Draining { .. }) {
            let stop = Stop {
                reason: StopReason::OutputLimit,
                grace_ms: Some(0),
            };
            return self.stop(now, stop);
        }
        if let Phase::Flushing {
            until,
            bytes: flushed,
        } = &mut self.phase
        {
            *flushed = flushed.saturating_add(bytes);
            // Only a process that outlived the end of everything prints more than the pipes held.
            let endless = *flushed > HELD_BYTES && now >= *until;
            return if endless {
                self.complete()
            } else {
                Effect::None
            };
        }
        // A process left behind that never stops printing must not hold the drain open.
        self.on_tick(now)
    }

    fn on_end_of_file(&mut self) -> Effect {
        self.open_streams = self.open_streams.saturating_sub(1);
        if self.open_streams > 0 {
            return Effect::None;
        }
        match self.phase {
            Phase::Draining { .. } => self.finish(),
            Phase::Flushing { .. } => self.complete(),
            Phase::Running | Phase::Killing | Phase::Done => Effect::None,
        }
    }

    fn on_leader_exited(&mut self, now: Instant) -> Effect {
        if self.phase != Phase::Running {
            return Effect::None;
        }
        if self.open_streams == 0 {
            return self.finish();
        }
        self.last_output = now;
        self.phase = Phase::Draining {
            until: after(now, DRAIN_CAP),
        };
        Effect::None
    }

    fn on_ended(&mut self, now: Instant) -> Effect {
        if matches!(self.phase, Phase::Flushing { .. } | Phase::Done) {
            return Effect::None;
        }
        if self.open_streams == 0 {
            return self.complete();
        }
        self.last_output = now;
        self.phase = Phase::Flushing {
            until: after(now, DRAIN_CAP),
            bytes: 0,
        };
        Effect::None
    }

    fn on_stop(&mut self, now: Instant, stop: Stop) -> Effect {
        match self.phase {
            Phase::Running => self.stop(now, stop),
            // The leader is gone: what is left dies at once, and the result stays the leader's.
            Phase::Draining { .. } => self.finish(),
            Phase::Killing | Phase::Flushing { .. } | Phase::Done => Effect::None,
        }
    }

    fn on_tick(&mut self, now: Instant) -> Effect {
        let quiet = now >= after(self.last_output, QUIET_WINDOW);
        match self.phase {
            Phase::Draining { until } if quiet || now >= until => {
                self.pipes_held = self.open_streams > 0;
                self.finish()
            }
            Phase::Flushing { until, .. } if quiet || now >= until => self.complete(),
            Phase::Running if self.stopping.is_none() => {
                let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| now >= at);
                if passed(self.idle_deadline()) {
                    let stop = Stop {
                        reason: StopReason::IdleTimeout,
                        grace_ms: None,
                    };
                    self.stop(now, stop)
                } else if passed(self.alone_deadline()) {
                    let stop = Stop {
                        reason: StopReason::Disconnected,
                        grace_ms: None,
                    };
                    self.stop(now, stop)
                } else {
                    Effect::None
                }
            }
            Phase::Running
            | Phase::Draining { .. }
            | Phase::Killing
            | Phase::Flushing { .. }
            | Phase::Done => Effect::None,
        }
    }

    /// Ends it, or brings its end nearer. The launcher keeps the first reason and the earliest end; what
    /// cannot change either is not said again.
    fn stop(&mut self, now: Instant, stop: Stop) -> Effect {
        let grace = stop.grace_ms.map(Duration::from_millis);
        let kill_at = grace.map(|grace| after(now, grace));
        let is_news = match (self.stopping, kill_at) {
            (None, _) | (Some(Stopping { kill_at: None }), Some(_)) => true,
            (Some(Stopping { kill_at: Some(now) }), Some(asked)) => asked < now,
            // The execution's own grace, counted from later.
            (Some(_), None) => false,
        };
        if !is_news {
            return Effect::None;
        }
        self.stopping = Some(Stopping { kill_at });
        Effect::Stop(stop)
    }

    fn finish(&mut self) -> Effect {
        self.phase = Phase::Killing;
        Effect::Finish
    }

    fn complete(&mut self) -> Effect {
        self.phase = Phase::Done;
        Effect::Complete {
            output_complete: self.open_streams == 0,
            pipes_held: self.pipes_held,
        }
    }
}

/// `at + by`; an instant that the clock cannot express is never reached, so far away is the same.
fn after(at: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365);
    at.checked_add(by)
        .or_else(|| at.checked_add(FAR))
        .unwrap_or(at)
}

#[cfg(test)]
mod tests;
