//! Places for connections. Each user has a share, so that nobody's connections keep anybody else out, and
//! those who run the daemon have some of their own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

/// How many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    /// Of one user.
    pub(super) of_user: usize,
    /// Of all users together.
    pub(super) in_all: usize,
    /// More, for operators alone.
    pub(super) for_operators: usize,
    /// Connections that may wait for a place.
    pub(super) waiting: usize,
    /// How long they wait.
    pub(super) patience: Duration,
}

/// All places.
#[derive(Debug)]
pub(super) struct Slots {
    capacity: Capacity,
    operators: Vec<u32>,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: BTreeMap<u32, usize>,
    waiting: usize,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    slots: Arc<Slots>,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        if let Some(taken) = state.taken.get_mut(&self.uid) {
            *taken = taken.saturating_sub(1);
        }
        state.taken.retain(|_, taken| *taken > 0);
        drop(state);
        self.slots.freed.notify_waiters();
    }
}

/// Somebody who waits, counted until dropped.
struct InLine<'a>(&'a Slots);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting = state.waiting.saturating_sub(1);
    }
}

impl Slots {
    pub(super) fn new(capacity: Capacity, operators: Vec<u32>) -> Arc<Self> {
        Arc::new(Self {
            capacity,
            operators,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// A place for a connection of this user, if there is one now.
    pub(super) fn take(self: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut state = self.lock();
        let all: usize = state.taken.values().sum();
        let own = state.taken.get(&uid).copied().unwrap_or(0);
        let in_all = if self.operators.contains(&uid) {
            let Capacity {
                in_all,
                for_operators,
                ..
            } = self.capacity;
            in_all.saturating_add(for_operators)
        } else {
            self.capacity.in_all
        };
        if own >= self.capacity.of_user || all >= in_all {
            return None;
        }
        state.taken.insert(uid, own.saturating_add(1));
        Some(Place {
            slots: Arc::clone(self),
            uid,
        })
    }

    /// The same, with patience; `None` when that was in vain or too many are waiting already.
    pub(super) async fn wait(self: &Arc<Self>, uid: u32) -> Option<Place> {
        let _in_line = self.line_up()?;
        let place = async {
            loop {
                // ORDER: listen before looking, so that no place is freed unheard.
                let freed = self.freed.notified();
                tokio::pin!(freed);
                freed.as_mut().enable();
                if let Some(place) = self.take(uid) {
                    return place;
                }
                freed.await;
            }
        };
        tokio::time::timeout(self.capacity.patience, place)
            .await
            .ok()
    }

    fn line_up(&self) -> Option<InLine<'_>> {
        let mut state = self.lock();
        if state.waiting >= self.capacity.waiting {
            return None;
        }
        state.waiting = state.waiting.saturating_add(1);
        Some(InLine(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = 0;

    fn slots() -> Arc<Slots> {
        let capacity = Capacity {
            of_user: 4,
            in_all: 6,
            for_operators: 2,
            waiting: 2,
            patience: Duration::from_millis(30),
        };
        Slots::new(capacity, vec![ROOT])
    }

    fn take(slots: &Arc<Slots>, uid: u32, number: usize) -> Vec<Place> {
        (0..number).map_while(|_| slots.take(uid)).collect()
    }

    #[test]
    fn nobody_takes_the_places_of_others_nor_those_of_operators() {
        let slots = slots();
        let one = take(&slots, 1, 10);
        assert_eq!(one.len(), 4, "its share");
        let two = take(&slots, 2, 10);
        assert_eq!(two.len(), 2, "what is left");
        assert_eq!(take(&slots, 3, 1).len(), 0);
        let root = take(&slots, ROOT, 10);
        assert_eq!(root.len(), 2, "those of operators");
        drop(one);
        assert_eq!(take(&slots, 3, 10).len(), 2, "what others gave back");
        drop((two, root));
        assert!(slots.lock().taken.is_empty());
    }

    #[tokio::test]
    async fn who_comes_too_early_waits_a_little_and_not_without_end() {
        let slots = slots();
        let mut held = take(&slots, 1, 4);
        assert!(slots.wait(1).await.is_none(), "in vain");
        let (waited, ()) = tokio::join!(slots.wait(1), async { drop(held.pop()) });
        held.extend(waited);
        assert_eq!(held.len(), 4);
        let (one, two, three) = tokio::join!(slots.wait(1), slots.wait(1), async {
            // The line is full.
            let begun = std::time::Instant::now();
            (slots.wait(1).await.is_none(), begun.elapsed())
        });
        assert!(one.is_none() && two.is_none());
        assert!(three.0 && three.1 < Duration::from_millis(20));
        assert_eq!(slots.lock().waiting, 0);
    }
}
