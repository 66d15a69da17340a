//! The pool of throw-away user ids. One is in use by at most one execution; it goes back only when that
//! execution's tree is gone.
//!
//! Every launcher draws from a block of its own, chosen by its pid and pid namespace: the kernel counts
//! processes per user, so two daemons that gave out the same id would take each other's process limit. Within a
//! namespace no two have the same block; for two of different namespaces the chance is 1 in 65,536.

use std::collections::BTreeMap;

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
    /// Each with the number of those that have to give it back.
    used: BTreeMap<u32, u32>,
}

impl Uids {
    /// The block of the launcher with this pid in this pid namespace.
    pub(crate) fn of_launcher(pid: u32, namespace: u64) -> Self {
        // Namespaces have neighbouring numbers, as launchers have neighbouring pids: the product's upper
        // half scatters them.
        let scattered = namespace.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let block = u64::from(pid)
            .wrapping_add(scattered)
            .checked_rem(u64::from(BLOCKS));
        let block = u32::try_from(block.unwrap_or(0)).unwrap_or(0);
        let offset = block.saturating_mul(COUNT);
        Self {
            first: FIRST.saturating_add(offset),
            used: BTreeMap::new(),
        }
    }

    /// Takes the lowest free id; `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let free = self.free()?;
        self.used.insert(free, 1);
        Some(free)
    }

    /// The id that `take` would give, for questions.
    pub(crate) fn peek(&self) -> u32 {
        self.free().unwrap_or(self.first)
    }

    /// Another one has an id that is in use, and will give it back as well.
    pub(crate) fn share(&mut self, uid: u32) {
        if let Some(holders) = self.used.get_mut(&uid) {
            *holders = holders.saturating_add(1);
        }
    }

    /// Gives an id back. It is free when all who had it have.
    pub(crate) fn give_back(&mut self, uid: u32) {
        if let Some(holders) = self.used.get_mut(&uid) {
            *holders = holders.saturating_sub(1);
            if *holders == 0 {
                self.used.remove(&uid);
            }
        }
    }

    fn free(&self) -> Option<u32> {
        let end = self.first.saturating_add(COUNT);
        (self.first..end).find(|uid| !self.used.contains_key(uid))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_id_in_use_is_never_given_twice_and_the_pool_ends() {
        let mut uids = Uids::of_launcher(1, 0);
        let all: BTreeSet<_> = (0..COUNT).map(|_| uids.take().unwrap()).collect();
        assert_eq!(all.len(), COUNT as usize);
        assert_eq!(uids.take(), None);
        uids.give_back(FIRST + COUNT + 7);
        assert_eq!(uids.peek(), FIRST + COUNT + 7);
        assert_eq!(uids.take(), Some(FIRST + COUNT + 7));
    }

    #[test]
    fn an_id_is_free_when_the_last_who_has_it_gives_it_back() {
        for others in 0..3 {
            let mut uids = Uids::of_launcher(1, 0);
            let uid = uids.take().unwrap();
            (0..others).for_each(|_| uids.share(uid));
            for _ in 0..others {
                uids.give_back(uid);
                assert_ne!(uids.peek(), uid);
            }
            uids.give_back(uid);
            uids.give_back(uid);
            uids.share(uid);
            assert_eq!(uids.peek(), uid);
        }
    }

    #[test]
    fn two_launchers_share_no_id_and_no_block_leaves_the_range() {
        let first = |pid| Uids::of_launcher(pid, 0).peek();
        assert!(first(5) + COUNT <= first(6));
        assert!(first(BLOCKS - 1) + COUNT <= 0x7ffe_0000);
        assert_eq!(first(BLOCKS), FIRST);
    }

    /// Containers number their processes alike: the same few pids in neighbouring namespaces.
    #[test]
    fn launchers_of_different_pid_namespaces_rarely_share_a_block() {
        let namespaces = 4_026_531_836..4_026_532_836_u64;
        let launchers = namespaces.flat_map(|namespace| [1, 7, 8, 20].map(|pid| (pid, namespace)));
        let blocks = launchers.map(|(pid, namespace)| Uids::of_launcher(pid, namespace).peek());
        let mut counts = BTreeMap::new();
        for block in blocks {
            assert!(block + COUNT <= 0x7ffe_0000);
            *counts.entry(block).or_insert(0_u32) += 1;
        }
        // 4,000 drawn by chance from 65,536 meet about 120 times.
        assert!(counts.len() > 3_700, "{}", counts.len());
        for namespace in [4_026_531_836, 4_026_531_837, 4_026_533_000] {
            let first = |pid| Uids::of_launcher(pid, namespace).peek();
            assert!(first(5).abs_diff(first(6)) >= COUNT);
        }
    }
}
