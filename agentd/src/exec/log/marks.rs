//! Where dropped events were, so that a reader that comes back after one of them learns how many bytes
//! it lost. Bounded: the youngest half is complete, older ones are thinned out again and again. Pure.

use std::collections::VecDeque;

use crate::exec::Offsets;

/// Most places.
const MOST: usize = 4096;

/// The places, by the numbers of the events.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<(u64, Offsets)>);

impl Marks {
    /// Remembers the position before event `seq`, which is larger than all before.
    pub(super) fn push(&mut self, seq: u64, at: Offsets) {
        if self.0.len() >= MOST {
            self.thin();
        }
        self.0.push_back((seq, at));
    }

    /// Forgets every second place of the older half.
    fn thin(&mut self) {
        let young = self.0.split_off(MOST / 2);
        let mut keep = false;
        self.0.retain(|_| {
            keep = !keep;
            keep
        });
        self.0.extend(young);
    }

    /// The last place that is not after event `seq`.
    pub(super) fn at_or_before(&self, seq: u64) -> Option<(u64, Offsets)> {
        let index = self.0.partition_point(|(mark, _)| *mark <= seq);
        self.0.get(index.checked_sub(1)?).copied()
    }

    /// Memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0
            .capacity()
            .saturating_mul(size_of::<(u64, Offsets)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_places_are_exact_old_ones_are_near_and_memory_is_bounded() {
        let mut marks = Marks::default();
        let place = |seq: u64| Offsets {
            stdout: seq * 3,
            ..Offsets::default()
        };
        assert_eq!(marks.at_or_before(7), None);
        for seq in 1..=1_000_000 {
            marks.push(seq, place(seq));
        }
        assert!(marks.memory() <= 2 * MOST * size_of::<(u64, Offsets)>());
        for seq in 1_000_000 - 2000..=1_000_000 {
            assert_eq!(marks.at_or_before(seq), Some((seq, place(seq))));
        }
        for seq in [1, 77, 500_000, 990_000] {
            let (near, at) = marks.at_or_before(seq).unwrap();
            assert!(near <= seq);
            assert_eq!(at, place(near), "a place is never wrong, only early");
        }
    }
}
