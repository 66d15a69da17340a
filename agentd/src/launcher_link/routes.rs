//! Who waits for which message of the launcher. Pure bookkeeping.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    os::fd::OwnedFd,
};

use agentd_sandbox::{
    explain::Verdict,
    monitor::{Event, ExecKey, ProfileSummary},
    policy::{Refusal, SessionKey},
};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// The launcher said something it must not say. The connection is over.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the launcher sent '{0}' when nothing asked for it")]
pub(super) struct Unexpected(pub(super) &'static str);

/// An event of an execution, with the descriptors that came beside it.
#[derive(Debug)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// Descriptors; see `StartedFds`.
    pub fds: Vec<OwnedFd>,
}

type ExplainAnswer = Result<Vec<Verdict>, Refusal>;
type OpenAnswer = Result<BTreeMap<String, String>, Refusal>;
type ReloadAnswer = Result<Vec<ProfileSummary>, String>;

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Routes {
    execs: HashMap<ExecKey, mpsc::UnboundedSender<Delivery>>,
    explains: HashMap<u64, oneshot::Sender<ExplainAnswer>>,
    opens: HashMap<SessionKey, oneshot::Sender<OpenAnswer>>,
    closes: HashMap<SessionKey, oneshot::Sender<()>>,
    reloads: VecDeque<oneshot::Sender<ReloadAnswer>>,
    /// Profiles that a reload announced and that have not come yet.
    loading: Option<Loading>,
}

#[derive(Debug)]
struct Loading {
    missing: u32,
    got: Vec<ProfileSummary>,
}

impl Routes {
    pub(super) fn add_exec(&mut self, key: ExecKey) -> mpsc::UnboundedReceiver<Delivery> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.execs.insert(key, sender);
        receiver
    }

    pub(super) fn remove_exec(&mut self, key: ExecKey) {
        self.execs.remove(&key);
    }

    pub(super) fn add_explain(&mut self, id: u64) -> oneshot::Receiver<ExplainAnswer> {
        let (sender, receiver) = oneshot::channel();
        self.explains.insert(id, sender);
        receiver
    }

    /// Who opens a session. A second one for the same name would end the wait of the first.
    pub(super) fn add_open(&mut self, session: SessionKey) -> oneshot::Receiver<OpenAnswer> {
        let (sender, receiver) = oneshot::channel();
        self.opens.insert(session, sender);
        receiver
    }

    /// Who closes a session. A second one for the same name would end the wait of the first.
    pub(super) fn add_close(&mut self, session: SessionKey) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.closes.insert(session, sender);
        receiver
    }

    /// A question that did not go out.
    pub(super) fn remove_explain(&mut self, id: u64) {
        self.explains.remove(&id);
    }

    /// A session whose opening did not go out.
    pub(super) fn remove_open(&mut self, session: SessionKey) {
        self.opens.remove(&session);
    }

    /// A session whose closing did not go out.
    pub(super) fn remove_close(&mut self, session: SessionKey) {
        self.closes.remove(&session);
    }

    /// The newest reload, which did not go out.
    pub(super) fn remove_reload(&mut self) {
        self.reloads.pop_back();
    }

    /// Number of those who wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        [
            self.execs.len(),
            self.explains.len(),
            self.opens.len(),
            self.closes.len(),
            self.reloads.len(),
        ]
        .iter()
        .sum()
    }

    pub(super) fn add_reload(&mut self) -> oneshot::Receiver<ReloadAnswer> {
        let (sender, receiver) = oneshot::channel();
        self.reloads.push_back(sender);
        receiver
    }

    /// Hands a message to whom it belongs. `Ok(Some(_))`: new profiles are complete.
    pub(super) fn deliver(
        &mut self,
        Delivery { event, fds }: Delivery,
    ) -> Result<Option<Vec<ProfileSummary>>, Unexpected> {
        match event {
            Event::Refused { exec, .. }
            | Event::SetupFailed { exec, .. }
            | Event::Ended { exec, .. } => {
                if let Some(route) = self.execs.remove(&exec) {
                    // Nobody waits any more: the driver ended for another reason.
                    drop(route.send(Delivery { event, fds }));
                }
                Ok(None)
            }
            Event::Started { exec, .. } | Event::LeaderExited { exec, .. } => {
                if let Some(route) = self.execs.get(&exec) {
                    drop(route.send(Delivery { event, fds }));
                }
                Ok(None)
            }
            Event::SessionOpened { session, result } => {
                if let Some(route) = self.opens.remove(&session) {
                    drop(route.send(result));
                }
                Ok(None)
            }
            Event::SessionClosed { session } => {
                // Nobody waits any more: a close takes only so long.
                if let Some(route) = self.closes.remove(&session) {
                    route.send(()).unwrap_or(());
                }
                Ok(None)
            }
            Event::Explained { id, result } => {
                if let Some(route) = self.explains.remove(&id) {
                    drop(route.send(result));
                }
                Ok(None)
            }
            Event::Reloaded { result } => self.reloaded(result),
            Event::Profile(profile) => self.profile(*profile),
            Event::Ready { .. } => Err(Unexpected("ready")),
        }
    }

    fn reloaded(
        &mut self,
        result: Result<u32, String>,
    ) -> Result<Option<Vec<ProfileSummary>>, Unexpected> {
        if self.loading.is_some() || self.reloads.is_empty() {
            return Err(Unexpected("reloaded"));
        }
        match result {
            Ok(count) => {
                self.loading = Some(Loading {
                    missing: count,
                    got: Vec::new(),
                });
                Ok(self.complete_load())
            }
            Err(why) => {
                if let Some(waiting) = self.reloads.pop_front() {
                    drop(waiting.send(Err(why)));
                }
                Ok(None)
            }
        }
    }

    fn profile(
        &mut self,
        profile: ProfileSummary,
    ) -> Result<Option<Vec<ProfileSummary>>, Unexpected> {
        let loading = self.loading.as_mut().ok_or(Unexpected("profile"))?;
        loading.got.push(profile);
        loading.missing = loading.missing.saturating_sub(1);
        Ok(self.complete_load())
    }

    fn complete_load(&mut self) -> Option<Vec<ProfileSummary>> {
        let loading = self.loading.take_if(|loading| loading.missing == 0)?;
        if let Some(waiting) = self.reloads.pop_front() {
            drop(waiting.send(Ok(loading.got.clone())));
        }
        Some(loading.got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher_link::fake::profile;

    fn alone(event: Event) -> Delivery {
        Delivery {
            event,
            fds: Vec::new(),
        }
    }

    #[test]
    fn events_of_an_execution_reach_its_route_and_end_it() {
        let mut routes = Routes::default();
        let exec = ExecKey(7);
        let mut route = routes.add_exec(exec);
        let failed = Event::SetupFailed {
            exec,
            failure: agentd_sandbox::monitor::SetupFailure {
                stage: "exec".to_owned(),
                errno: 2,
                detail: String::new(),
            },
        };
        assert_eq!(routes.deliver(alone(failed.clone())), Ok(None));
        assert_eq!(route.try_recv().unwrap().event, failed);
        assert_eq!(
            routes.deliver(alone(failed)),
            Ok(None),
            "unknown names are ignored"
        );
        route.try_recv().unwrap_err();
    }

    #[test]
    fn profiles_come_only_after_a_reload_and_only_as_many_as_announced() {
        let mut routes = Routes::default();
        let summary = || Event::Profile(Box::new(profile("workspace")));
        assert_eq!(routes.deliver(alone(summary())), Err(Unexpected("profile")));
        let mut waiting = routes.add_reload();
        let reloaded = Event::Reloaded { result: Ok(2) };
        assert_eq!(routes.deliver(alone(reloaded.clone())), Ok(None));
        assert_eq!(routes.deliver(alone(summary())), Ok(None));
        let done = routes.deliver(alone(summary())).unwrap().unwrap();
        assert_eq!(done.len(), 2);
        assert_eq!(waiting.try_recv().unwrap(), Ok(done));
        assert_eq!(routes.deliver(alone(summary())), Err(Unexpected("profile")));
        assert_eq!(routes.deliver(alone(reloaded)), Err(Unexpected("reloaded")));
    }

    #[test]
    fn a_failed_reload_reaches_whoever_asked() {
        let mut routes = Routes::default();
        let mut waiting = routes.add_reload();
        let failed = Event::Reloaded {
            result: Err("x.toml:3: no".to_owned()),
        };
        assert_eq!(routes.deliver(alone(failed)), Ok(None));
        assert_eq!(waiting.try_recv().unwrap(), Err("x.toml:3: no".to_owned()));
    }
}
