//! A reader of an execution: a cursor that waits. It can be as slow as it likes; it holds up nobody.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{
    Event, Exec, ExecState, Offsets, Presence,
    handle::Progress,
    log::{Cursor, Found},
};

/// Silence on a stream after which a sign of life is sent, so that a client can tell a quiet command
/// from a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

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

/// A reader. Its presence keeps the command from being ended for lack of readers.
#[derive(Debug)]
pub struct Reader {
    exec: Arc<Exec>,
    cursor: Cursor,
    progress: watch::Receiver<Progress>,
    _presence: Presence,
}

impl Reader {
    /// Reads everything after event `after`.
    #[must_use]
    pub fn new(exec: &Arc<Exec>, after: u64) -> Self {
        Self {
            cursor: exec.seek(after),
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
        loop {
            // ORDER: mark as seen before looking, so that what comes in between wakes us again.
            let never_started = matches!(
                self.progress.borrow_and_update().state,
                ExecState::NotStarted(_)
            );
            match self.exec.read(&mut self.cursor) {
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
            match tokio::time::timeout(HEARTBEAT, self.progress.changed()).await {
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
