//! What the life of a jail asks for, done: commands to its init, and news for the front end.

use std::os::fd::{AsFd, OwnedFd};

use super::{
    super::{
        hits,
        jail::Jail,
        lifecycle::{Action, End, Input, Millis},
        setup::Ran,
        tripwire::Tripwires,
    },
    Server,
    mourning::{Grave, PATIENCE_MS},
};
use crate::{
    launch::Command,
    monitor::{Cause, Event, ExecKey, LeaderStatus, StopReason, Usage},
    sys::terminal,
};

/// The end of a command that was stopped before it was executed.
#[derive(Debug)]
pub(super) struct NothingRan {
    pub(super) exec: ExecKey,
    pub(super) reason: StopReason,
    /// Nothing of what was to become it is left.
    pub(super) proven: bool,
}

impl From<NothingRan> for Event {
    fn from(end: NothingRan) -> Self {
        Self::Ended {
            exec: end.exec,
            cause: Cause::Stopped(end.reason),
            status: LeaderStatus::Unknown,
            leftover: 0,
            usage: Usage::default(),
            tripped: Vec::new(),
            hits: Vec::new(),
            proven: end.proven,
        }
    }
}

impl Server {
    /// Unknown executions are ignored: their end may have crossed the request.
    pub(in crate::launcher) fn step(&mut self, exec: ExecKey, now: Millis, input: Input) {
        if let Some(jail) = self.jails.get_mut(&exec) {
            let actions = jail.life.step(now, input);
            self.act(exec, actions);
        }
    }

    pub(super) fn act(&mut self, exec: ExecKey, actions: Vec<Action>) {
        for action in actions {
            let Some(jail) = self.jails.get_mut(&exec) else {
                return;
            };
            match action {
                Action::AnnounceStart => self.announce_start(exec),
                Action::AnnounceLeader(status) => {
                    self.outbox.push(&Event::LeaderExited { exec, status });
                }
                Action::Terminate => jail.command(Command::TERMINATE),
                Action::Kill => jail.kill_tree(),
                Action::KillInit => jail.kill_init(),
                Action::AnnounceFailure { too_long } => {
                    let failure = if too_long {
                        Jail::slow_setup()
                    } else {
                        jail.setup_failure()
                    };
                    if let Some(file) = &jail.leavings.output {
                        file.remove();
                    }
                    self.bury(exec, Some(Event::SetupFailed { exec, failure }));
                }
                Action::AnnounceNothingRan(reason) => {
                    if let Some(file) = &jail.leavings.output {
                        file.remove();
                    }
                    let ended = NothingRan {
                        exec,
                        reason,
                        proven: jail.gone && jail.is_proven_gone(),
                    };
                    self.bury(exec, Some(ended.into()));
                }
                Action::AnnounceEnd(end) => self.announce_end(exec, &end),
            }
        }
    }

    fn announce_end(&mut self, exec: ExecKey, end: &End) {
        let Some(jail) = self.jails.get_mut(&exec) else {
            return;
        };
        let output = (jail.session, jail.leavings.output.take());
        if let (Some(session), Some(file)) = output {
            let now = self.clock.now();
            self.workshop.sessions.retire(session, now, file);
        }
        // ORDER: read before the group is removed.
        let counters = jail.counters();
        let known = hits::Known {
            limits: &jail.limits,
            counters: &counters,
            growth: jail.watch.growth(),
        };
        let ended = Event::Ended {
            exec,
            cause: jail.cause(end),
            status: end.status,
            leftover: end.leftover,
            usage: hits::usage(end.usage, &counters),
            // Known when it is buried.
            tripped: Vec::new(),
            hits: hits::name(end, known),
            proven: end.proven || jail.is_proven_gone(),
        };
        self.bury(exec, Some(ended));
    }

    fn announce_start(&mut self, exec: ExecKey) {
        let Some(jail) = self.jails.get_mut(&exec) else {
            return;
        };
        let event = Event::Started {
            exec,
            report: Box::new(jail.report.clone()),
            limits: jail.limits,
            cwd: jail.cwd.display().to_string(),
            notes: std::mem::take(&mut jail.notes),
            output_file: jail.output_file.clone(),
        };
        // A copy stays here for changes of its size; where none can be made, the original matters more.
        let kept = jail.terminal.as_ref().and_then(|fd| fd.try_clone().ok());
        let sent = std::mem::replace(&mut jail.terminal, kept);
        let peer = sent.as_ref().map(|fd| terminal::open_peer(fd.as_fd()));
        let mut fds: Vec<OwnedFd> = sent.into_iter().collect();
        fds.append(&mut jail.started_fds);
        fds.extend(peer.and_then(Result::ok));
        self.outbox.push_with(&event, fds);
    }

    /// Forgets an execution whose tree is gone, or given up, and cleans up after it. The front end is told
    /// when that is done.
    pub(super) fn bury(&mut self, exec: ExecKey, event: Option<Event>) {
        if let Some(jail) = self.jails.remove(&exec) {
            let grave = self.dig(jail, event);
            self.begin_burying(Grave {
                exec: Some(exec),
                ..grave
            });
        }
    }

    /// Takes from an execution what is to be removed, and gives its processes that may still live to who
    /// reaps them.
    pub(super) fn dig(&mut self, mut jail: Jail, event: Option<Event>) -> Grave {
        if let Some(scout) = std::mem::take(&mut jail.watch).into_scout() {
            self.given_up.add_scout(scout);
        }
        if !jail.gone {
            let of_session = |key| self.workshop.sessions.uid(key);
            let uid = jail.leavings.uid.or_else(|| of_session(jail.session?));
            if let Some(uid) = uid {
                self.workshop.uids.share(uid);
            }
            self.given_up.add(jail.child, uid);
        }
        if jail.ran == Ran::Never {
            // What is there now is somebody else's.
            jail.leavings.tripwires = Tripwires::default();
        }
        let (burial, uid) = self.workshop.bury(jail.leavings);
        Grave {
            burial,
            exec: None,
            uid,
            session: jail.session,
            event,
            until: Some(self.clock.now().after(PATIENCE_MS)),
        }
    }
}
