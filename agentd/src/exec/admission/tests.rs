//! Who runs, who waits and who is sent away.

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
