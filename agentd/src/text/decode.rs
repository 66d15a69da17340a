//! Bytes to text: UTF-8 with U+FFFD only where the program's own bytes are invalid.
//!
//! A character that is split between head and tail is whole again; one that a gap has cut is left out
//! and counted as lost, because the replacement character would blame the program for it.

/// Longest UTF-8 sequence minus one: how many bytes of a character can be missing on one side.
const MAX_PARTIAL: usize = 3;

/// Decoded output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// All of it.
    Whole(String),
    /// Its two ends.
    Split {
        /// Text before the gap.
        head: String,
        /// Text after the gap.
        tail: String,
        /// Bytes in the gap, with those of characters that the gap has cut.
        lost_bytes: u64,
    },
}

/// Decodes output whose `dropped` bytes between `head` and `tail` are gone.
pub(super) fn decode(head: &[u8], tail: &[u8], dropped: u64) -> Parts {
    if dropped == 0 {
        let all = [head, tail].concat();
        return Parts::Whole(String::from_utf8_lossy(&all).into_owned());
    }
    let unfinished = unfinished_suffix(head);
    let orphaned = orphaned_prefix(tail);
    let head = head.get(..head.len().saturating_sub(unfinished));
    let tail = tail.get(orphaned..);
    let trimmed = u64::try_from(unfinished.saturating_add(orphaned)).unwrap_or(0);
    Parts::Split {
        head: String::from_utf8_lossy(head.unwrap_or_default()).into_owned(),
        tail: String::from_utf8_lossy(tail.unwrap_or_default()).into_owned(),
        lost_bytes: dropped.saturating_add(trimmed),
    }
}

/// Length of a valid but unfinished character at the end.
fn unfinished_suffix(bytes: &[u8]) -> usize {
    (1..=MAX_PARTIAL.min(bytes.len()))
        .find(|length| {
            let suffix = bytes.get(bytes.len().saturating_sub(*length)..);
            // `error_len` is `None` exactly when more bytes could still make the sequence valid.
            suffix
                .map(std::str::from_utf8)
                .and_then(Result::err)
                .is_some_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

/// Number of continuation bytes at the start, as far as one character can leave them.
fn orphaned_prefix(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(MAX_PARTIAL)
        .take_while(|byte| matches!(byte, 0x80..=0xBF))
        .count()
}
