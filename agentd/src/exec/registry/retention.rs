//! Which finished executions are forgotten, user by user, so that nobody's commands cost somebody else
//! their results. Pure.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::ExecId;

/// Finished executions kept for a user, in number: enough for every call of a long agent turn.
pub(super) const KEPT: usize = 256;

/// Time a finished execution is kept: longer than any client takes to come back.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(600);

/// Memory of all finished executions of a user together, in bytes.
pub(super) const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// The same of all users. Whoever holds most gives way first.
pub(super) const KEPT_BYTES_OF_ALL: usize = 8 * KEPT_BYTES;

/// A finished execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    /// Owner and id.
    pub(super) name: (u32, ExecId),
    /// When it was over.
    pub(super) at: Instant,
    /// Bytes that it holds.
    pub(super) bytes: usize,
}

/// Those that are to be forgotten.
pub(super) fn surplus(finished: Vec<Finished>, now: Instant) -> Vec<(u32, ExecId)> {
    let mut of_user: BTreeMap<u32, Vec<Finished>> = BTreeMap::new();
    for one in finished {
        of_user.entry(one.name.0).or_default().push(one);
    }
    let mut surplus = Vec::new();
    for kept in of_user.values_mut() {
        kept.sort_by_key(|one| Reverse(one.at));
        let within = within(kept, now);
        surplus.extend(kept.drain(within..).map(|one| one.name));
    }
    shrink(&mut of_user, &mut surplus);
    surplus
}

/// How many of a user's, newest first, are within its budget.
fn within(kept: &[Finished], now: Instant) -> usize {
    let mut bytes = 0_usize;
    let kept = kept.iter().enumerate();
    kept.take_while(|(index, one)| {
        bytes = bytes.saturating_add(one.bytes);
        let is_young = now.saturating_duration_since(one.at) < KEPT_FOR;
        // The newest one stays whatever its size: its client is about to read it.
        is_young && *index < KEPT && (bytes <= KEPT_BYTES || *index == 0)
    })
    .count()
}

/// Takes the oldest from whoever holds most until all together are within their budget.
fn shrink(of_user: &mut BTreeMap<u32, Vec<Finished>>, surplus: &mut Vec<(u32, ExecId)>) {
    let bytes = |kept: &Vec<Finished>| {
        kept.iter()
            .fold(0_usize, |sum, one| sum.saturating_add(one.bytes))
    };
    let mut held: BTreeMap<u32, usize> = of_user
        .iter()
        .map(|(uid, kept)| (*uid, bytes(kept)))
        .collect();
    let mut total = held
        .values()
        .fold(0_usize, |sum, bytes| sum.saturating_add(*bytes));
    while total > KEPT_BYTES_OF_ALL {
        let Some((uid, most)) = held.iter_mut().max_by_key(|(_, bytes)| **bytes) else {
            return;
        };
        let Some(oldest) = of_user.get_mut(uid).and_then(Vec::pop) else {
            return;
        };
        *most = most.saturating_sub(oldest.bytes);
        total = total.saturating_sub(oldest.bytes);
        surplus.push(oldest.name);
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::arithmetic_side_effects,
        clippy::unchecked_time_subtraction,
        reason = "an overflow fails the test"
    )]

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn finished(uid: u32, number: usize, seconds_ago: u64, bytes: usize) -> Finished {
        Finished {
            name: (uid, ExecId::parse(&format!("e{number}")).unwrap()),
            at: base() - Duration::from_secs(seconds_ago),
            bytes,
        }
    }

    /// One moment for all: the clock may be younger than what is kept.
    fn base() -> Instant {
        static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BASE.get_or_init(|| Instant::now() + Duration::from_secs(10_000))
    }

    fn forgotten(all: Vec<Finished>) -> Vec<(u32, String)> {
        let names = surplus(all, base()).into_iter();
        names.map(|(uid, id)| (uid, id.to_string())).collect()
    }

    #[test]
    fn each_user_keeps_its_own_newest_whatever_others_do() {
        // Number, then size, then age.
        for flood in [
            (0..1000).map(|n| finished(2, n, 1, 10)).collect::<Vec<_>>(),
            (0..100).map(|n| finished(2, n, 1, 2 * MIB)).collect(),
            (0..100).map(|n| finished(2, n, 601, 10)).collect(),
        ] {
            let many = flood.len();
            let mut all = vec![finished(1, 0, 500, 2 * MIB), finished(1, 1, 599, 2 * MIB)];
            all.extend(flood);
            let gone = forgotten(all);
            assert!(gone.iter().all(|(uid, _)| *uid == 2), "{many}");
            assert!(gone.len() >= many.saturating_sub(KEPT).max(80), "{many}");
        }
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_stays_whatever_its_size() {
        let all = (0..20)
            .map(|n| finished(1, n, 20 - n as u64, 2 * MIB))
            .collect();
        let gone = forgotten(all);
        assert_eq!(gone, [3, 2, 1, 0].map(|n| (1, format!("e{n}"))));
        assert_eq!(forgotten(vec![finished(1, 0, 1, 100 * MIB)]), []);
        assert_eq!(forgotten(vec![finished(1, 0, 600, 1)]).len(), 1);
    }

    #[test]
    fn when_all_together_hold_too_much_whoever_holds_most_gives_way() {
        let mut all: Vec<_> = (1..=12)
            .flat_map(|uid| (0..15).map(move |n| finished(uid, n, n as u64, 2 * MIB)))
            .collect();
        all.push(finished(99, 0, 599, 2 * MIB));
        let gone = forgotten(all.clone());
        let rest = (all.len() - gone.len()) * 2 * MIB;
        assert!(rest <= KEPT_BYTES_OF_ALL && rest + 2 * MIB > KEPT_BYTES_OF_ALL);
        assert!(gone.iter().all(|(uid, _)| *uid != 99), "{gone:?}");
        assert!(
            gone.iter().all(|(_, id)| id != "e0"),
            "the newest stay: {gone:?}"
        );
    }
}
