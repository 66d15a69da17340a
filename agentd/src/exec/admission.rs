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
mod tests;
