//! How far behind the readers are, so that a command that prints faster than they read is slowed down a
//! little instead of losing output for them, as a pipe would. Only a reader that goes on taking earns that:
//! one that stalls is waited for once, briefly, and no more until it has taken much again. Pure.

use super::{Cursor, Event, EventBody, Found, lane::len_u64};

/// A reader this far behind, in bytes, is waited for.
const FAR_BYTES: u64 = 384 * 1024;

/// A reader this far behind, in events, is waited for: tiny events fill a lane before bytes do.
const FAR_EVENTS: u64 = 1024;

/// What an event counts for beside its bytes when it is taken: tiny ones are work too.
const EVENT_WORK: u64 = FAR_BYTES / FAR_EVENTS;

/// Who takes this much while it is waited for is waited for longer.
const PROGRESS: u64 = 64 * 1024;

/// Who was given up on is trusted again after taking this much: a moment's stall on a busy machine does
/// not cost a reader the rest of the output, and one that stalls again and again costs the command
/// little.
const REDEEMED: u64 = 1024 * 1024;

/// Whether readers who deserve it are far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Lag {
    /// No.
    Nobody,
    /// Somebody is, and nobody has to wait for anything.
    Somebody,
    /// Somebody is, and another one has read everything and waits for more.
    WhileOthersWait,
}

/// How the readers who deserve to be waited for are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) struct Look {
    /// Whether any is far behind.
    pub(in crate::exec) lag: Lag,
    /// What the fastest of them has taken since the last look.
    pub(in crate::exec) taken: u64,
    /// One that is far behind has taken enough since the last time to be waited for longer.
    pub(in crate::exec) progressed: bool,
}

/// Names a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) struct ReaderId(u64);

#[derive(Debug)]
struct Place {
    id: ReaderId,
    cursor: Cursor,
    /// What it has taken: bytes, and [`EVENT_WORK`] for each event.
    taken: u64,
    /// What it had taken at the last look.
    seen: u64,
    /// What it had taken when it last earned patience.
    mark: u64,
    /// It was waited for in vain, and will have been forgiven when it has taken this much.
    slow: Option<u64>,
}

impl Place {
    fn is_far(&self, front: Front) -> bool {
        front.bytes.saturating_sub(self.cursor.at.total()) > FAR_BYTES
            || front.seq.saturating_sub(self.cursor.after) > FAR_EVENTS
    }

    fn has_read_everything(&self, front: Front) -> bool {
        self.cursor.after >= front.seq
    }

    fn has_progressed(&self) -> bool {
        self.taken.saturating_sub(self.mark) >= PROGRESS
    }
}

/// All who follow.
#[derive(Debug, Default)]
pub(in crate::exec) struct Readers {
    places: Vec<Place>,
    newest: u64,
}

/// Where writing is.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Front {
    /// Bytes over all streams.
    pub bytes: u64,
    /// Number of the newest event.
    pub seq: u64,
}

impl Readers {
    /// Adds one.
    pub(in crate::exec) fn join(&mut self, cursor: Cursor) -> ReaderId {
        self.newest = self.newest.saturating_add(1);
        let id = ReaderId(self.newest);
        self.places.push(Place {
            id,
            cursor,
            taken: 0,
            seen: 0,
            mark: 0,
            slow: None,
        });
        id
    }

    /// Removes one.
    pub(in crate::exec) fn leave(&mut self, id: ReaderId) {
        self.places.retain(|place| place.id != id);
    }

    /// One has found this, and stands there now.
    pub(in crate::exec) fn moved(&mut self, id: ReaderId, cursor: Cursor, found: &Found) {
        if let Some(place) = self.places.iter_mut().find(|place| place.id == id) {
            place.cursor = cursor;
            place.taken = place.taken.saturating_add(work(found));
            place.slow = place.slow.filter(|enough| place.taken < *enough);
        }
    }

    /// How those are doing who deserve to be waited for.
    pub(in crate::exec) fn look(&mut self, front: Front) -> Look {
        let mut taken = 0;
        for place in &mut self.places {
            if place.slow.is_none() {
                taken = taken.max(place.taken.saturating_sub(place.seen));
            }
            place.seen = place.taken;
        }
        Look {
            lag: self.lag(front),
            taken,
            progressed: self.progressed(front),
        }
    }

    fn lag(&self, front: Front) -> Lag {
        let mut trusted = self.places.iter().filter(|place| place.slow.is_none());
        if !trusted.clone().any(|place| place.is_far(front)) {
            return Lag::Nobody;
        }
        if trusted.any(|place| !place.is_far(front) && place.has_read_everything(front)) {
            Lag::WhileOthersWait
        } else {
            Lag::Somebody
        }
    }

    fn progressed(&mut self, front: Front) -> bool {
        let mut any = false;
        for place in &mut self.places {
            if place.slow.is_none() && place.is_far(front) && place.has_progressed() {
                place.mark = place.taken;
                any = true;
            }
        }
        any
    }

    /// The wait was in vain: who is far behind and took next to nothing is not waited for until it has
    /// taken much.
    pub(in crate::exec) fn give_up(&mut self, front: Front) {
        for place in &mut self.places {
            if place.slow.is_none() && place.is_far(front) && !place.has_progressed() {
                place.slow = Some(place.taken.saturating_add(REDEEMED));
            }
        }
    }
}

/// What taking this counts for. A gap is nothing that was taken.
fn work(found: &Found) -> u64 {
    match found {
        Found::Event(Event {
            body: EventBody::Output { data, .. },
            ..
        }) => len_u64(data.len()).saturating_add(EVENT_WORK),
        Found::Event(_) | Found::Gap(..) | Found::Pending | Found::End => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Offsets;

    fn cursor(after: u64, stdout: u64) -> Cursor {
        Cursor {
            after,
            at: Offsets {
                stdout,
                ..Offsets::default()
            },
        }
    }

    fn took(length: u64) -> Found {
        let data = vec![0; usize::try_from(length).unwrap()];
        Found::Event(Event {
            seq: 2,
            body: EventBody::Output {
                stream: crate::exec::OutputStream::Stdout,
                offset: 0,
                data: data.into(),
            },
        })
    }

    fn front(bytes: u64, seq: u64) -> Front {
        Front { bytes, seq }
    }

    #[test]
    fn a_stalled_reader_is_waited_for_once_and_again_only_after_it_took_much() {
        let mut readers = Readers::default();
        assert!(
            readers.lag(front(1 << 40, 1 << 20)) == Lag::Nobody,
            "nobody is there"
        );
        let id = readers.join(cursor(1, 0));
        assert_eq!(readers.lag(front(FAR_BYTES, 9)), Lag::Nobody);
        assert_eq!(readers.lag(front(FAR_BYTES + 1, 9)), Lag::Somebody);
        assert_eq!(
            readers.lag(front(10, FAR_EVENTS + 2)),
            Lag::Somebody,
            "tiny events count"
        );
        let far = front(1 << 40, 9);
        assert!(!readers.progressed(far), "it took nothing");
        readers.give_up(far);
        assert_eq!(readers.lag(far), Lag::Nobody);
        readers.moved(
            id,
            cursor(8, 1 << 39),
            &Found::Gap(2, 8, Offsets::default()),
        );
        assert_eq!(
            readers.lag(far),
            Lag::Nobody,
            "what it lost is nothing that it took"
        );
        readers.moved(id, cursor(9, 1 << 39), &took(REDEEMED / 2));
        assert_eq!(readers.lag(far), Lag::Nobody, "not enough yet");
        readers.moved(id, cursor(9, 1 << 39), &took(REDEEMED / 2));
        assert_eq!(
            readers.lag(far),
            Lag::Somebody,
            "it is trusted again, however far behind"
        );
        readers.leave(id);
        assert_eq!(readers.lag(far), Lag::Nobody);
    }

    #[test]
    fn a_reader_that_goes_on_taking_is_not_given_up_on_and_a_trickle_is() {
        let mut readers = Readers::default();
        let far = front(1 << 40, 9);
        let steady = readers.join(cursor(1, 0));
        for _ in 0..100 {
            readers.moved(steady, cursor(1, 0), &took(PROGRESS));
            assert!(readers.progressed(far));
            assert!(!readers.progressed(far), "patience is earned once");
            readers.moved(steady, cursor(1, 0), &took(PROGRESS));
            readers.give_up(far);
            assert_eq!(
                readers.lag(far),
                Lag::Somebody,
                "it took something just now"
            );
        }
        let trickle = readers.join(cursor(1, 0));
        readers.leave(steady);
        readers.moved(trickle, cursor(1, 0), &took(PROGRESS / 2));
        assert!(!readers.progressed(far));
        readers.give_up(far);
        assert_eq!(readers.lag(far), Lag::Nobody);
    }

    #[test]
    fn it_is_told_whether_waiting_for_one_costs_another() {
        let mut readers = Readers::default();
        let far = front(1 << 30, 9);
        let behind = readers.join(cursor(1, 0));
        let ahead = readers.join(cursor(5, (1 << 30) - 10));
        assert_eq!(readers.lag(far), Lag::Somebody, "it has something to read");
        readers.moved(ahead, cursor(9, 1 << 30), &took(10));
        assert_eq!(readers.lag(far), Lag::WhileOthersWait);
        readers.moved(behind, cursor(9, 1 << 30), &took(1 << 10));
        assert_eq!(readers.lag(far), Lag::Nobody);
    }

    #[test]
    fn a_look_tells_what_the_fastest_took_since_the_last() {
        let mut readers = Readers::default();
        let far = front(1 << 40, 9);
        let one = readers.join(cursor(1, 0));
        let two = readers.join(cursor(1, 0));
        readers.moved(one, cursor(1, 0), &took(10));
        readers.moved(two, cursor(1, 0), &took(2000));
        readers.moved(one, cursor(1, 0), &took(10));
        assert_eq!(readers.look(far).taken, 2000 + EVENT_WORK);
        assert_eq!(readers.look(far).taken, 0);
        readers.give_up(far);
        readers.moved(two, cursor(1, 0), &took(2000));
        assert_eq!(readers.look(far).taken, 0, "it is not waited for");
    }
}
