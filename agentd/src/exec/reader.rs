//! A reader of an execution: a cursor that waits. It can be as slow as it likes; it holds up nobody.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{
    Event, Exec, ExecState, Offsets, Presence,
    log::{Cursor, Found, ReaderId},
    progress::Progress,
};

/// What a reader gets.
#[derive(Debug, Clone)]
pub enum ReadItem {
    /// An event.
    Event(Event),
    /// Events this reader can no longer have.
    Gap {
        /// First lost number.
        from_seq: u64,
        /// Last lost number.
        to_seq: u64,
        /// Bytes lost with them.
        lost: Offsets,
    },
    /// Nothing happened for a while.
    Heartbeat {
        /// Bytes seen so far.
        seen: Offsets,
        /// Time since the start.
        running: Duration,
    },
}

impl ReadItem {
    /// Number of the last event that this tells of; `None` for a sign of life.
    #[must_use]
    pub fn last_seq(&self) -> Option<u64> {
        match self {
            Self::Event(event) => Some(event.seq),
            Self::Gap { to_seq, .. } => Some(*to_seq),
            Self::Heartbeat { .. } => None,
        }
    }
}

/// A reader. Its presence keeps the command from being ended for lack of readers.
#[derive(Debug)]
pub struct Reader {
    exec: Arc<Exec>,
    cursor: Cursor,
    id: ReaderId,
    progress: watch::Receiver<Progress>,
    _presence: Presence,
}

impl Reader {
    /// Reads everything after event `after`.
    #[must_use]
    pub fn new(exec: &Arc<Exec>, after: u64) -> Self {
        let (cursor, id) = exec.join(after);
        Self {
            cursor,
            id,
            progress: exec.progress(),
            _presence: exec.presence(),
            exec: Arc::clone(exec),
        }
    }

    /// The execution.
    #[must_use]
    pub fn exec(&self) -> &Arc<Exec> {
        &self.exec
    }

    /// The next item; `None` after the terminal event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ReadItem> {
        let heartbeat = self.exec.tuning().heartbeat;
        loop {
            // ORDER: mark as seen before looking, so that what comes in between wakes us again.
            let never_started = matches!(
                self.progress.borrow_and_update().state,
                ExecState::NotStarted(_)
            );
            match self.exec.read(&mut self.cursor, self.id) {
                Found::Event(event) => return Some(ReadItem::Event(event)),
                Found::Gap(from_seq, to_seq, lost) => {
                    return Some(ReadItem::Gap {
                        from_seq,
                        to_seq,
                        lost,
                    });
                }
                Found::End => return None,
                Found::Pending if never_started => return None,
                Found::Pending => {}
            }
            match tokio::time::timeout(heartbeat, self.progress.changed()).await {
                Ok(Ok(())) => {}
                // The sender lives in `self.exec`.
                Ok(Err(_)) => return None,
                Err(_) => return Some(self.heartbeat()),
            }
        }
    }

    fn heartbeat(&self) -> ReadItem {
        let started = self.exec.start_report().map(|report| report.at);
        let running = started.and_then(|at| SystemTime::now().duration_since(at).ok());
        ReadItem::Heartbeat {
            seen: self.exec.written(),
            running: running.unwrap_or_default(),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.exec.leave(self.id);
    }
}
