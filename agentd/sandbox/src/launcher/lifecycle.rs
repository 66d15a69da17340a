//! The life of one execution as a pure state machine: inputs in, actions out. It has no clock, no
//! descriptors and no synchronisation of its own.
//!
//! ```text
//! SettingUp ──executed──▶ Running ──leader exits──▶ Lingering ──finish / too long──▶ Killing ──▶ Ended
//!     │                      └──timeout, stop──▶ Terminating ──grace over, finish──────▲
//!     └──failure, init gone, or stuck in the kernel──▶ Ended
//! ```

mod words;

pub(crate) use words::{Action, End, Input};

use crate::{
    launch::LimitEnds,
    monitor::{Cause, LeaderStatus, StopReason, Usage},
};

/// Milliseconds of a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Millis(pub(crate) u64);

impl Millis {
    /// What an addition that is too large for the clock gives; nothing is due then.
    pub(super) const NEVER: Self = Self(u64::MAX);

    pub(crate) fn after(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }
}

/// A set-up that takes longer hangs, on a dead network file system for example.
const SETUP_LIMIT_MS: u64 = 45_000;
/// The front end drains for at most 2 s; if it has not answered by then it is stuck.
const LINGER_LIMIT_MS: u64 = 10_000;
/// Init answers a KILL in milliseconds; later its own death has to do it.
const HARD_KILL_MS: u64 = 500;
/// Without a pid namespace, sweeping goes on for this long before the tree is given up; so does, everywhere,
/// the wait for the end of a set-up that was killed: it may be stuck in the kernel for good.
const GIVE_UP_MS: u64 = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SettingUp {
        until: Millis,
    },
    Running {
        until: Millis,
    },
    Terminating {
        kill_at: Millis,
    },
    Lingering {
        until: Millis,
    },
    Killing {
        harder_at: Millis,
        give_up_at: Millis,
    },
    Ended,
}

/// One execution.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, all of them one way"
)]
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    timeout_ms: u64,
    grace_ms: u64,
    /// Death of init ends the tree.
    namespaced: bool,
    cause: Cause,
    status: LeaderStatus,
    leftover: u32,
    usage: Usage,
    ends: LimitEnds,
    failed: bool,
    too_long: bool,
    /// A stop that came before the program was executed. It ends the set-up; a program that is executed all the
    /// same is ended as any other.
    early_stop: Option<(StopReason, Option<u64>)>,
    /// The leader's end, when it was noticed before the start.
    early_leader: Option<LeaderStatus>,
}

impl Lifecycle {
    /// An execution whose init was just forked.
    pub(crate) fn new(now: Millis, times: (u64, u64), tier: crate::policy::Tier) -> Self {
        let (timeout_ms, grace_ms) = times;
        Self {
            phase: Phase::SettingUp {
                until: now.after(SETUP_LIMIT_MS),
            },
            timeout_ms,
            grace_ms,
            namespaced: tier > crate::policy::Tier::Nested,
            cause: Cause::Leader,
            status: LeaderStatus::Unknown,
            leftover: 0,
            usage: Usage::default(),
            ends: LimitEnds::default(),
            failed: false,
            too_long: false,
            early_stop: None,
            early_leader: None,
        }
    }

    /// When `Tick` is due.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        match self.phase {
            Phase::Running {
                until: Millis::NEVER,
            }
            | Phase::Ended => None,
            Phase::SettingUp { until } | Phase::Running { until } | Phase::Lingering { until } => {
                Some(until)
            }
            Phase::Terminating { kill_at } => Some(kill_at),
            Phase::Killing {
                harder_at,
                give_up_at,
            } => Some(harder_at.min(give_up_at)),
        }
    }

    /// The end was announced; nothing more happens.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// The program was not executed yet.
    pub(crate) fn is_setting_up(&self) -> bool {
        matches!(self.phase, Phase::SettingUp { .. })
    }

    /// Takes one step.
    pub(crate) fn step(&mut self, now: Millis, input: Input) -> Vec<Action> {
        if self.phase == Phase::Ended {
            return Vec::new();
        }
        match input {
            Input::Executed => self.executed(now),
            Input::SetupFailed => {
                self.failed = true;
                Vec::new()
            }
            Input::LeaderExited(status) => self.leader_exited(now, status),
            Input::Empty {
                leftover,
                usage,
                ends,
            } => {
                (self.leftover, self.usage, self.ends) = (leftover, usage, ends);
                Vec::new()
            }
            Input::InitGone => vec![self.end()],
            Input::Finish => match self.phase {
                Phase::Lingering { .. } | Phase::Terminating { .. } => self.kill(now),
                Phase::SettingUp { .. }
                | Phase::Running { .. }
                | Phase::Killing { .. }
                | Phase::Ended => Vec::new(),
            },
            Input::Stop { reason, grace_ms } => self.stop(now, (reason, grace_ms)),
            Input::Limit(limit) => match self.phase {
                Phase::Running { .. } => self.terminate(now, Cause::Limit(limit), None),
                // What ends anyway needs no second reason.
                Phase::SettingUp { .. }
                | Phase::Terminating { .. }
                | Phase::Lingering { .. }
                | Phase::Killing { .. }
                | Phase::Ended => Vec::new(),
            },
            Input::Tick => self.tick(now),
        }
    }

    /// Ends a set-up. Without a pid namespace the death of init would leave the leader behind: init is asked,
    /// and starts no leader when it has not yet.
    fn abandon(&self) -> Vec<Action> {
        vec![if self.namespaced {
            Action::KillInit
        } else {
            Action::Kill
        }]
    }

    fn executed(&mut self, now: Millis) -> Vec<Action> {
        if !matches!(self.phase, Phase::SettingUp { .. }) || self.failed || self.too_long {
            return Vec::new();
        }
        self.phase = Phase::Running {
            until: now.after(self.timeout_ms),
        };
        let mut actions = vec![Action::AnnounceStart];
        if let Some(status) = self.early_leader.take() {
            actions.extend(self.leader_exited(now, status));
        }
        if let Some(stop) = self.early_stop.take() {
            actions.extend(self.stop(now, stop));
        }
        actions
    }

    fn leader_exited(&mut self, now: Millis, status: LeaderStatus) -> Vec<Action> {
        if self.is_setting_up() {
            // A short command can be over before its start was noticed; and the leader of a set-up that
            // failed ends too, which is nobody's business.
            self.early_leader.get_or_insert(status);
            return Vec::new();
        }
        if self.status != LeaderStatus::Unknown {
            return Vec::new();
        }
        self.status = status;
        if matches!(self.phase, Phase::Running { .. }) {
            self.phase = Phase::Lingering {
                until: now.after(LINGER_LIMIT_MS),
            };
        }
        vec![Action::AnnounceLeader(status)]
    }

    fn stop(&mut self, now: Millis, stop: (StopReason, Option<u64>)) -> Vec<Action> {
        match self.phase {
            Phase::SettingUp { .. } => {
                // What came first is the cause; the shorter grace counts if it is executed all the same.
                let first = self.early_stop.unwrap_or_else(|| {
                    self.phase = Phase::SettingUp {
                        until: now.after(GIVE_UP_MS),
                    };
                    stop
                });
                let grace_ms = [first.1, stop.1].into_iter().flatten().min();
                self.early_stop = Some((first.0, grace_ms));
                self.abandon()
            }
            Phase::Running { .. } => self.terminate(now, Cause::Stopped(stop.0), stop.1),
            // What ended first stays the cause; a shorter grace still counts.
            Phase::Terminating { kill_at } => {
                let asked = now.after(stop.1.unwrap_or(self.grace_ms));
                self.phase = Phase::Terminating {
                    kill_at: kill_at.min(asked),
                };
                Vec::new()
            }
            Phase::Lingering { .. } => self.kill(now),
            Phase::Killing { .. } | Phase::Ended => Vec::new(),
        }
    }

    fn terminate(&mut self, now: Millis, cause: Cause, grace_ms: Option<u64>) -> Vec<Action> {
        self.cause = cause;
        let grace = grace_ms.unwrap_or(self.grace_ms).min(self.grace_ms);
        if grace == 0 {
            let kill = self.kill(now);
            return [vec![Action::Terminate], kill].concat();
        }
        self.phase = Phase::Terminating {
            kill_at: now.after(grace),
        };
        vec![Action::Terminate]
    }

    fn kill(&mut self, now: Millis) -> Vec<Action> {
        self.phase = Phase::Killing {
            harder_at: now.after(HARD_KILL_MS),
            give_up_at: now.after(GIVE_UP_MS),
        };
        vec![Action::Kill]
    }

    fn tick(&mut self, now: Millis) -> Vec<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        match self.phase {
            // Nothing of the command ran, so nothing is claimed too early.
            Phase::SettingUp { .. } if self.too_long || self.early_stop.is_some() => {
                vec![self.end()]
            }
            Phase::SettingUp { .. } => {
                self.too_long = true;
                self.phase = Phase::SettingUp {
                    until: now.after(GIVE_UP_MS),
                };
                self.abandon()
            }
            Phase::Running { .. } => self.terminate(now, Cause::Timeout, None),
            Phase::Terminating { .. } | Phase::Lingering { .. } => self.kill(now),
            Phase::Killing { give_up_at, .. } if self.namespaced => {
                // Init cannot survive this, nor anything in its namespace survive init; only a process
                // stuck in the kernel delays it.
                self.phase = Phase::Killing {
                    harder_at: now.after(HARD_KILL_MS),
                    give_up_at,
                };
                if now >= give_up_at {
                    self.phase = Phase::Killing {
                        harder_at: now.after(HARD_KILL_MS),
                        give_up_at: now.after(GIVE_UP_MS),
                    };
                }
                vec![Action::KillInit]
            }
            Phase::Killing { give_up_at, .. } if now >= give_up_at => vec![self.end()],
            Phase::Killing { give_up_at, .. } => {
                self.phase = Phase::Killing {
                    harder_at: give_up_at,
                    give_up_at,
                };
                vec![Action::Kill]
            }
            Phase::Ended => Vec::new(),
        }
    }

    fn end(&mut self) -> Action {
        let started = !matches!(self.phase, Phase::SettingUp { .. });
        self.phase = Phase::Ended;
        if let Some((reason, _)) = self.early_stop.filter(|_| !started) {
            return Action::AnnounceNothingRan(reason);
        }
        if !started {
            return Action::AnnounceFailure {
                too_long: self.too_long,
            };
        }
        let died = self.status == LeaderStatus::Unknown && self.cause == Cause::Leader;
        let cause = if died { Cause::InitDied } else { self.cause };
        Action::AnnounceEnd(End {
            cause,
            status: self.status,
            leftover: self.leftover,
            usage: self.usage,
            ends: self.ends,
            // On the namespaced tiers only the death of init leads here.
            proven: self.namespaced,
        })
    }
}
