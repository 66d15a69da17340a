//! The file that keeps the whole output of a command whose output no longer fits into the record.
//!
//! Nothing is written while everything fits. When the record is about to drop something, everything from
//! the first byte on goes into the file, in order of arrival. Writing happens on threads of its own, one
//! piece of work at a time. A disk that is full, broken or too slow costs the rest of the file and never
//! the command.

mod slot;

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::{sync::Notify, task::JoinHandle};
use tonic::codegen::Bytes;

use super::{
    Event, EventBody, OutputFile, OutputStream,
    disk::Disk,
    log::{Cursor, Found, Log},
    room::OutputRoom,
};

pub(super) use slot::Slot;

/// Most bytes that wait to be written; beyond it the command's output is left in its pipes.
const WAITING: usize = 3 * 1024 * 1024;

/// Why there is no more in a file.
const FULL: &str = "this session's room for kept output is used up; redirect output to files of its own, or open a new session";

/// The file as readers see it.
#[derive(Debug)]
pub(super) struct KeptFile {
    file: File,
    /// Bytes in it.
    bytes: AtomicU64,
    /// Bytes that will be in it.
    promised: AtomicU64,
    /// Either has changed.
    changed: Notify,
}

impl KeptFile {
    /// Bytes in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Bytes that are in it or on their way.
    pub(super) fn promised(&self) -> u64 {
        self.promised.load(Ordering::Acquire)
    }

    /// Waits for the next change.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Reads at most `limit` bytes at `offset`. Blocks.
    pub(super) fn read_at(&self, offset: u64, limit: usize) -> io::Result<Vec<u8>> {
        let left = self.bytes().saturating_sub(offset);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(limit);
        let mut buffer = vec![0; wanted];
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }
}

/// The writing side.
#[derive(Debug)]
pub(super) struct Keeper {
    kept: Arc<KeptFile>,
    path: String,
    cap: u64,
    room: OutputRoom,
    /// The room was used up.
    is_cut: bool,
    disk: Disk,
    /// Where in the record it reads; `None` while everything fits there.
    cursor: Option<Cursor>,
    queue: Vec<Bytes>,
    queued: usize,
    work: Option<(Instant, JoinHandle<io::Result<()>>)>,
    /// Why nothing more is written.
    broken: Option<String>,
}

impl Keeper {
    /// Will write at most `cap` bytes into `file`, which commands know as `path`.
    pub(super) fn new(file: File, path: String, cap: u64) -> Self {
        Self {
            kept: Arc::new(KeptFile {
                file,
                bytes: AtomicU64::new(0),
                promised: AtomicU64::new(0),
                changed: Notify::new(),
            }),
            path,
            cap,
            room: OutputRoom::default(),
            is_cut: false,
            disk: Disk::default(),
            cursor: None,
            queue: Vec::new(),
            queued: 0,
            work: None,
            broken: None,
        }
    }

    /// Works on these threads.
    pub(super) fn on(self, disk: &Disk) -> Self {
        Self {
            disk: disk.clone(),
            ..self
        }
    }

    /// Takes what it writes out of this room.
    pub(super) fn within(self, room: OutputRoom) -> Self {
        Self { room, ..self }
    }

    /// The file, for readers.
    pub(super) fn kept(&self) -> &Arc<KeptFile> {
        &self.kept
    }

    /// True once it writes.
    pub(super) fn has_begun(&self) -> bool {
        self.cursor.is_some()
    }

    /// The record is about to take that many bytes of `stream`: takes what it might drop for them.
    pub(super) fn before_push(&mut self, log: &mut Log, stream: OutputStream, length: usize) {
        if self.cursor.is_none() && !log.has_room(stream, length) {
            self.cursor = Some(log.seek(0));
        }
        self.follow(log);
    }

    /// Takes everything that is in the record, once it has begun.
    pub(super) fn follow(&mut self, log: &mut Log) {
        while let Some(cursor) = &mut self.cursor {
            match log.read(cursor) {
                Found::Event(event) => self.take(event),
                Found::Gap(..) => {
                    self.fail("some of it was dropped before it was taken".to_owned());
                }
                Found::Pending | Found::End => break,
            }
        }
    }

    /// True when the command must wait for the disk.
    pub(super) fn is_full(&self) -> bool {
        self.broken.is_none() && self.queued > WAITING
    }

    fn take(&mut self, event: Event) {
        let EventBody::Output { data, .. } = event.body else {
            return;
        };
        if self.broken.is_some() || self.is_cut {
            return;
        }
        let below_cap = self.cap.saturating_sub(self.kept.promised());
        let wanted = u64_of(data.len()).min(below_cap);
        let length = self.room.take(wanted);
        self.is_cut = length < wanted;
        let data = data.slice(
            ..usize::try_from(length)
                .unwrap_or(data.len())
                .min(data.len()),
        );
        if data.is_empty() {
            return;
        }
        self.kept.promised.fetch_add(length, Ordering::AcqRel);
        self.queued = self.queued.saturating_add(data.len());
        self.queue.push(data);
        self.start();
    }

    /// Waits until a piece of work is done, or took too long; for ever when there is none. Dropping the
    /// future loses nothing.
    pub(super) async fn work(&mut self) {
        let Some((since, work)) = &mut self.work else {
            return std::future::pending().await;
        };
        let until = since.checked_add(self.disk.patience()).unwrap_or(*since);
        let outcome = tokio::time::timeout_at(until.into(), &mut *work).await;
        match outcome {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => self.fail(error.to_string()),
            Ok(Err(error)) => self.fail(error.to_string()),
            Err(_) => {
                // Where it hangs it goes on, and nobody waits for it; what has not begun never does.
                work.abort();
                self.fail("the disk is too slow".to_owned());
            }
        }
        self.work = None;
        self.kept.changed.notify_waiters();
        self.start();
    }

    fn start(&mut self) {
        if self.work.is_some() || self.queue.is_empty() {
            return;
        }
        let pieces = std::mem::take(&mut self.queue);
        self.queued = 0;
        let kept = Arc::clone(&self.kept);
        let disk = self.disk.clone();
        let work = tokio::spawn(async move { disk.run(move || write(&kept, &pieces)).await? });
        self.work = Some((Instant::now(), work));
    }

    fn fail(&mut self, why: String) {
        tracing::warn!(path = %self.path, %why, "cannot keep a command's output");
        self.broken.get_or_insert(why);
        self.queue.clear();
        self.queued = 0;
        self.kept
            .promised
            .store(self.kept.bytes(), Ordering::Release);
    }

    /// Everything is in the record, which has `total` bytes: writes the rest. `None` when the record
    /// always held everything. Beside the file a remark when it could not be written.
    pub(super) async fn finish(mut self, total: u64) -> Option<(OutputFile, Option<String>)> {
        self.cursor?;
        while self.work.is_some() {
            self.work().await;
        }
        let bytes = self.kept.bytes();
        let why = self.broken.or_else(|| self.is_cut.then(|| FULL.to_owned()));
        let note = why.map(|why| {
            format!("output store: only the first {bytes} bytes of the output were kept: {why}")
        });
        let file = OutputFile {
            path: self.path,
            bytes,
            missing: total.saturating_sub(bytes),
        };
        Some((file, note))
    }
}

fn u64_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Appends. What was written before an error counts.
fn write(kept: &KeptFile, pieces: &[Bytes]) -> io::Result<()> {
    for piece in pieces {
        let mut rest: &[u8] = piece;
        while !rest.is_empty() {
            let length = match kept.file.write_at(rest, kept.bytes()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
            };
            rest = rest.get(length..).unwrap_or_default();
            kept.bytes.fetch_add(u64_of(length), Ordering::AcqRel);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
