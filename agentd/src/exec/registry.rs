//! All executions the daemon knows. Ids belong to callers: nobody sees, ends or collides with an
//! execution of somebody else. Finished ones are kept for a while, within bounds; after that their ids
//! are spent for a while.

mod retention;
mod spent;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use agentd_sandbox::{
    monitor::{ExecKey, StopReason},
    policy::Caller,
};
use thiserror::Error;
use tokio::sync::mpsc;

use super::{
    Exec, ExecId, ExecSpec, ExecState, Stats, Tuning,
    admission::{Admission, Entry, MayWait},
    disk::Disk,
    lifecycle::Stop,
    progress::Control,
};
use retention::Finished;
use spent::Spent;

/// Requests that may wait for each command that may run, unless configured.
const QUEUED_PER_RUNNING: usize = 4;

/// Why a request is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdmitError {
    /// Same id, other request.
    #[error("execution id '{0}' already names another request; choose a new id")]
    Conflict(ExecId),
    /// Run before, and forgotten.
    #[error(
        "execution '{0}' has run and its result is no longer kept; it is not run again under this id: \
         choose a new one to run it once more"
    )]
    Expired(ExecId),
    /// Too many at once.
    #[error(
        "{0} commands at once are the most this daemon runs (for several users: of one user, fewer), and \
         the queue is full or the request does not wait; try again later"
    )]
    Full(usize),
    /// The daemon is about to stop.
    #[error("the daemon is being drained; use another one or try again later")]
    Draining,
}

/// An admitted request.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) exec: Arc<Exec>,
    /// For the driver; `None` when the request is a retry of a known one.
    pub(super) work: Option<(mpsc::UnboundedReceiver<Control>, Entry)>,
}

/// All executions.
#[derive(Debug)]
pub struct Registry {
    admission: Arc<Admission>,
    /// Part of the ids chosen by the daemon.
    boot_id: String,
    tuning: Tuning,
    stats: Arc<Stats>,
    disk: Disk,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    execs: BTreeMap<(u32, ExecId), Arc<Exec>>,
    /// Ids of those that were forgotten by themselves.
    spent: Spent,
    newest: u64,
    draining: bool,
}

impl Registry {
    /// An empty registry that lets `max_running` commands run at once. `boot_id` makes the ids it
    /// chooses differ from those of an earlier daemon.
    #[must_use]
    pub fn new(max_running: usize, boot_id: &str) -> Self {
        let max_queued = max_running.saturating_mul(QUEUED_PER_RUNNING);
        Self {
            admission: Arc::new(Admission::new(max_running, max_queued)),
            boot_id: boot_id.to_owned(),
            tuning: Tuning::default(),
            stats: Arc::default(),
            disk: Disk::default(),
            inner: Mutex::default(),
        }
    }

    /// Lets that many requests wait for their turn. For a registry that is still empty.
    #[must_use]
    pub fn with_queue(mut self, max_queued: usize) -> Self {
        self.admission = Arc::new(Admission::new(self.admission.max_running(), max_queued));
        self
    }

    /// Works on those threads.
    #[cfg(test)]
    pub(super) fn with_disk(mut self, disk: &Disk) -> Self {
        self.disk = disk.clone();
        self
    }

    /// Lets no user hold all slots, since several users share them. For a registry that is still empty.
    #[must_use]
    pub fn with_shares(mut self) -> Self {
        let (max_running, max_queued) = self.capacity();
        self.admission = Arc::new(Admission::new(max_running, max_queued).shared());
        self
    }

    /// Goes by other times.
    #[must_use]
    pub fn with_tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    pub(super) fn admit(&self, spec: &ExecSpec) -> Result<Admitted, AdmitError> {
        let mut inner = self.lock();
        inner.forget_old(Instant::now());
        let uid = spec.invocation.caller.uid;
        if let Some(id) = &spec.id
            && let Some(known) = inner.execs.get(&(uid, id.clone()))
            && is_or_was(known)
        {
            if *known.digest() != spec.digest() {
                return Err(AdmitError::Conflict(id.clone()));
            }
            return Ok(Admitted {
                exec: Arc::clone(known),
                work: None,
            });
        }
        if let Some(id) = &spec.id
            && inner.spent.contains(&(uid, id.clone()))
        {
            return Err(AdmitError::Expired(id.clone()));
        }
        if inner.draining {
            return Err(AdmitError::Draining);
        }
        let may_wait = if spec.queue_timeout.is_zero() {
            MayWait::No
        } else {
            MayWait::Yes
        };
        let entry = self
            .admission
            .enter(uid, may_wait)
            .ok_or_else(|| AdmitError::Full(self.admission.max_running()))?;
        inner.newest = inner.newest.saturating_add(1);
        let key = ExecKey(inner.newest);
        let id = spec
            .id
            .clone()
            .unwrap_or_else(|| ExecId::generated(&self.boot_id, key));
        let surroundings = (self.tuning, Arc::clone(&self.stats), self.disk.clone());
        let (exec, inbox) = Exec::new((id.clone(), key), spec, surroundings);
        inner.execs.insert((uid, id), Arc::clone(&exec));
        Ok(Admitted {
            exec,
            work: Some((inbox, entry)),
        })
    }

    /// An execution of this caller.
    #[must_use]
    pub fn get(&self, caller: Caller, id: &str) -> Option<Arc<Exec>> {
        let id = ExecId::parse(id)?;
        let mut inner = self.lock();
        inner.forget_old(Instant::now());
        let exec = inner.execs.get(&(caller.uid, id));
        exec.filter(|exec| is_or_was(exec)).cloned()
    }

    /// The execution of which a request with this id would be a retry.
    #[must_use]
    pub fn known(&self, caller: Caller, id: &ExecId) -> Option<ExecKey> {
        let inner = self.lock();
        let known = inner.execs.get(&(caller.uid, id.clone()))?;
        (!matches!(known.state(), ExecState::NotStarted(_))).then(|| known.key())
    }

    /// All executions of this caller, oldest first.
    #[must_use]
    pub fn list(&self, caller: Caller) -> Vec<Arc<Exec>> {
        let mut inner = self.lock();
        inner.forget_old(Instant::now());
        let mut execs: Vec<_> = inner
            .execs
            .values()
            .filter(|exec| exec.owner().uid == caller.uid && is_or_was(exec))
            .cloned()
            .collect();
        execs.sort_by_key(|exec| exec.key());
        execs
    }

    /// Forgets one execution, and its buffers with the last reader. Its id is free again.
    pub fn forget(&self, exec: &Exec) {
        let mut inner = self.lock();
        let name = (exec.owner().uid, exec.id().clone());
        // Only this one: the id may name a younger one by now.
        if inner
            .execs
            .get(&name)
            .is_some_and(|known| known.key() == exec.key())
        {
            inner.execs.remove(&name);
        }
    }

    /// Forgets what need not be kept any longer. To be called now and then: files and memory of finished
    /// executions must not wait for the next request.
    pub fn sweep(&self) {
        self.lock().forget_old(Instant::now());
    }

    /// Number of executions that have a slot.
    #[must_use]
    pub fn running(&self) -> usize {
        self.admission.running()
    }

    /// Number of executions that wait for one.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.admission.queued()
    }

    /// Most executions that run at once, and most that wait.
    #[must_use]
    pub fn capacity(&self) -> (usize, usize) {
        (self.admission.max_running(), self.admission.max_queued())
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Part of the ids that this daemon chooses.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Admits nothing new from now on and sends away what waits; returns what still runs.
    pub fn drain(&self) -> Vec<Arc<Exec>> {
        let mut inner = self.lock();
        inner.draining = true;
        self.admission.close();
        inner.running().cloned().collect()
    }

    /// True once [`Registry::drain`] was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.lock().draining
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exec {
    /// Asks for its end. `grace_ms` is the time between TERM and KILL in milliseconds; `None` for the
    /// execution's own. Without effect when it is over.
    pub fn request_stop(&self, reason: StopReason, grace_ms: Option<u64>) {
        self.stop(Stop { reason, grace_ms });
    }
}

/// Waits, runs or has a result. One that was never started is nobody's to find, and its id is free for
/// another try.
fn is_or_was(exec: &Exec) -> bool {
    !matches!(exec.state(), ExecState::NotStarted(_))
}

impl Inner {
    fn running(&self) -> impl Iterator<Item = &Arc<Exec>> {
        self.execs
            .values()
            .filter(|exec| exec.finished_at().is_none())
    }

    /// Forgets what need not be kept any longer.
    fn forget_old(&mut self, now: Instant) {
        let finished = self.execs.iter().filter_map(|(name, exec)| {
            Some(Finished {
                name: name.clone(),
                at: exec.finished_at()?,
                bytes: exec.memory(),
            })
        });
        let surplus = retention::surplus(finished.collect(), now);
        for name in surplus {
            // One that was never started is no run: its id is free for another try.
            if let Some(exec) = self.execs.remove(&name)
                && is_or_was(&exec)
            {
                self.spent.add(&name, now);
            }
        }
        self.spent.forget_old(now);
    }
}

#[cfg(test)]
mod tests;
