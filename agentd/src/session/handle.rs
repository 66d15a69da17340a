//! One session as the rest of the daemon holds it. Its life is `life`'s; this is what is known of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use agentd_sandbox::{
    monitor::StopReason,
    policy::{Caller, Carried, SessionKey},
};
use tokio::sync::watch;

use super::{
    Kind, Known, Phase, SessionId, SessionSpec,
    base::Base,
    report::Report,
    state::{self, Beginning, Context},
    work::Work,
};
use crate::exec::{Exec, ExecId, OutputRoom};

/// Most bytes of output that the files of a session hold together. Its commands can read them until it
/// ends, so none is taken away before.
const MAX_KEPT_OUTPUT: u64 = 1024 * 1024 * 1024;

/// A session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    key: SessionKey,
    spec: SessionSpec,
    digest: [u8; 32],
    created_at: SystemTime,
    /// Set when it is open.
    base: OnceLock<Base>,
    /// When the lease runs out.
    deadline: Mutex<Instant>,
    carried: Mutex<Carried>,
    work: Mutex<Work>,
    output_room: OutputRoom,
    phase: watch::Sender<Phase>,
    /// Why it is to end; the first reason counts.
    ending: watch::Sender<Option<StopReason>>,
}

impl Session {
    pub(super) fn new((id, key): (SessionId, SessionKey), spec: SessionSpec) -> Self {
        Self {
            id,
            key,
            digest: spec.digest(),
            created_at: SystemTime::now(),
            base: OnceLock::new(),
            deadline: Mutex::new(later(spec.lease)),
            carried: Mutex::new(Carried {
                cwd: spec.cwd.clone().filter(|cwd| *cwd != spec.workspace),
                env_set: spec.env_set.clone(),
                env_unset: spec.env_unset.clone(),
            }),
            work: Mutex::new(Work::new()),
            output_room: OutputRoom::new(MAX_KEPT_OUTPUT),
            phase: watch::channel(Phase::Opening).0,
            ending: watch::channel(None).0,
            spec,
        }
    }

    /// Id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Name towards the launcher; also the order of creation.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        self.key
    }

    /// What was asked for.
    #[must_use]
    pub fn spec(&self) -> &SessionSpec {
        &self.spec
    }

    /// Whose it is.
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.spec.caller
    }

    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Creation time.
    #[must_use]
    pub fn created_at(&self) -> SystemTime {
        self.created_at
    }

    /// Where it is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Waits for a phase.
    pub(super) async fn phase_where(&self, wanted: impl FnMut(&Phase) -> bool) -> Phase {
        let mut phases = self.phase.subscribe();
        let found = phases.wait_for(wanted).await.map(|phase| phase.clone());
        // An error means that the sender is gone; it lives in `self`.
        found.unwrap_or(Phase::Closing)
    }

    pub(super) fn end(&self, reason: StopReason) {
        self.ending
            .send_if_modified(|ending| ending.is_none() && ending.replace(reason).is_none());
    }

    pub(super) async fn ending(&self) -> StopReason {
        let mut ending = self.ending.subscribe();
        let reason = ending.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| *reason)
            // The sender lives in `self`.
            .unwrap_or(StopReason::Disconnected)
    }

    /// Renews the lease.
    pub fn touch(&self) {
        *lock(&self.deadline) = later(self.spec.lease);
    }

    pub(super) fn deadline(&self) -> Instant {
        *lock(&self.deadline)
    }

    /// When the lease runs out unless it is renewed.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        if self.is_busy() {
            self.touch();
        }
        let left = self.deadline().saturating_duration_since(Instant::now());
        let now = SystemTime::now();
        now.checked_add(left).unwrap_or(now)
    }

    /// A command that somebody waits for runs, or somebody reads a command: the session is in use.
    pub(super) fn is_busy(&self) -> bool {
        self.known().iter().any(|known| {
            let is_waited_for = known.kind == Kind::Foreground && known.is_running();
            is_waited_for || known.exec.is_read()
        })
    }

    /// Its commands that are still known, oldest first.
    #[must_use]
    pub fn known(&self) -> Vec<Known> {
        self.work().known()
    }

    /// Number of its commands that are not over.
    #[must_use]
    pub fn running(&self) -> usize {
        self.known()
            .iter()
            .filter(|known| known.is_running())
            .count()
    }

    /// One of its commands.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Known> {
        let mut known = self.known().into_iter();
        known.find(|known| known.exec.id().as_str() == id)
    }

    /// Working directory of the next command.
    #[must_use]
    pub fn cwd(&self) -> PathBuf {
        let cwd = self.carried().cwd;
        cwd.unwrap_or_else(|| self.spec.workspace.clone())
    }

    /// Names of the variables that its commands exported and that the next one begins with, sorted.
    #[must_use]
    pub fn exported(&self) -> Vec<String> {
        let carried = self.carried().env_set;
        let by_commands = carried
            .into_iter()
            .filter(|(name, value)| self.spec.env_set.get(name) != Some(value));
        by_commands.map(|(name, _)| name).collect()
    }

    /// It is open; this is the environment of a command in it that asks for nothing.
    pub(super) fn begin_with(&self, environment: BTreeMap<String, String>) {
        self.base.get_or_init(|| Base::new(environment));
    }

    pub(super) fn carried(&self) -> Carried {
        lock(&self.carried).clone()
    }

    /// Takes the report of a command. The answer: remarks for a person.
    pub(super) fn learn(
        &self,
        exec: &ExecId,
        report: &Report,
        beginning: &Beginning,
    ) -> Vec<String> {
        let known = self.find(exec.as_str());
        let started = known.and_then(|known| known.exec.start_report());
        let context = Context {
            beginning,
            base: self.base.get_or_init(Base::default),
            started_in: started.as_ref().map(|started| started.cwd.as_str()),
            workspace: self.workspace(),
        };
        state::apply(&mut lock(&self.carried), report, &context)
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.spec.workspace
    }

    pub(super) fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.work)
    }

    /// Where a read of a command's output begins that names no offset; `call` names the read, so that
    /// a retry of it begins at the same place. Empty: it is never retried.
    #[must_use]
    pub fn read_from(&self, exec: &Exec, call: &str) -> u64 {
        self.work().read_from(exec.key(), call)
    }

    /// A read that names no offset took the bytes from the first offset to the second.
    pub fn has_read(&self, exec: &Exec, call: &str, bytes: (u64, u64)) {
        self.work().has_read(exec.key(), call, bytes);
    }

    /// Room for the files that keep the output of its commands.
    pub(super) fn output_room(&self) -> OutputRoom {
        self.output_room.clone()
    }

    /// Lets go of the files that keep the output of its commands, so that nothing of them is left once they
    /// are removed.
    pub(super) fn let_go_of_output(&self) {
        for known in self.known() {
            known.exec.let_go_of_output();
        }
    }

    /// Admits no more commands; the answer is what still runs.
    pub(super) fn shut(&self) -> Vec<Arc<Exec>> {
        let mut work = self.work();
        work.is_open = false;
        let known = work.known().into_iter();
        known
            .filter(Known::is_running)
            .map(|known| known.exec)
            .collect()
    }
}

/// A panic while a lock was held leaves at worst an old value, never an unsafe one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn later(lease: Duration) -> Instant {
    let now = Instant::now();
    // A lease is at most a day; a clock that cannot add one does not exist.
    now.checked_add(lease).unwrap_or(now)
}
