//! The record of one execution: a bounded ring of events, read by cursors, plus the first bytes of its
//! output. Memory is constant whatever a command prints; what is dropped is counted. Pure.

use std::{collections::VecDeque, sync::Arc};

use tonic::codegen::Bytes;

use super::{Event, EventBody, ExitResult, Offsets, OutputStream, StartReport};

/// Bytes of output kept per execution for readers, including bookkeeping.
pub const RING_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of output kept from the start for the text a model reads: 50,000 characters of up to 4
/// bytes, and room for the control sequences that are taken out.
const HEAD_BYTES: usize = 256 * 1024;

/// What an output event costs beside its bytes, so that a flood of tiny writes stays bounded too.
const EVENT_OVERHEAD: usize = 128;

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Everything up to this number was read.
    after: u64,
    /// The position in the streams there; `None` when a reader came back after a number whose place is
    /// no longer known.
    at: Option<Offsets>,
}

/// What a cursor finds.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// The next event.
    Event(Event),
    /// Events from the first to the last number are gone, and that many bytes with them (0 of each
    /// when the reader's place was no longer known).
    Gap(u64, u64, Offsets),
    /// Nothing yet.
    Pending,
    /// The terminal event was read.
    End,
}

/// The first and the last bytes of the interleaved output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// First bytes.
    pub head: Vec<u8>,
    /// Last bytes.
    pub tail: Vec<u8>,
    /// Bytes between them; 0: the two are contiguous.
    pub dropped: u64,
}

/// The record.
#[derive(Debug, Default)]
pub(super) struct Log {
    started: Option<Event>,
    ring: VecDeque<(Bytes, OutputStream)>,
    /// Cost of `ring` in bytes.
    cost: usize,
    /// Number of the newest event.
    last_seq: u64,
    /// Position before the first event of `ring`.
    evicted: Offsets,
    written: Offsets,
    head: Vec<u8>,
    exited: Option<Event>,
}

impl Log {
    /// Records the start. The first event; never dropped.
    pub(super) fn start(&mut self, report: Arc<StartReport>) {
        self.started = Some(self.next(EventBody::Started(report)));
    }

    /// Records output. Empty data is ignored: it would be an event that says nothing.
    pub(super) fn push(&mut self, stream: OutputStream, data: Bytes) {
        if data.is_empty() || self.exited.is_some() {
            return;
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head
            .extend_from_slice(data.get(..room).unwrap_or(&data));
        self.written = self.written.advanced(stream, len_u64(&data));
        self.last_seq = self.last_seq.saturating_add(1);
        self.cost = self.cost.saturating_add(cost_of(&data));
        self.ring.push_back((data, stream));
        while self.cost > RING_BYTES {
            let Some((oldest, stream)) = self.ring.pop_front() else {
                break;
            };
            self.cost = self.cost.saturating_sub(cost_of(&oldest));
            self.evicted = self.evicted.advanced(stream, len_u64(&oldest));
        }
    }

    /// Records the end. Only the first one counts.
    pub(super) fn finish(&mut self, result: Arc<ExitResult>) {
        if self.exited.is_none() {
            self.exited = Some(self.next(EventBody::Exited(result)));
        }
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

    /// Bytes no longer held, over both streams.
    pub(super) fn dropped(&self) -> u64 {
        self.evicted.total()
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

    /// Approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.cost.saturating_add(self.head.capacity())
    }

    /// Number of the first event in the ring (or of the next one, when it is empty).
    fn first_in_ring(&self) -> u64 {
        let newest_output = self
            .last_seq
            .saturating_sub(u64::from(self.exited.is_some()));
        newest_output
            .saturating_sub(usize_u64(self.ring.len()))
            .saturating_add(1)
    }

    /// A cursor that has read everything up to `after`, except that the terminal event is always read
    /// again: no reader ends without it.
    pub(super) fn seek(&self, after: u64) -> Cursor {
        let last = self
            .last_seq
            .saturating_sub(u64::from(self.exited.is_some()));
        let after = after.min(last);
        let pinned = u64::from(self.started.is_some());
        let first = self.first_in_ring();
        let at = if after <= pinned {
            Some(Offsets::default())
        } else if after.saturating_add(1) >= first {
            let read = after.saturating_add(1).saturating_sub(first);
            let read = usize::try_from(read).unwrap_or(usize::MAX);
            Some(position_after(self.evicted, self.ring.iter().take(read)))
        } else {
            None
        };
        Cursor { after, at }
    }

    /// True when events after the cursor have been dropped.
    pub(super) fn has_gap(&self, cursor: &Cursor) -> bool {
        let pinned = u64::from(self.started.is_some());
        cursor.after.max(pinned).saturating_add(1) < self.first_in_ring()
    }

    /// What comes next; moves the cursor over it.
    pub(super) fn read(&self, cursor: &mut Cursor) -> Found {
        if let Some(started) = self.started.as_ref().filter(|e| cursor.after < e.seq) {
            cursor.after = started.seq;
            return Found::Event(started.clone());
        }
        let next = cursor.after.saturating_add(1);
        let first = self.first_in_ring();
        if next < first {
            let known = cursor.at.unwrap_or(self.evicted);
            let lost = Offsets {
                stdout: self.evicted.stdout.saturating_sub(known.stdout),
                stderr: self.evicted.stderr.saturating_sub(known.stderr),
                terminal: self.evicted.terminal.saturating_sub(known.terminal),
            };
            *cursor = Cursor {
                after: first.saturating_sub(1),
                at: Some(self.evicted),
            };
            return Found::Gap(next, cursor.after, lost);
        }
        let index = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        if let Some((data, stream)) = self.ring.get(index) {
            return self.output(cursor, data, *stream);
        }
        match &self.exited {
            Some(event) if cursor.after < event.seq => {
                cursor.after = event.seq;
                Found::Event(event.clone())
            }
            Some(_) => Found::End,
            None => Found::Pending,
        }
    }

    fn output(&self, cursor: &mut Cursor, data: &Bytes, stream: OutputStream) -> Found {
        // Unknown only for a reader that came back to a dropped place, and then the gap came first.
        let at = cursor.at.unwrap_or(self.evicted);
        cursor.after = cursor.after.saturating_add(1);
        cursor.at = Some(at.advanced(stream, len_u64(data)));
        Found::Event(Event {
            seq: cursor.after,
            body: EventBody::Output {
                stream,
                offset: at.of(stream),
                data: data.clone(),
            },
        })
    }

    /// The first bytes and at most `tail_bytes` of the last ones, in order of arrival.
    pub(super) fn excerpt(&self, tail_bytes: u64) -> Excerpt {
        let total = self.written.total();
        let head_end = usize_u64(self.head.len());
        let start = head_end
            .max(self.evicted.total())
            .max(total.saturating_sub(tail_bytes));
        let mut tail = Vec::new();
        let mut position = self.evicted.total();
        for (data, _) in &self.ring {
            let skip = usize::try_from(start.saturating_sub(position)).unwrap_or(usize::MAX);
            tail.extend_from_slice(data.get(skip..).unwrap_or_default());
            position = position.saturating_add(len_u64(data));
        }
        Excerpt {
            head: self.head.clone(),
            tail,
            dropped: start.saturating_sub(head_end),
        }
    }
}

fn position_after<'r>(
    from: Offsets,
    events: impl Iterator<Item = &'r (Bytes, OutputStream)>,
) -> Offsets {
    events.fold(from, |at, (data, stream)| {
        at.advanced(*stream, len_u64(data))
    })
}

fn cost_of(data: &Bytes) -> usize {
    data.len().saturating_add(EVENT_OVERHEAD)
}

fn len_u64(data: &Bytes) -> u64 {
    usize_u64(data.len())
}

fn usize_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
