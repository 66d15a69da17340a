//! How many commands run at once, and who is next. Beyond the most that may run, requests wait in a
//! bounded queue, first come first served within a user and turn by turn between users, so that one
//! user's flood keeps nobody else waiting behind it. Where several users share a daemon, none may hold all
//! slots: commands can run for hours.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The right to run, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot(Option<(Arc<Admission>, u32)>);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some((admission, uid)) = self.0.take() {
            admission.lock().give_back(uid);
            admission.grant();
        }
    }
}

/// A place in the queue, given up when dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    admission: Arc<Admission>,
    id: u64,
    slot: oneshot::Receiver<Slot>,
}

impl Waiting {
    /// Waits for its turn; `None` when the queue no longer has a place for it.
    pub(super) async fn turn(&mut self) -> Option<Slot> {
        (&mut self.slot).await.ok()
    }

    /// True when the queue was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.admission.lock().closed
    }

    /// Most that run at once.
    pub(super) fn max_running(&self) -> usize {
        self.admission.max_running
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.admission.lock().forget(self.id);
    }
}

/// What came of asking.
#[derive(Debug)]
pub(super) enum Entry {
    /// It may run.
    Now(Slot),
    /// It has to wait.
    Later(Waiting),
}

/// All slots and all who wait.
#[derive(Debug)]
pub(super) struct Admission {
    max_running: usize,
    /// Most that one user runs.
    share: usize,
    max_queued: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Slots in use, by user; none of zero.
    running: BTreeMap<u32, usize>,
    closed: bool,
    newest: u64,
    /// Users in the order of their turns, none without a ticket.
    turns: VecDeque<(u32, VecDeque<Ticket>)>,
}

#[derive(Debug)]
struct Ticket {
    id: u64,
    slot: oneshot::Sender<Slot>,
}

impl Admission {
    pub(super) fn new(max_running: usize, max_queued: usize) -> Self {
        Self {
            max_running,
            share: max_running,
            max_queued,
            state: Mutex::default(),
        }
    }

    /// Keeps one slot in eight, and one at least where there are two, from any one user.
    pub(super) fn shared(self) -> Self {
        let kept = self.max_running.checked_div(8).unwrap_or(0).max(1);
        Self {
            share: self.max_running.saturating_sub(kept).max(1),
            ..self
        }
    }

    /// Asks for a slot for `uid`; `None`: there is none, and no place in the queue either.
    pub(super) fn enter(self: &Arc<Self>, uid: u32, may_wait: MayWait) -> Option<Entry> {
        let mut state = self.lock();
        if state.has_room(uid, self) {
            state.give(uid);
            return Some(Entry::Now(Slot(Some((Arc::clone(self), uid)))));
        }
        if may_wait == MayWait::No
            || (state.queued() >= self.max_queued && !state.displace_for(uid))
        {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        state.newest = state.newest.saturating_add(1);
        let id = state.newest;
        state.enqueue(uid, Ticket { id, slot: sender });
        Some(Entry::Later(Waiting {
            admission: Arc::clone(self),
            id,
            slot: receiver,
        }))
    }

    /// Sends everybody away who waits.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.turns.clear();
    }

    /// Number of slots in use.
    pub(super) fn running(&self) -> usize {
        self.lock().running()
    }

    /// Number of those who wait.
    pub(super) fn queued(&self) -> usize {
        self.lock().queued()
    }

    /// Most that run at once.
    pub(super) fn max_running(&self) -> usize {
        self.max_running
    }

    /// Most that wait.
    pub(super) fn max_queued(&self) -> usize {
        self.max_queued
    }

    /// Whoever is next has what is free.
    fn grant(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self);
            let Some((uid, ticket)) = next else { return };
            // ORDER: not under the lock, since a slot that is not taken is given back here.
            if let Err(mut slot) = ticket.slot.send(Slot(Some((Arc::clone(self), uid)))) {
                slot.0 = None;
                self.lock().give_back(uid);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether somebody is ready to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayWait {
    /// Yes.
    Yes,
    /// No: now or never.
    No,
}

impl State {
    fn queued(&self) -> usize {
        self.turns.iter().map(|(_, tickets)| tickets.len()).sum()
    }

    fn enqueue(&mut self, uid: u32, ticket: Ticket) {
        match self.turns.iter_mut().find(|(user, _)| *user == uid) {
            Some((_, tickets)) => tickets.push_back(ticket),
            None => self.turns.push_back((uid, VecDeque::from([ticket]))),
        }
    }

    fn running(&self) -> usize {
        self.running.values().sum()
    }

    fn has_room(&self, uid: u32, admission: &Admission) -> bool {
        let own = self.running.get(&uid).copied().unwrap_or(0);
        own < admission.share && self.running() < admission.max_running
    }

    fn give(&mut self, uid: u32) {
        let own = self.running.entry(uid).or_default();
        *own = own.saturating_add(1);
    }

    fn give_back(&mut self, uid: u32) {
        if let Some(own) = self.running.get_mut(&uid) {
            *own = own.saturating_sub(1);
        }
        self.running.retain(|_, own| *own > 0);
    }

    /// The oldest ticket of the user whose turn it is among those who may run more, and a slot for it; then
    /// it is the next user's turn.
    fn next(&mut self, admission: &Admission) -> Option<(u32, Ticket)> {
        let mut users = self.turns.iter();
        let turn = users.position(|(uid, _)| self.has_room(*uid, admission))?;
        let (uid, mut tickets) = self.turns.remove(turn)?;
        let ticket = tickets.pop_front();
        if !tickets.is_empty() {
            self.turns.push_back((uid, tickets));
        }
        self.give(uid);
        Some((uid, ticket?))
    }

    /// Makes room in a full queue at the expense of whoever fills it; false when that is `uid` itself.
    fn displace_for(&mut self, uid: u32) -> bool {
        let count = |user: u32| {
            let of_user = self.turns.iter().find(|(other, _)| *other == user);
            of_user.map_or(0, |(_, tickets)| tickets.len())
        };
        let mine = count(uid);
        let most = self
            .turns
            .iter_mut()
            .max_by_key(|(_, tickets)| tickets.len());
        match most {
            Some((_, tickets)) if tickets.len() > mine.saturating_add(1) => {
                // Its newest: that one has waited least.
                drop(tickets.pop_back());
                true
            }
            Some(_) | None => false,
        }
    }

    fn forget(&mut self, id: u64) {
        for (_, tickets) in &mut self.turns {
            tickets.retain(|ticket| ticket.id != id);
        }
        self.turns.retain(|(_, tickets)| !tickets.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(entry: Option<Entry>) -> Slot {
        match entry {
            Some(Entry::Now(slot)) => slot,
            other => panic!("not now: {other:?}"),
        }
    }

    fn later(entry: Option<Entry>) -> Waiting {
        match entry {
            Some(Entry::Later(waiting)) => waiting,
            other => panic!("not later: {other:?}"),
        }
    }

    fn has_turn(waiting: &mut Waiting) -> Option<Slot> {
        waiting.slot.try_recv().ok()
    }

    #[test]
    fn users_take_turns_and_within_one_the_first_is_first() {
        let admission = Arc::new(Admission::new(1, 10));
        let mut running = Some(now(admission.enter(1, MayWait::Yes)));
        assert!(admission.enter(1, MayWait::No).is_none());
        let mut flood: Vec<_> = (0..5)
            .map(|_| later(admission.enter(1, MayWait::Yes)))
            .collect();
        let mut other = later(admission.enter(2, MayWait::Yes));
        assert_eq!((admission.running(), admission.queued()), (1, 6));
        drop(running.take());
        let first = has_turn(&mut flood[0]).unwrap();
        drop(first);
        let second = has_turn(&mut other).expect("the other user is next");
        drop(second);
        let third = has_turn(&mut flood[1]).unwrap();
        assert_eq!((admission.running(), admission.queued()), (1, 3));
        drop(third);
        drop(flood);
        assert_eq!((admission.running(), admission.queued()), (0, 0));
    }

    #[test]
    fn a_full_queue_makes_room_for_another_user_and_not_for_the_one_who_fills_it() {
        let admission = Arc::new(Admission::new(1, 4));
        let _running = now(admission.enter(1, MayWait::Yes));
        let mut flood: Vec<_> = (0..4)
            .map(|_| later(admission.enter(1, MayWait::Yes)))
            .collect();
        assert!(admission.enter(1, MayWait::Yes).is_none());
        let _other = later(admission.enter(2, MayWait::Yes));
        assert!(matches!(
            flood[3].slot.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        ));
        let _another = later(admission.enter(2, MayWait::Yes));
        assert!(admission.enter(2, MayWait::Yes).is_none(), "equal shares");
        assert_eq!(admission.queued(), 4);
    }

    #[test]
    fn who_gives_up_loses_neither_a_place_nor_a_slot_for_others() {
        let admission = Arc::new(Admission::new(1, 2));
        let running = now(admission.enter(1, MayWait::Yes));
        let gone = later(admission.enter(1, MayWait::Yes));
        let mut stays = later(admission.enter(1, MayWait::Yes));
        drop(gone);
        let unheard = later(admission.enter(1, MayWait::Yes));
        drop(running);
        let slot = has_turn(&mut stays).unwrap();
        drop(slot);
        // It was its turn, and it went away without having looked.
        drop(unheard);
        assert_eq!((admission.running(), admission.queued()), (0, 0));
        admission.close();
    }

    /// Commands may run for hours, so that whose turn it is helps nobody.
    #[test]
    fn where_users_share_a_daemon_none_holds_all_slots() {
        for (all, share) in [(1, 1), (2, 1), (3, 2), (16, 14), (64, 56)] {
            let admission = Arc::new(Admission::new(all, 100).shared());
            let mut flood: Vec<_> = (0..share)
                .map(|_| now(admission.enter(1, MayWait::Yes)))
                .collect();
            let mut more = later(admission.enter(1, MayWait::Yes));
            assert!(admission.enter(1, MayWait::No).is_none(), "{all}");
            if all > 1 {
                let other = now(admission.enter(2, MayWait::No));
                drop(other);
            }
            assert!(
                has_turn(&mut more).is_none(),
                "{all}: what is kept stays kept"
            );
            flood.pop();
            let slot = has_turn(&mut more).expect("its own slot is free again");
            assert_eq!((admission.running(), admission.queued()), (share, 0));
            drop((slot, flood));
            assert_eq!(admission.running(), 0);
        }
        // The control: alone, a user has them all.
        let admission = Arc::new(Admission::new(3, 1));
        let all: Vec<_> = (0..3)
            .map(|_| now(admission.enter(1, MayWait::No)))
            .collect();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_user_at_its_share_keeps_nobody_behind_it_from_running() {
        let admission = Arc::new(Admission::new(4, 100).shared());
        let held: Vec<_> = (0..3)
            .map(|_| now(admission.enter(1, MayWait::Yes)))
            .collect();
        let last = now(admission.enter(2, MayWait::Yes));
        let mut first_in_line = later(admission.enter(1, MayWait::Yes));
        let mut behind = later(admission.enter(3, MayWait::Yes));
        drop(last);
        assert!(has_turn(&mut first_in_line).is_none());
        drop(has_turn(&mut behind).expect("it may run"));
        drop(held);
        assert!(has_turn(&mut first_in_line).is_some());
    }

    #[test]
    fn closing_sends_everybody_away() {
        let admission = Arc::new(Admission::new(1, 2));
        let _running = now(admission.enter(1, MayWait::Yes));
        let mut waiting = later(admission.enter(1, MayWait::Yes));
        admission.close();
        assert!(matches!(
            waiting.slot.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        ));
    }
}
