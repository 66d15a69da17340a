//! The pool of throw-away user ids. One is in use by at most one execution; it goes back only when that
//! execution's tree is gone.

use std::collections::BTreeSet;

/// First id of the pool; the range lies outside what distributions hand out.
pub(crate) const FIRST: u32 = 70_000;
/// Ids in the pool, and so the most executions at once under such an identity.
pub(crate) const COUNT: u32 = 1_000;

/// Ids in use.
#[derive(Debug, Default)]
pub(crate) struct Uids {
    used: BTreeSet<u32>,
}

impl Uids {
    /// Takes the lowest free id; `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let end = FIRST.saturating_add(COUNT);
        let free = (FIRST..end).find(|uid| !self.used.contains(uid))?;
        self.used.insert(free);
        Some(free)
    }

    /// The id that `take` would give, for questions.
    pub(crate) fn peek(&self) -> u32 {
        let end = FIRST.saturating_add(COUNT);
        (FIRST..end)
            .find(|uid| !self.used.contains(uid))
            .unwrap_or(FIRST)
    }

    /// Gives an id back.
    pub(crate) fn give_back(&mut self, uid: u32) {
        self.used.remove(&uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_use_is_never_given_twice_and_the_pool_ends() {
        let mut uids = Uids::default();
        let all: BTreeSet<_> = (0..COUNT).map(|_| uids.take().unwrap()).collect();
        assert_eq!(all.len(), COUNT as usize);
        assert_eq!(uids.take(), None);
        uids.give_back(FIRST + 7);
        assert_eq!(uids.peek(), FIRST + 7);
        assert_eq!(uids.take(), Some(FIRST + 7));
    }
}
