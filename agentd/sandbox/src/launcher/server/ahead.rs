//! Requests about paths on far file systems. A scout looks at the paths first; the launcher does only when
//! it is back. If it does not come back, the file system does not answer, and that request alone fails.

use std::{
    borrow::Cow,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use super::{
    super::{facts, lifecycle::Millis, limits, protected, scout::Scout, sessions::Claim},
    Server,
    act::NothingRan,
};
use crate::{
    launch,
    monitor::{Event, ExecKey, Request},
    policy::{self, Invocation, Policy, Refusal, SessionKey},
};

/// A file system that has not answered after this time is taken for dead.
const PATIENCE_MS: u64 = 5_000;
/// Requests that wait at the same time.
const MOST: usize = 32;

/// Who waits.
#[derive(Debug, Default)]
pub(in crate::launcher) struct Ahead {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    scout: Scout,
    until: Millis,
    workspace: PathBuf,
    request: Request,
    fds: Vec<OwnedFd>,
}

impl Ahead {
    /// When a scout is overdue.
    pub(super) fn due(&self) -> Option<Millis> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// What to wait for.
    pub(super) fn watched(&self) -> impl Iterator<Item = libc::pollfd> {
        self.waiting.iter().map(|waiting| waiting.scout.watched())
    }

    /// Whether this is the pid of a scout.
    pub(super) fn holds(&self, pid: libc::pid_t) -> bool {
        self.waiting.iter().any(|waiting| waiting.scout.is(pid))
    }

    /// Takes out what `wanted` says.
    fn take(&mut self, wanted: impl FnMut(&mut Waiting) -> bool) -> Vec<Waiting> {
        self.waiting.extract_if(.., wanted).collect()
    }
}

impl Server {
    /// Does what a request asks for, now or when its paths have been looked at.
    pub(super) fn receive(&mut self, request: Request, fds: Vec<OwnedFd>) {
        self.forget_waiting(&request);
        let look = asked(&request)
            .filter(|_| self.has_far_mounts())
            .and_then(|asked| self.far_look(&asked));
        match look {
            Some(look) => self.send_ahead(look, request, fds),
            None => self.obey(request, fds),
        }
    }

    fn has_far_mounts(&mut self) -> bool {
        self.workshop.mounts.refresh();
        self.workshop.mounts.have_far()
    }

    /// What a scout has to look at; `None` when no path is far.
    fn far_look(&self, asked: &Invocation) -> Option<Look> {
        let workshop = &self.workshop;
        let mounts = &workshop.mounts;
        let facts = facts::without_looking(&workshop.surroundings, asked);
        let policy = workshop
            .catalogue
            .select(&asked.profile)
            .and_then(|profile| policy::resolve(profile, asked, &facts))
            .ok();
        let rules = policy.iter().flat_map(|policy| &policy.fs.rules);
        let far = mounts.is_far(&asked.workspace)
            || rules.into_iter().any(|rule| mounts.is_far(&rule.path));
        far.then(|| Look {
            workspace: asked.workspace.clone(),
            policy,
            landlock_abi: workshop.surroundings.host.landlock_abi,
        })
    }

    fn send_ahead(&mut self, look: Look, request: Request, fds: Vec<OwnedFd>) {
        if self.ahead.waiting.len() >= MOST {
            let reason = "too many commands wait for file systems that do not answer";
            return self.refuse(&request, &look.workspace, reason);
        }
        match Scout::send(None, || look.have()) {
            Ok(scout) => {
                let until = self.clock.now().after(PATIENCE_MS);
                self.ahead.waiting.push(Waiting {
                    scout,
                    until,
                    workspace: look.workspace,
                    request,
                    fds,
                });
            }
            Err(errno) => self.refuse(&request, &look.workspace, errno.desc()),
        }
    }

    /// Goes on with what the scouts have come back from, and gives up on those that are overdue.
    pub(super) fn hear_scouts(&mut self) {
        for back in self.ahead.take(|waiting| waiting.scout.is_back()) {
            // What it saw may have changed since: the launcher looks for itself.
            self.obey(back.request, back.fds);
        }
        let now = self.clock.now();
        for overdue in self.ahead.take(|waiting| waiting.until <= now) {
            self.refuse(
                &overdue.request,
                &overdue.workspace,
                "a file system that it needs does not answer: see whether its server is alive, or unmount it",
            );
            self.given_up.add_scout(overdue.scout);
        }
    }

    /// A session that is closed before it was made, and a command that is stopped before it was started.
    fn forget_waiting(&mut self, request: &Request) {
        let forgotten = self.ahead.take(|waiting| ends(request, &waiting.request));
        for waiting in forgotten {
            match never_began(request, &waiting.request) {
                Some(ended) => self.outbox.push(&ended.into()),
                None => self.refuse(&waiting.request, &waiting.workspace, "it was ended before"),
            }
            self.given_up.add_scout(waiting.scout);
        }
    }

    fn refuse(&mut self, request: &Request, workspace: &Path, reason: &str) {
        let refusal = Refusal::BadWorkspace {
            path: workspace.to_owned(),
            reason: reason.to_owned(),
        };
        let event = match request {
            Request::Spawn { exec, .. } => Event::Refused {
                exec: *exec,
                refusal,
            },
            Request::Explain { id, .. } => Event::Explained {
                id: *id,
                result: Err(refusal),
            },
            Request::OpenSession { session, .. } => Event::SessionOpened {
                session: *session,
                result: Err(refusal),
            },
            // They name no path, and never wait.
            Request::Finish { .. }
            | Request::Stop { .. }
            | Request::Signal { .. }
            | Request::Resize { .. }
            | Request::CloseSession { .. }
            | Request::Reload => return,
        };
        self.outbox.push(&event);
    }
}

/// What a request would run, if it names paths.
fn asked(request: &Request) -> Option<Cow<'_, Invocation>> {
    match request {
        Request::Spawn { invocation, .. } | Request::Explain { invocation, .. } => {
            Some(Cow::Borrowed(invocation))
        }
        Request::OpenSession {
            profile,
            workspace,
            caller,
            ..
        } => {
            let claim = Claim {
                profile: profile.clone(),
                workspace: workspace.clone(),
                caller: *caller,
            };
            Some(Cow::Owned(claim.as_invocation()))
        }
        Request::Finish { .. }
        | Request::Stop { .. }
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::CloseSession { .. }
        | Request::Reload => None,
    }
}

/// The end of a command whose start waits, when `request` stops it.
fn never_began(request: &Request, waiting: &Request) -> Option<NothingRan> {
    let (Request::Stop { reason, .. }, Request::Spawn { exec, .. }) = (request, waiting) else {
        return None;
    };
    Some(NothingRan {
        exec: *exec,
        reason: *reason,
        // There is not even a process.
        proven: true,
    })
}

/// `request` ends what `waiting` would begin.
fn ends(request: &Request, waiting: &Request) -> bool {
    let exec = |key: &ExecKey| matches!(waiting, Request::Spawn { exec, .. } if exec == key);
    let session = |key: &SessionKey| matches!(waiting, Request::OpenSession { session, .. } if session == key);
    match request {
        Request::Stop { exec: key, .. } => exec(key),
        Request::CloseSession { session: key } => session(key),
        Request::Spawn { .. }
        | Request::Finish { .. }
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::OpenSession { .. }
        | Request::Explain { .. }
        | Request::Reload => false,
    }
}

/// What a scout looks at.
#[derive(Debug)]
struct Look {
    workspace: PathBuf,
    /// As far as it can be told without a look at any path; `None` when only the workspace is known.
    policy: Option<Policy>,
    landlock_abi: u32,
}

impl Look {
    /// In the scout: every look that the launcher will have.
    fn have(&self) {
        let workspace = launch::open_name(&self.workspace)
            .and_then(|directory| nix::sys::stat::fstat(directory.as_fd()));
        // Without it the launcher looks at nothing else either.
        if let (Ok(_), Some(policy)) = (workspace, &self.policy) {
            drop(launch::survey(policy, self.landlock_abi));
            drop(protected::check(policy));
            limits::look(policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Cause, LeaderStatus, StopReason};

    #[test]
    fn only_the_end_of_the_same_thing_ends_what_waits() {
        let open = |key| Request::OpenSession {
            session: SessionKey(key),
            profile: String::new(),
            workspace: PathBuf::new(),
            caller: policy::Caller { uid: 1, gid: 1 },
        };
        let spawn = |key| Request::Spawn {
            exec: ExecKey(key),
            invocation: Box::new(policy::tests::invocation("x")),
        };
        let stop = Request::Stop {
            exec: ExecKey(1),
            reason: StopReason::Cancelled,
            grace_ms: None,
        };
        let close = Request::CloseSession {
            session: SessionKey(1),
        };
        for (request, waiting, expected) in [
            (&stop, spawn(1), true),
            (&stop, spawn(2), false),
            (&stop, open(1), false),
            (&close, open(1), true),
            (&close, open(2), false),
            (&close, spawn(1), false),
            (&Request::Reload, spawn(1), false),
        ] {
            assert_eq!(ends(request, &waiting), expected, "{request:?} {waiting:?}");
        }
    }

    #[test]
    fn a_command_that_is_stopped_while_it_waits_is_told_as_stopped_and_not_as_refused() {
        for reason in [
            StopReason::Cancelled,
            StopReason::Drained,
            StopReason::Disconnected,
        ] {
            let exec = ExecKey(1);
            let spawn = Request::Spawn {
                exec,
                invocation: Box::new(policy::tests::invocation("x")),
            };
            let stop = Request::Stop {
                exec,
                reason,
                grace_ms: None,
            };
            let Some(Event::Ended {
                exec: ended,
                cause,
                status,
                proven,
                ..
            }) = never_began(&stop, &spawn).map(Event::from)
            else {
                panic!("{reason:?}");
            };
            assert_eq!((ended, cause), (exec, Cause::Stopped(reason)));
            assert_eq!((status, proven), (LeaderStatus::Unknown, true));
            let close = Request::CloseSession {
                session: SessionKey(1),
            };
            assert!(never_began(&close, &spawn).is_none());
        }
    }
}
