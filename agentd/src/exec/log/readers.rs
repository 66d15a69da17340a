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

/// Names a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) struct ReaderId(u64);

#[derive(Debug)]
struct Place {
    id: ReaderId,
    cursor: Cursor,
    /// What it has taken: bytes, and [`EVENT_WORK`] for each event.
    taken: u64,
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

    /// True when somebody who deserves it should be waited for.
    pub(in crate::exec) fn lag(&self, front: Front) -> bool {
        self.places
            .iter()
            .any(|place| place.slow.is_none() && place.is_far(front))
    }

    /// True when somebody who is waited for has taken enough since the last time to be waited for longer.
    pub(in crate::exec) fn progressed(&mut self, front: Front) -> bool {
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
        assert!(!readers.lag(front(1 << 40, 1 << 20)), "nobody is there");
        let id = readers.join(cursor(1, 0));
        assert!(!readers.lag(front(FAR_BYTES, 9)));
        assert!(readers.lag(front(FAR_BYTES + 1, 9)));
        assert!(readers.lag(front(10, FAR_EVENTS + 2)), "tiny events count");
        let far = front(1 << 40, 9);
        assert!(!readers.progressed(far), "it took nothing");
        readers.give_up(far);
        assert!(!readers.lag(far));
        readers.moved(
            id,
            cursor(8, 1 << 39),
            &Found::Gap(2, 8, Offsets::default()),
        );
        assert!(!readers.lag(far), "what it lost is nothing that it took");
        readers.moved(id, cursor(9, 1 << 39), &took(REDEEMED / 2));
        assert!(!readers.lag(far), "not enough yet");
        readers.moved(id, cursor(9, 1 << 39), &took(REDEEMED / 2));
        assert!(readers.lag(far), "it is trusted again, however far behind");
        readers.leave(id);
        assert!(!readers.lag(far));
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
            assert!(readers.lag(far), "it took something just now");
        }
        let trickle = readers.join(cursor(1, 0));
        readers.leave(steady);
        readers.moved(trickle, cursor(1, 0), &took(PROGRESS / 2));
        assert!(!readers.progressed(far));
        readers.give_up(far);
        assert!(!readers.lag(far));
    }
}
