//! The record of one execution: its output events in two bounded lanes, read by cursors, plus the first
//! bytes of its output. stdout and stderr have budgets of their own, so a flood on one never drops the
//! other; the order of arrival holds over both. Memory is constant whatever a command prints; what is
//! dropped is counted. Pure.
//!
//! A [`Found::Gap`] is always exact about the events it names. A reader that was there knows its place.
//! One that comes back after a number finds it among what is kept, or among the places of the last few
//! thousand dropped events; older places are thinned out, and then its gap begins a little *before* the
//! event it asked for, at the nearest place that is known, and is exact from there.

mod bytes;
mod lane;
mod marks;
mod readers;

use std::sync::Arc;

pub use self::bytes::Excerpt;
pub(super) use self::readers::{Front, Lag, Look, ReaderId};
use self::{
    lane::{Lane, Slot, len_u64},
    readers::Readers,
};
use super::{Event, EventBody, ExitResult, Offsets, OutputStream, StartReport};
use prost::bytes::BytesMut;

/// Bytes kept of stdout (or of the terminal), including bookkeeping.
const MAIN_BYTES: usize = 1536 * 1024;

/// Bytes kept of stderr, including bookkeeping.
const ERROR_BYTES: usize = 512 * 1024;

/// Bytes of output kept per execution for readers, including bookkeeping.
pub const RING_BYTES: usize = MAIN_BYTES + ERROR_BYTES;

/// Most bytes of one output event.
pub(super) const CHUNK: usize = 64 * 1024;

/// Bytes of output kept from the start for the text a model reads: 50,000 characters of up to 4
/// bytes, and room for the control sequences that are taken out.
const HEAD_BYTES: usize = 256 * 1024;

/// Where a reader stands: everything up to number `after` was read, which is position `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    after: u64,
    at: Offsets,
}

/// What a cursor finds.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// The next event.
    Event(Event),
    /// Events from the first to the last number are gone, and that many bytes with them.
    Gap(u64, u64, Offsets),
    /// Nothing yet.
    Pending,
    /// The terminal event was read.
    End,
}

/// The newest output event as long as nobody has seen it: it still grows.
#[derive(Debug)]
struct Open {
    seq: u64,
    stream: OutputStream,
    at: Offsets,
    data: BytesMut,
}

/// The record.
#[derive(Debug)]
pub(super) struct Log {
    started: Option<Event>,
    main: Lane,
    errors: Lane,
    open: Option<Open>,
    /// Number of the newest event.
    last_seq: u64,
    written: Offsets,
    head: Vec<u8>,
    exited: Option<Event>,
    /// Those who follow.
    pub(super) readers: Readers,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            started: None,
            main: Lane::new(MAIN_BYTES),
            errors: Lane::new(ERROR_BYTES),
            open: None,
            last_seq: 0,
            written: Offsets::default(),
            head: Vec::new(),
            exited: None,
            readers: Readers::default(),
        }
    }
}

impl Log {
    /// Records the start. The first event; never dropped.
    pub(super) fn start(&mut self, report: Arc<StartReport>) {
        self.started = Some(self.next(EventBody::Started(report)));
    }

    /// Records output. Empty data is ignored: it would be an event that says nothing. Joins the
    /// newest event when nobody has seen that one yet.
    pub(super) fn push(&mut self, stream: OutputStream, data: BytesMut) {
        if data.is_empty() || self.exited.is_some() {
            return;
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head
            .extend_from_slice(data.get(..room).unwrap_or(&data));
        let at = self.written;
        self.written = at.advanced(stream, len_u64(data.len()));
        if let Some(open) = &mut self.open
            && open.stream == stream
            && open.data.len().saturating_add(data.len()) <= CHUNK
        {
            open.data.unsplit(data);
            return;
        }
        self.seal();
        self.last_seq = self.last_seq.saturating_add(1);
        self.open = Some(Open {
            seq: self.last_seq,
            stream,
            at,
            data,
        });
    }

    /// True when that many bytes of `stream` can be pushed without dropping anything.
    pub(super) fn has_room(&self, stream: OutputStream, length: usize) -> bool {
        let lane = match stream {
            OutputStream::Stderr => &self.errors,
            OutputStream::Stdout | OutputStream::Terminal => &self.main,
        };
        let pending = self.open.as_ref().map_or(0, |open| open.data.len());
        lane.has_room(length, pending)
    }

    /// The newest event no longer grows.
    fn seal(&mut self) {
        let Some(open) = self.open.take() else { return };
        let lane = match open.stream {
            OutputStream::Stderr => &mut self.errors,
            OutputStream::Stdout | OutputStream::Terminal => &mut self.main,
        };
        lane.push(Slot {
            seq: open.seq,
            stream: open.stream,
            at: open.at,
            data: open.data.freeze(),
        });
    }

    /// Records the end. Only the first one counts.
    pub(super) fn finish(&mut self, result: Arc<ExitResult>) {
        if self.exited.is_some() {
            return;
        }
        self.seal();
        self.main.compact();
        self.errors.compact();
        self.head.shrink_to_fit();
        self.exited = Some(self.next(EventBody::Exited(result)));
    }

    fn next(&mut self, body: EventBody) -> Event {
        self.last_seq = self.last_seq.saturating_add(1);
        Event {
            seq: self.last_seq,
            body,
        }
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> Offsets {
        self.written
    }

    /// Bytes no longer held, over all streams.
    pub(super) fn dropped(&self) -> u64 {
        self.main.dropped().saturating_add(self.errors.dropped())
    }

    /// Number of the newest event; 0 before the first.
    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The start, once recorded.
    pub(super) fn start_report(&self) -> Option<&Arc<StartReport>> {
        match &self.started.as_ref()?.body {
            EventBody::Started(report) => Some(report),
            EventBody::Output { .. } | EventBody::Exited(_) => None,
        }
    }

    /// The end, once recorded.
    pub(super) fn result(&self) -> Option<&Arc<ExitResult>> {
        match &self.exited.as_ref()?.body {
            EventBody::Exited(result) => Some(result),
            EventBody::Started(_) | EventBody::Output { .. } => None,
        }
    }

    /// Memory in bytes, nearly.
    pub(super) fn memory(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |open| open.data.capacity());
        self.main
            .memory()
            .saturating_add(self.errors.memory())
            .saturating_add(self.head.capacity())
            .saturating_add(open)
    }

    /// Number of the newest output event, or of the start, or 0.
    fn last_output(&self) -> u64 {
        self.last_seq
            .saturating_sub(u64::from(self.exited.is_some()))
    }

    /// The first kept event, in order of arrival, that `choose` finds in a lane.
    fn first_kept<'s>(&'s self, choose: impl Fn(&'s Lane) -> Option<&'s Slot>) -> Option<&'s Slot> {
        match (choose(&self.main), choose(&self.errors)) {
            (Some(a), Some(b)) => Some(if a.seq < b.seq { a } else { b }),
            (one, other) => one.or(other),
        }
    }

    /// A cursor that has read everything up to `after` (or, where that place is no longer known, up to
    /// the nearest one before), except that the terminal event is always read again: no reader ends
    /// without it.
    pub(super) fn seek(&self, after: u64) -> Cursor {
        let after = after.min(self.last_output());
        let pinned = u64::from(self.started.is_some());
        if after <= pinned {
            return Cursor {
                after,
                at: Offsets::default(),
            };
        }
        let next = after.saturating_add(1);
        let mut known = (pinned.saturating_add(1), Offsets::default());
        if after == self.last_output() {
            known = (next, self.written);
        }
        if let Some(open) = self.open.as_ref().filter(|open| open.seq == next) {
            known = (next, open.at);
        }
        for lane in [&self.main, &self.errors] {
            let kept = lane.last_before(next);
            let kept = kept.map(|slot| (slot.seq.saturating_add(1), slot.end()));
            let same = lane.first_from(next).filter(|slot| slot.seq == next);
            let same = same.map(|slot| (slot.seq, slot.at));
            for place in [kept, same, lane.mark(next)].into_iter().flatten() {
                if place.0 > known.0 {
                    known = place;
                }
            }
        }
        Cursor {
            after: known.0.saturating_sub(1),
            at: known.1,
        }
    }

    /// True when an event after this number has been dropped.
    pub(super) fn has_gap(&self, after: u64) -> bool {
        let pinned = u64::from(self.started.is_some());
        let next = after.max(pinned).saturating_add(1);
        let open = self.open.as_ref().is_some_and(|open| open.seq >= next);
        let kept = [&self.main, &self.errors]
            .iter()
            .fold(u64::from(open), |sum, lane| {
                sum.saturating_add(lane.count_from(next))
            });
        kept < self.last_output().saturating_add(1).saturating_sub(next)
    }

    /// What comes next; moves the cursor over it.
    pub(super) fn read(&mut self, cursor: &mut Cursor) -> Found {
        if let Some(started) = self.started.as_ref().filter(|e| cursor.after < e.seq) {
            cursor.after = started.seq;
            return Found::Event(started.clone());
        }
        let next = cursor.after.saturating_add(1);
        if self.first_kept(|lane| lane.first_from(next)).is_none() {
            self.seal();
        }
        let last_output = self.last_output();
        let Some(slot) = self.first_kept(|lane| lane.first_from(next)) else {
            return match &self.exited {
                // Only an event larger than its lane could be dropped without a younger one there.
                _ if next <= last_output => gap(cursor, (last_output, self.written)),
                Some(event) if cursor.after < event.seq => {
                    cursor.after = event.seq;
                    Found::Event(event.clone())
                }
                Some(_) => Found::End,
                None => Found::Pending,
            };
        };
        if slot.seq > next {
            return gap(cursor, (slot.seq.saturating_sub(1), slot.at));
        }
        *cursor = Cursor {
            after: slot.seq,
            at: slot.end(),
        };
        Found::Event(Event {
            seq: slot.seq,
            body: EventBody::Output {
                stream: slot.stream,
                offset: slot.at.of(slot.stream),
                data: slot.data.clone(),
            },
        })
    }
}

/// Moves the cursor over dropped events, to the last one and the position after it.
fn gap(cursor: &mut Cursor, (last, at): (u64, Offsets)) -> Found {
    let gone = Offsets {
        stdout: at.stdout.saturating_sub(cursor.at.stdout),
        stderr: at.stderr.saturating_sub(cursor.at.stderr),
        terminal: at.terminal.saturating_sub(cursor.at.terminal),
    };
    let first = cursor.after.saturating_add(1);
    *cursor = Cursor { after: last, at };
    Found::Gap(first, last, gone)
}

#[cfg(test)]
mod tests;
