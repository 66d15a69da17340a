//! One budget of the record: the output events that are kept, oldest first, and the places of some
//! that were dropped. Pure.

use std::collections::VecDeque;

use tonic::codegen::Bytes;

use super::marks::Marks;
use crate::exec::{Offsets, OutputStream};

/// What an output event costs beside its bytes, so that a flood of tiny writes stays bounded too.
pub(super) const EVENT_OVERHEAD: usize = 128;

/// Below this many bytes what is kept is worth copying together at the end.
const COMPACT_BELOW: usize = 256 * 1024;

/// A kept output event.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Number.
    pub seq: u64,
    /// Stream.
    pub stream: OutputStream,
    /// Position in all streams before it.
    pub at: Offsets,
    /// Bytes.
    pub data: Bytes,
}

impl Slot {
    /// Position in all streams after it.
    pub(super) fn end(&self) -> Offsets {
        self.at.advanced(self.stream, len_u64(self.data.len()))
    }
}

/// The lane.
#[derive(Debug)]
pub(super) struct Lane {
    slots: VecDeque<Slot>,
    budget: usize,
    cost: usize,
    dropped: u64,
    marks: Marks,
}

impl Lane {
    /// An empty one that may cost that much.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            slots: VecDeque::new(),
            budget,
            cost: 0,
            dropped: 0,
            marks: Marks::default(),
        }
    }

    /// Keeps an event, younger than all others, and drops old ones over the budget.
    pub(super) fn push(&mut self, slot: Slot) {
        self.cost = self.cost.saturating_add(cost_of(slot.data.len()));
        self.slots.push_back(slot);
        while self.cost > self.budget {
            let Some(oldest) = self.slots.pop_front() else {
                break;
            };
            self.cost = self.cost.saturating_sub(cost_of(oldest.data.len()));
            self.dropped = self.dropped.saturating_add(len_u64(oldest.data.len()));
            self.marks.push(oldest.seq, oldest.at);
        }
    }

    /// True when an event of that many bytes and what is `pending` fit without dropping anything.
    pub(super) fn has_room(&self, length: usize, pending: usize) -> bool {
        let cost = cost_of(length).saturating_add(cost_of(pending));
        self.cost.saturating_add(cost) <= self.budget
    }

    /// The first kept event whose number is `seq` or larger.
    pub(super) fn first_from(&self, seq: u64) -> Option<&Slot> {
        self.slots
            .get(self.slots.partition_point(|slot| slot.seq < seq))
    }

    /// The last kept event whose number is smaller than `seq`.
    pub(super) fn last_before(&self, seq: u64) -> Option<&Slot> {
        let index = self.slots.partition_point(|slot| slot.seq < seq);
        self.slots.get(index.checked_sub(1)?)
    }

    /// The first kept event with bytes at or after this offset over all streams.
    pub(super) fn first_reaching(&self, total: u64) -> Option<&Slot> {
        self.slots.get(
            self.slots
                .partition_point(|slot| slot.end().total() <= total),
        )
    }

    /// Number of kept events whose number is `seq` or larger.
    pub(super) fn count_from(&self, seq: u64) -> u64 {
        let before = self.slots.partition_point(|slot| slot.seq < seq);
        len_u64(self.slots.len().saturating_sub(before))
    }

    /// The known place of a dropped event closest before `seq`, or of that event itself.
    pub(super) fn mark(&self, seq: u64) -> Option<(u64, Offsets)> {
        self.marks.at_or_before(seq)
    }

    /// Bytes dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Memory in bytes, nearly.
    pub(super) fn memory(&self) -> usize {
        self.cost.saturating_add(self.marks.memory())
    }

    /// Nothing comes any more: gives back what small events hold of the blocks they were read into.
    pub(super) fn compact(&mut self) {
        let bytes = self
            .slots
            .iter()
            .fold(0_usize, |sum, slot| sum.saturating_add(slot.data.len()));
        if bytes < COMPACT_BELOW {
            let mut all = Vec::with_capacity(bytes);
            for slot in &self.slots {
                all.extend_from_slice(&slot.data);
            }
            let mut rest = Bytes::from(all);
            for slot in &mut self.slots {
                slot.data = rest.split_to(slot.data.len().min(rest.len()));
            }
        }
        self.slots.shrink_to_fit();
    }
}

/// What an event of that many bytes costs.
fn cost_of(length: usize) -> usize {
    if length == 0 {
        return 0;
    }
    length.saturating_add(EVENT_OVERHEAD)
}

/// A length as a number of bytes.
pub(super) fn len_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
