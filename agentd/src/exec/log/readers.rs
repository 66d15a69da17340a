//! How far behind the readers are, so that a command that prints faster than they read is slowed down a
//! little instead of losing output for them. Only a reader that keeps up again and again earns that: one
//! that stalls is waited for once, briefly, and no more until it has caught up. Pure.

use super::Cursor;

/// A reader this far behind, in bytes, is waited for.
const FAR_BYTES: u64 = 384 * 1024;

/// A reader this far behind, in events, is waited for: tiny events fill a lane before bytes do.
const FAR_EVENTS: u64 = 1024;

/// A reader has caught up when it is behind by less than one in so many of that.
const CAUGHT_UP: u64 = 4;

/// Names a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) struct ReaderId(u64);

#[derive(Debug)]
struct Place {
    id: ReaderId,
    cursor: Cursor,
    /// It was waited for in vain.
    slow: bool,
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
            slow: false,
        });
        id
    }

    /// Removes one.
    pub(in crate::exec) fn leave(&mut self, id: ReaderId) {
        self.places.retain(|place| place.id != id);
    }

    /// One has read up to there.
    pub(in crate::exec) fn moved(&mut self, id: ReaderId, cursor: Cursor) {
        if let Some(place) = self.places.iter_mut().find(|place| place.id == id) {
            place.cursor = cursor;
        }
    }

    /// True when somebody who deserves it should be waited for.
    pub(in crate::exec) fn lag(&mut self, front: Front) -> bool {
        let mut far = false;
        for place in &mut self.places {
            let bytes = front.bytes.saturating_sub(place.cursor.at.total());
            let events = front.seq.saturating_sub(place.cursor.after);
            if place.slow {
                let near = |value: u64, limit: u64| value.saturating_mul(CAUGHT_UP) < limit;
                place.slow = !(near(bytes, FAR_BYTES) && near(events, FAR_EVENTS));
            } else {
                far |= bytes > FAR_BYTES || events > FAR_EVENTS;
            }
        }
        far
    }

    /// The wait was in vain: who is far behind now is not waited for again until it has caught up.
    pub(in crate::exec) fn give_up(&mut self, front: Front) {
        for place in &mut self.places {
            let bytes = front.bytes.saturating_sub(place.cursor.at.total());
            let events = front.seq.saturating_sub(place.cursor.after);
            place.slow |= bytes > FAR_BYTES || events > FAR_EVENTS;
        }
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

    #[test]
    fn a_stalled_reader_is_waited_for_once_and_again_only_after_it_caught_up() {
        let mut readers = Readers::default();
        let front = |bytes, seq| Front { bytes, seq };
        assert!(!readers.lag(front(1 << 40, 1 << 20)), "nobody is there");
        let id = readers.join(cursor(1, 0));
        assert!(!readers.lag(front(FAR_BYTES, 9)));
        assert!(readers.lag(front(FAR_BYTES + 1, 9)));
        assert!(readers.lag(front(10, FAR_EVENTS + 2)), "tiny events count");
        readers.give_up(front(FAR_BYTES + 1, 9));
        assert!(!readers.lag(front(FAR_BYTES + 1, 9)));
        readers.moved(id, cursor(8, FAR_BYTES / 2));
        assert!(!readers.lag(front(FAR_BYTES * 2, 9)), "not caught up yet");
        readers.moved(id, cursor(9, FAR_BYTES * 2));
        assert!(!readers.lag(front(FAR_BYTES * 2, 9)));
        assert!(readers.lag(front(FAR_BYTES * 4, 12)), "it is trusted again");
        readers.leave(id);
        assert!(!readers.lag(front(1 << 40, 1 << 20)));
    }
}
