//! Ids whose executions were forgotten. A request that names one is late, not new: it must not run a second
//! time because its result is gone.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use super::ExecId;

/// How long an id stays spent: longer than any client asks again.
pub(super) const SPENT_FOR: Duration = Duration::from_secs(600);

/// Ids remembered for a user. A user that spends more within that time loses the memory of its own oldest.
pub(super) const SPENT: usize = 16 * 1024;

/// All spent ids, as fingerprints: what is kept of each is 24 bytes, however long it is.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Keyed anew in each daemon, so that nobody can choose ids that look alike.
    fingerprints: RandomState,
    of_user: BTreeMap<u32, Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    /// Oldest first.
    order: VecDeque<(u64, Instant)>,
    known: HashSet<u64>,
}

impl Spent {
    /// This id names nothing any more, and must name nothing new for a while.
    pub(super) fn add(&mut self, (uid, id): &(u32, ExecId), now: Instant) {
        let fingerprint = self.fingerprints.hash_one(id);
        let ids = self.of_user.entry(*uid).or_default();
        if ids.known.contains(&fingerprint) {
            return;
        }
        if ids.order.len() >= SPENT {
            ids.drop_oldest();
        }
        ids.known.insert(fingerprint);
        ids.order.push_back((fingerprint, now));
    }

    /// Has this id been used up?
    pub(super) fn contains(&self, (uid, id): &(u32, ExecId)) -> bool {
        let ids = self.of_user.get(uid);
        ids.is_some_and(|ids| ids.known.contains(&self.fingerprints.hash_one(id)))
    }

    /// Drops what is old enough.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.of_user.retain(|_, ids| {
            while let Some((_, at)) = ids.order.front()
                && now.saturating_duration_since(*at) >= SPENT_FOR
            {
                ids.drop_oldest();
            }
            !ids.order.is_empty()
        });
    }
}

impl Ids {
    fn drop_oldest(&mut self) {
        if let Some((fingerprint, _)) = self.order.pop_front() {
            self.known.remove(&fingerprint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uid: u32, number: usize) -> (u32, ExecId) {
        (uid, ExecId::parse(&format!("e{number}")).unwrap())
    }

    #[test]
    fn an_id_is_spent_for_its_owner_alone_and_for_a_while() {
        let now = Instant::now();
        let mut spent = Spent::default();
        spent.add(&name(1, 1), now);
        spent.add(&name(1, 1), now + SPENT_FOR);
        assert!(spent.contains(&name(1, 1)));
        assert!(!spent.contains(&name(2, 1)) && !spent.contains(&name(1, 2)));
        spent.forget_old(now + Duration::from_secs(599));
        assert!(spent.contains(&name(1, 1)));
        spent.forget_old(now + SPENT_FOR);
        assert!(!spent.contains(&name(1, 1)) && spent.of_user.is_empty());
    }

    #[test]
    fn a_flood_of_ids_costs_only_its_own_user_the_oldest_and_stays_bounded() {
        let now = Instant::now();
        let mut spent = Spent::default();
        spent.add(&name(2, 0), now);
        for number in 0..SPENT + 100 {
            spent.add(&name(1, number), now);
        }
        assert!(spent.contains(&name(2, 0)));
        for (number, expected) in [(0, false), (99, false), (100, true), (SPENT + 99, true)] {
            assert_eq!(spent.contains(&name(1, number)), expected, "{number}");
        }
        let ids = spent.of_user.get(&1).unwrap();
        assert_eq!((ids.order.len(), ids.known.len()), (SPENT, SPENT));
    }
}
