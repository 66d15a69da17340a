//! What executions and sessions left in the file system, from their end until it is removed. Who asked for
//! them is told of the end after that, so that nothing is there that the end says is not.

use super::{
    super::{
        burial::Burial, lifecycle::Millis, stale::OwnDir, tripwire::Progress, tripwire::Tripwires,
    },
    Server,
};
use crate::{
    monitor::{Event, ExecKey, Tripped},
    policy::SessionKey,
};

/// The end of an execution waits no longer for files to be removed: a command can have made millions. What
/// must not stay is removed all the same, and the result says that it is not yet.
pub(super) const PATIENCE_MS: u64 = 10_000;
/// Time between two looks where no process tells by its end that it is done.
const AGAIN_MS: u64 = 1;

/// What is being removed.
#[derive(Debug, Default)]
pub(in crate::launcher) struct Mourning(Vec<Grave>);

/// One execution or session.
#[derive(Debug)]
pub(super) struct Grave {
    /// What is to be removed.
    pub(super) burial: Burial,
    /// The execution whose names the janitor forgets when they are dealt with.
    pub(super) exec: Option<ExecKey>,
    /// Throw-away uid that it had to itself, which nobody else gets before.
    pub(super) uid: Option<u32>,
    /// The session that it was, or that it was in.
    pub(super) session: Option<SessionKey>,
    /// What the front end is told, once.
    pub(super) event: Option<Event>,
    /// When it is told at the latest.
    pub(super) until: Option<Millis>,
}

impl Mourning {
    /// Nothing is being removed.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something of this session is.
    pub(in crate::launcher) fn is_for(&self, session: SessionKey) -> bool {
        self.0.iter().any(|grave| grave.session == Some(session))
    }

    /// Whether this is the pid of a helper.
    pub(super) fn holds(&self, pid: libc::pid_t) -> bool {
        self.0.iter().any(|grave| grave.burial.holds(pid))
    }

    /// What to wait for.
    pub(super) fn watched(&self) -> impl Iterator<Item = libc::pollfd> {
        self.0.iter().filter_map(|grave| grave.burial.watched())
    }

    /// When to look again.
    pub(super) fn due(&self, now: Millis) -> Option<Millis> {
        let next = |grave: &Grave| match grave.burial.watched() {
            Some(_) => grave.until.filter(|_| grave.event.is_some()),
            None => Some(now.after(AGAIN_MS)),
        };
        self.0.iter().filter_map(next).min()
    }
}

impl Server {
    /// Removes what earlier launchers left behind.
    pub(in crate::launcher) fn clear_away(&mut self, left: Vec<OwnDir>) {
        for directory in left {
            self.begin_burying(Grave {
                burial: Burial::of(Tripwires::default(), Some(directory)),
                exec: None,
                uid: None,
                session: None,
                event: None,
                until: None,
            });
        }
    }

    /// Removes what a session had.
    pub(in crate::launcher) fn bury_session(&mut self, session: SessionKey, event: Option<Event>) {
        if let Some((uid, directory)) = self.workshop.forget_session(session) {
            self.begin_burying(Grave {
                burial: Burial::of(Tripwires::default(), Some(directory)),
                exec: None,
                uid: Some(uid),
                session: Some(session),
                event,
                until: None,
            });
        }
    }

    /// Removes what can be removed at once; the rest goes on beside everything else.
    pub(super) fn begin_burying(&mut self, grave: Grave) {
        if let Some(grave) = self.go_on_with(grave) {
            self.mourning.0.push(grave);
        }
    }

    /// Looks at what is being removed.
    pub(super) fn go_on_burying(&mut self) {
        for grave in std::mem::take(&mut self.mourning.0) {
            self.begin_burying(grave);
        }
    }

    /// What is left of it, if anything.
    fn go_on_with(&mut self, mut grave: Grave) -> Option<Grave> {
        let progress = grave.burial.go_on();
        let late = |until: Millis| self.clock.now() >= until;
        if progress == Progress::Done || grave.until.is_some_and(late) {
            self.tell(&mut grave);
        }
        match progress {
            Progress::Unfinished => Some(grave),
            Progress::Done => {
                if let Some(exec) = grave.exec {
                    // ORDER: after they were removed. Whoever makes one from now on may keep it.
                    self.workshop.janitor.over(exec);
                }
                if let Some(uid) = grave.uid {
                    self.workshop.uids.give_back(uid);
                }
                None
            }
        }
    }

    fn tell(&mut self, grave: &mut Grave) {
        let Some(mut event) = grave.event.take() else {
            return;
        };
        let made = grave.burial.tripped();
        match &mut event {
            Event::Ended { tripped, .. } => *tripped = made,
            // There is no other place in it.
            Event::SetupFailed { failure, .. } => failure.detail.extend(made.iter().map(tell_of)),
            Event::Ready { .. }
            | Event::Profile(_)
            | Event::Reloaded { .. }
            | Event::Refused { .. }
            | Event::Started { .. }
            | Event::LeaderExited { .. }
            | Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::Explained { .. } => {}
        }
        self.outbox.push(&event);
    }
}

/// What a command made although it was taken for one that never ran.
fn tell_of(made: &Tripped) -> String {
    let Tripped {
        path,
        rule,
        remains,
    } = made;
    match remains {
        None => format!("; {path}, which {rule} protects, was made and has been removed"),
        Some(why) => format!("; {path}, which {rule} protects, was made and remains: {why}"),
    }
}
