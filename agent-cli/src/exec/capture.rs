//! Output kept for JSON: the beginning and the end of a stream, in bounded memory. Pure.

use std::collections::VecDeque;

/// The beginning and the end of a stream of bytes.
#[derive(Debug, Clone)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    seen: u64,
}

impl Capture {
    /// Keeps at most `limit` bytes, half of them from each side.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            half: limit.div_euclid(2),
            seen: 0,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.seen = self.seen.saturating_add(length(bytes.len()));
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // Only the last `half` bytes can survive; the others need not be moved through the ring.
        let rest = rest
            .get(rest.len().saturating_sub(self.half)..)
            .unwrap_or_default();
        let surplus = self
            .tail
            .len()
            .saturating_add(rest.len())
            .saturating_sub(self.half);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn kept(&self) -> u64 {
        length(self.head.len().saturating_add(self.tail.len()))
    }

    /// Bytes that were pushed.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What is kept, as text: bytes that are not UTF-8 are replaced, a line says where bytes are missing.
    #[must_use]
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let omitted = self.seen.saturating_sub(self.kept());
        if omitted == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n[... {omitted} bytes omitted ...]\n{}",
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail)
        )
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Capture;
    use proptest::prelude::{any, prop, proptest};

    #[test]
    fn a_short_stream_is_kept_whole_even_across_the_middle() {
        let mut capture = Capture::new(8);
        for piece in ["ab", "cdä", "e"] {
            capture.push(piece.as_bytes());
        }
        assert_eq!(capture.text(), "abcdäe");
        assert_eq!(capture.kept(), 7);
    }

    #[test]
    fn a_long_stream_keeps_both_ends_and_says_how_much_is_missing() {
        let mut capture = Capture::new(4);
        capture.push(b"0123456789");
        capture.push(b"x");
        assert_eq!(capture.text(), "01\n[... 7 bytes omitted ...]\n9x");
        assert_eq!((capture.kept(), capture.seen()), (4, 11));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            limit in 0_usize..40,
        ) {
            let mut whole = Capture::new(limit);
            whole.push(&pieces.concat());
            let mut split = Capture::new(limit);
            for piece in &pieces {
                split.push(piece);
            }
            assert_eq!(whole.text(), split.text());
            assert!(split.kept() <= limit as u64);
            assert_eq!(split.seen(), pieces.concat().len() as u64);
        }
    }
}
