//! The pool of throw-away user ids. One is in use by at most one execution; it goes back only when that
//! execution's tree is gone.
//!
//! Every launcher draws from a block of its own, chosen by its pid: the kernel counts processes per user,
//! so two daemons that gave out the same id would take each other's process limit.

use std::collections::BTreeSet;

/// First id of all blocks. The range up to `0x7ffd_ffff` is assigned to nobody (systemd's "Users, Groups,
/// UIDs and GIDs"): above the containers' ranges, below what breaks programs with signed ids.
pub(crate) const FIRST: u32 = 0x7000_0000;
/// Ids in a block, and so the most executions at once under such an identity.
pub(crate) const COUNT: u32 = 4_000;
/// Blocks.
const BLOCKS: u32 = 65_536;

/// Ids in use.
#[derive(Debug)]
pub(crate) struct Uids {
    first: u32,
    used: BTreeSet<u32>,
}

impl Uids {
    /// The block of the launcher with this pid.
    pub(crate) fn of_launcher(pid: u32) -> Self {
        let offset = pid.checked_rem(BLOCKS).unwrap_or(0).saturating_mul(COUNT);
        Self {
            first: FIRST.saturating_add(offset),
            used: BTreeSet::new(),
        }
    }

    /// Takes the lowest free id; `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let free = self.free()?;
        self.used.insert(free);
        Some(free)
    }

    /// The id that `take` would give, for questions.
    pub(crate) fn peek(&self) -> u32 {
        self.free().unwrap_or(self.first)
    }

    /// Gives an id back.
    pub(crate) fn give_back(&mut self, uid: u32) {
        self.used.remove(&uid);
    }

    fn free(&self) -> Option<u32> {
        let end = self.first.saturating_add(COUNT);
        (self.first..end).find(|uid| !self.used.contains(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_use_is_never_given_twice_and_the_pool_ends() {
        let mut uids = Uids::of_launcher(1);
        let all: BTreeSet<_> = (0..COUNT).map(|_| uids.take().unwrap()).collect();
        assert_eq!(all.len(), COUNT as usize);
        assert_eq!(uids.take(), None);
        uids.give_back(FIRST + COUNT + 7);
        assert_eq!(uids.peek(), FIRST + COUNT + 7);
        assert_eq!(uids.take(), Some(FIRST + COUNT + 7));
    }

    #[test]
    fn two_launchers_share_no_id_and_no_block_leaves_the_range() {
        let first = |pid| Uids::of_launcher(pid).peek();
        assert!(first(5) + COUNT <= first(6));
        assert!(first(BLOCKS - 1) + COUNT <= 0x7ffe_0000);
        assert_eq!(first(BLOCKS), FIRST);
    }
}
