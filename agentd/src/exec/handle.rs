//! One execution as the rest of the daemon holds it: its record, its progress, and a way to ask for
//! its end. Only its driver writes.

mod presence;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Instant, SystemTime},
};

use agentd_sandbox::{
    monitor::{ExecKey, SignalScope},
    policy::{Caller, TerminalSize},
};
use tokio::sync::{Notify, mpsc, watch};
use tonic::codegen::Bytes;

pub use presence::Presence;

use super::{
    Excerpt, ExecId, ExecSpec, ExitResult, Labels, Offsets, StartReport, Stats, Stdin, Tuning,
    disk::Disk,
    kept::{KeptFile, Slot},
    lifecycle::Stop,
    log::{Cursor, Found, Front, Log, Look, ReaderId},
    progress::{Attachment, Control, ExecState, NotStarted, Progress},
};

/// One execution.
#[derive(Debug)]
pub struct Exec {
    id: ExecId,
    key: ExecKey,
    owner: Caller,
    digest: [u8; 32],
    labels: Labels,
    session: Option<String>,
    attachment: Attachment,
    tuning: Tuning,
    stats: Arc<Stats>,
    disk: Disk,
    created_at: SystemTime,
    finished: OnceLock<Instant>,
    log: Mutex<Log>,
    progress: watch::Sender<Progress>,
    control: mpsc::UnboundedSender<Control>,
    readers: AtomicUsize,
    /// Somebody has cared about it at some time.
    was_read: AtomicBool,
    stdin: OnceLock<Stdin>,
    kept: Slot,
    /// A reader has read something.
    read_on: Notify,
}

impl Exec {
    pub(super) fn new(
        (id, key): (ExecId, ExecKey),
        spec: &ExecSpec,
        (tuning, stats, disk): (Tuning, Arc<Stats>, Disk),
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Control>) {
        let (control, inbox) = mpsc::unbounded_channel();
        let (progress, _) = watch::channel(Progress {
            state: ExecState::Starting,
        });
        let exec = Self {
            id,
            key,
            owner: spec.invocation.caller,
            digest: spec.digest(),
            labels: spec.labels.clone(),
            session: spec
                .hook
                .as_ref()
                .map(|hook| hook.0.session_id().to_owned()),
            attachment: spec.attachment(),
            tuning,
            stats,
            disk,
            created_at: SystemTime::now(),
            finished: OnceLock::new(),
            log: Mutex::default(),
            progress,
            control,
            readers: AtomicUsize::new(0),
            was_read: AtomicBool::new(false),
            stdin: OnceLock::new(),
            kept: Slot::default(),
            read_on: Notify::new(),
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

    /// Id of its session; `None` for a command of its own.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// What its request gave it beside output.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// Times that readers and streams go by.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// The threads that work on its output file.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Counts a reader of its that was dropped because it took nothing for too long.
    pub fn count_slow_reader(&self) {
        Stats::add(&self.stats.slow_readers, 1);
    }

    /// Its standard input, once it runs with one.
    #[must_use]
    pub fn stdin(&self) -> Option<&Stdin> {
        self.stdin.get()
    }

    pub(super) fn set_stdin(&self, stdin: Stdin) {
        self.stdin.get_or_init(|| stdin);
    }

    /// The file that keeps its output, while something is in it.
    pub(super) fn kept(&self) -> Option<Arc<KeptFile>> {
        self.kept.get()
    }

    pub(super) fn set_kept(&self, file: &Arc<KeptFile>) {
        self.kept.set(file);
    }

    /// Closes the file that keeps its output. What is in the record can still be read.
    pub fn let_go_of_output(&self) {
        self.kept.let_go();
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
        self.log().has_gap(seq)
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

    /// Sends a signal. Without effect when it is over.
    pub fn request_signal(&self, signal: i32, scope: SignalScope) {
        drop(self.control.send(Control::Signal(signal, scope)));
    }

    /// Sets the size of its terminal. Without effect when it has none, or is over.
    pub fn request_resize(&self, size: TerminalSize) {
        drop(self.control.send(Control::Resize(size)));
    }

    pub(super) fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// The same; `None` before the first one.
    pub(super) fn readers_so_far(&self) -> Option<usize> {
        let was_read = self.was_read.load(Ordering::Acquire);
        was_read.then(|| self.readers())
    }

    /// Somebody reads it, or waits for it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.readers() > 0
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// A cursor of a reader who is waited for a little when output comes too fast.
    pub(super) fn join(&self, after: u64) -> (Cursor, ReaderId) {
        let mut log = self.log();
        let cursor = log.seek(after);
        let id = log.readers.join(cursor);
        (cursor, id)
    }

    pub(super) fn leave(&self, reader: ReaderId) {
        self.log().readers.leave(reader);
        self.read_on.notify_one();
    }

    pub(super) fn read(&self, cursor: &mut Cursor, reader: ReaderId) -> Found {
        let mut log = self.log();
        let found = log.read(cursor);
        log.readers.moved(reader, *cursor, &found);
        drop(log);
        self.read_on.notify_one();
        found
    }

    /// How the readers are doing.
    pub(super) fn look_at_readers(&self) -> Look {
        let mut log = self.log();
        let front = front(&log);
        log.readers.look(front)
    }

    /// Waiting for the readers was in vain.
    pub(super) fn give_up_on_readers(&self) {
        let mut log = self.log();
        let front = front(&log);
        log.readers.give_up(front);
    }

    /// Waits until a reader has read something.
    pub(super) async fn read_on(&self) {
        self.read_on.notified().await;
    }

    /// What the record holds, for whoever needs several answers at once.
    pub(super) fn with_log<T>(&self, ask: impl FnOnce(&mut Log) -> T) -> T {
        ask(&mut self.log())
    }

    pub(super) fn bytes_from(&self, offset: u64, limit: usize) -> (u64, Vec<Bytes>) {
        self.log().bytes_from(offset, limit)
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

    /// Tells the readers that something was added to the record.
    pub(super) fn announce_output(&self) {
        self.progress.send_modify(|_| {});
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
        if let Some(stdin) = self.stdin.get()
            && matches!(state, ExecState::Ended)
        {
            stdin.end();
        }
        self.progress
            .send_modify(|progress| *progress = Progress { state });
    }

    /// A panic while the lock was held leaves a record that is at worst incomplete, never unsafe.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn front(log: &Log) -> Front {
    Front {
        bytes: log.written().total(),
        seq: log.last_seq(),
    }
}
