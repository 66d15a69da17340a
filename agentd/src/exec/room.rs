//! Room for kept output that the commands of a session share, so that no session fills the disk.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Bytes that may still be kept. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct OutputRoom(Arc<AtomicU64>);

impl OutputRoom {
    /// Room for that many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Takes up to `wanted` bytes of it; the answer is how many it got.
    pub(super) fn take(&self, wanted: u64) -> u64 {
        let before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                Some(left.saturating_sub(wanted))
            });
        // The update always gives a value.
        before.unwrap_or_default().min(wanted)
    }
}

impl Default for OutputRoom {
    /// Without a bound.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_than_there_is_whoever_asks() {
        let room = OutputRoom::new(10);
        let same = room.clone();
        assert_eq!((room.take(4), same.take(4), room.take(4)), (4, 4, 2));
        assert_eq!((room.take(1), same.take(u64::MAX)), (0, 0));
        let vast = OutputRoom::default();
        assert_eq!(vast.take(u64::MAX), u64::MAX);
    }
}
