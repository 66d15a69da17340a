//! The record read as bytes, in order of arrival, rather than as events.

use tonic::codegen::Bytes;

use super::{
    Log,
    lane::{Slot, len_u64},
};

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

impl Log {
    /// Kept bytes from `offset` (over all streams, in order of arrival) on: where they really begin,
    /// and at most `limit` of them without a hole. Nothing at the end.
    pub(in crate::exec) fn bytes_from(&mut self, offset: u64, limit: usize) -> (u64, Vec<Bytes>) {
        self.seal();
        let mut pieces = Vec::new();
        let Some(first) = self.first_kept(|lane| lane.first_reaching(offset)) else {
            return (offset.min(self.written.total()), pieces);
        };
        let start = offset.max(first.at.total());
        let (mut position, mut left) = (start, limit);
        let mut next = Some(first);
        while let Some(slot) = next.filter(|slot| left > 0 && slot.at.total() <= position) {
            let skip = usize::try_from(position.saturating_sub(slot.at.total()));
            let skip = skip.unwrap_or(usize::MAX).min(slot.data.len());
            let end = skip.saturating_add(left).min(slot.data.len());
            let piece = slot.data.slice(skip..end);
            left = left.saturating_sub(piece.len());
            position = position.saturating_add(len_u64(piece.len()));
            pieces.push(piece);
            let after = slot.seq.saturating_add(1);
            next = self.first_kept(|lane| lane.first_from(after));
        }
        (start, pieces)
    }

    /// The first bytes and at most `tail_bytes` of the last ones, without a hole, in order of arrival.
    pub(in crate::exec) fn excerpt(&mut self, tail_bytes: u64) -> Excerpt {
        self.seal();
        let total = self.written.total();
        let head_end = len_u64(self.head.len());
        let wanted = head_end.max(total.saturating_sub(tail_bytes));
        let (mut start, mut before) = (total, u64::MAX);
        let mut pieces = Vec::new();
        while start > wanted
            && let Some(slot) = self.last_kept(before)
            && slot.end().total() == start
        {
            let skip = usize::try_from(wanted.saturating_sub(slot.at.total()));
            pieces.push(slot.data.slice(skip.unwrap_or_default()..));
            start = slot.at.total().max(wanted);
            before = slot.seq;
        }
        Excerpt {
            head: self.head.clone(),
            tail: pieces.iter().rev().flatten().copied().collect(),
            dropped: start.saturating_sub(head_end),
        }
    }

    /// The last kept event before this number.
    fn last_kept(&self, seq: u64) -> Option<&Slot> {
        match (self.main.last_before(seq), self.errors.last_before(seq)) {
            (Some(a), Some(b)) => Some(if a.seq > b.seq { a } else { b }),
            (one, other) => one.or(other),
        }
    }
}
