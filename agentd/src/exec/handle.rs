//! One execution as the rest of the daemon holds it: its record, its progress, and a way to ask for
//! its end. Only its driver writes.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Instant, SystemTime},
};

use agentd_sandbox::{
    monitor::ExecKey,
    policy::{Caller, Refusal},
};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tonic::codegen::Bytes;

use super::{
    Excerpt, ExecId, ExecSpec, ExitResult, Labels, Offsets, OutputStream, StartReport,
    lifecycle::Stop,
    log::{Cursor, Found, Log},
};

/// Why a command was never started, so that there is nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotStarted {
    /// The policy refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request does not fit into one message.
    #[error("arguments and environment take {0} bytes, too many; put them into a script")]
    TooLarge(usize),
    /// The daemon is out of file descriptors or memory.
    #[error("{0}")]
    Resources(String),
    /// The launcher is gone.
    #[error("the launcher is gone; restart agentd")]
    LauncherGone,
}

/// Where an execution is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecState {
    /// Being checked and set up.
    Starting,
    /// Running.
    Running,
    /// Over; there is a result.
    Ended,
    /// Never started.
    NotStarted(NotStarted),
}

/// What readers wait for: the state, and the number of the newest event.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    pub(super) state: ExecState,
    pub(super) seq: u64,
}

/// What reaches the driver from outside.
#[derive(Debug)]
pub(super) enum Control {
    Stop(Stop),
    Readers(usize),
}

/// One execution.
#[derive(Debug)]
pub struct Exec {
    id: ExecId,
    key: ExecKey,
    owner: Caller,
    digest: [u8; 32],
    labels: Labels,
    session_id: Option<String>,
    created_at: SystemTime,
    finished: OnceLock<Instant>,
    log: Mutex<Log>,
    progress: watch::Sender<Progress>,
    control: mpsc::UnboundedSender<Control>,
    readers: AtomicUsize,
}

impl Exec {
    pub(super) fn new(
        id: ExecId,
        key: ExecKey,
        spec: &ExecSpec,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Control>) {
        let (control, inbox) = mpsc::unbounded_channel();
        let (progress, _) = watch::channel(Progress {
            state: ExecState::Starting,
            seq: 0,
        });
        let exec = Self {
            id,
            key,
            owner: spec.invocation.caller,
            digest: spec.digest(),
            labels: spec.labels.clone(),
            session_id: spec
                .hook
                .as_ref()
                .map(|hook| hook.0.session_id().to_owned()),
            created_at: SystemTime::now(),
            finished: OnceLock::new(),
            log: Mutex::default(),
            progress,
            control,
            readers: AtomicUsize::new(0),
        };
        (Arc::new(exec), inbox)
    }

    /// Id.
    #[must_use]
    pub fn id(&self) -> &ExecId {
        &self.id
    }

    /// Name towards the launcher; also the order of creation.
    #[must_use]
    pub fn key(&self) -> ExecKey {
        self.key
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> Caller {
        self.owner
    }

    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Id of its session.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Creation time.
    #[must_use]
    pub fn created_at(&self) -> SystemTime {
        self.created_at
    }

    /// When it was over, for the registry's housekeeping.
    pub(super) fn finished_at(&self) -> Option<Instant> {
        self.finished.get().copied()
    }

    /// Where it is now.
    #[must_use]
    pub fn state(&self) -> ExecState {
        self.progress.borrow().state.clone()
    }

    /// Number of the newest event.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.log().last_seq()
    }

    /// The start, once it has happened.
    #[must_use]
    pub fn start_report(&self) -> Option<Arc<StartReport>> {
        self.log().start_report().cloned()
    }

    /// The result, once it is over.
    #[must_use]
    pub fn result(&self) -> Option<Arc<ExitResult>> {
        self.log().result().cloned()
    }

    /// First and last bytes of the output.
    #[must_use]
    pub fn excerpt(&self, tail_bytes: u64) -> Excerpt {
        self.log().excerpt(tail_bytes)
    }

    /// True when a reader that starts after `seq` would begin with a gap.
    #[must_use]
    pub fn is_dropped_after(&self, seq: u64) -> bool {
        let log = self.log();
        log.has_gap(&log.seek(seq))
    }

    /// Waits until it runs or is over.
    pub async fn started(&self) -> Result<(), NotStarted> {
        let mut progress = self.progress.subscribe();
        let settled = progress
            .wait_for(|progress| progress.state != ExecState::Starting)
            .await;
        match settled.map(|progress| progress.state.clone()) {
            Ok(ExecState::NotStarted(why)) => Err(why),
            Ok(ExecState::Starting | ExecState::Running | ExecState::Ended) => Ok(()),
            // The sender lives in `self`.
            Err(_) => Err(NotStarted::LauncherGone),
        }
    }

    /// Waits until it is over. A command that never started is over, without a result.
    pub async fn ended(&self) {
        let mut progress = self.progress.subscribe();
        // An error means that the sender is gone; it lives in `self`.
        drop(
            progress
                .wait_for(|p| matches!(p.state, ExecState::Ended | ExecState::NotStarted(_)))
                .await,
        );
    }

    /// Asks for its end. Without effect when it is over.
    pub(super) fn stop(&self, stop: Stop) {
        // An error means that the driver is gone, hence the command too.
        drop(self.control.send(Control::Stop(stop)));
    }

    /// Counts the holder as somebody who cares about the command, until dropped.
    #[must_use]
    pub fn presence(self: &Arc<Self>) -> Presence {
        let before = self.readers.fetch_add(1, Ordering::AcqRel);
        self.tell_readers(before.saturating_add(1));
        Presence(Arc::clone(self))
    }

    pub(super) fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// Somebody reads it, or waits for it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.readers() > 0
    }

    fn tell_readers(&self, count: usize) {
        drop(self.control.send(Control::Readers(count)));
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn seek(&self, after: u64) -> Cursor {
        self.log().seek(after)
    }

    pub(super) fn read(&self, cursor: &mut Cursor) -> Found {
        self.log().read(cursor)
    }

    pub(super) fn written(&self) -> Offsets {
        self.log().written()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.log().dropped()
    }

    pub(super) fn memory(&self) -> usize {
        self.log().memory()
    }

    pub(super) fn record_start(&self, report: StartReport) {
        self.log().start(Arc::new(report));
        self.announce(ExecState::Running);
    }

    pub(super) fn record_output(&self, stream: OutputStream, data: Bytes) {
        self.log().push(stream, data);
        let seq = self.last_seq();
        self.progress.send_modify(|progress| progress.seq = seq);
    }

    pub(super) fn record_end(&self, result: ExitResult) {
        self.log().finish(Arc::new(result));
        self.finished.get_or_init(Instant::now);
        self.announce(ExecState::Ended);
    }

    pub(super) fn record_not_started(&self, why: NotStarted) {
        self.finished.get_or_init(Instant::now);
        self.announce(ExecState::NotStarted(why));
    }

    fn announce(&self, state: ExecState) {
        let seq = self.last_seq();
        self.progress
            .send_modify(|progress| *progress = Progress { state, seq });
    }

    /// A panic while the lock was held leaves a record that is at worst incomplete, never unsafe.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who cares about a command. While there is one, the command is not ended for lack of readers.
#[derive(Debug)]
pub struct Presence(Arc<Exec>);

impl Drop for Presence {
    fn drop(&mut self) {
        let before = self.0.readers.fetch_sub(1, Ordering::AcqRel);
        self.0.tell_readers(before.saturating_sub(1));
    }
}
