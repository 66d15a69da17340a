//! `bash_output`: what a command printed since it was last read.
//!
//! Reading blocks here, on the server, until there is something to say (codex#38495: a model that polls
//! pays for every turn in which nothing happened).

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    answer::{self, Answers},
    input::BashOutput,
};
use crate::{
    exec::{Exec, OutputPiece},
    rpc::tool_text,
    session::Session,
};

/// Most bytes of one page: as many as there are characters in a text for a model at most, so that a page
/// is never cut.
const PAGE: usize = 50_000;

/// Bytes of the start and of the end of a long stretch that are looked at: more than a text can show.
const HEAD: usize = 256 * 1024;
const TAIL: usize = 512 * 1024;

/// Silence after which a burst of output is taken to be over.
const QUIET: Duration = Duration::from_millis(100);

/// Longest time to wait for that silence.
const BURST: Duration = Duration::from_secs(1);

/// A read.
pub(super) struct Read {
    pub(super) session: Arc<Session>,
    pub(super) exec: Arc<Exec>,
    pub(super) input: BashOutput,
    /// Names the call, so that a retry reads the same.
    pub(super) call: String,
}

/// Reads, and answers.
pub(super) async fn run(read: Read, answers: Answers) {
    // The command is being read: neither it nor its session ends for lack of interest.
    let presence = read.exec.presence();
    let reading = async {
        match read.input.after {
            Some(after) => page(&read, after).await,
            None => news(&read).await,
        }
    };
    let text = answers.keep_alive(&read.exec, reading).await;
    drop(presence);
    if let Some(told) = text {
        answers.finish(answer::about(&read.exec, told)).await;
    }
}

/// Everything since the last read.
async fn news(read: &Read) -> answer::Told {
    let from = read.session.read_from(&read.exec, &read.call);
    let wait = read.input.wait();
    let first = read.exec.read_output(from, 1, wait).await;
    let seen = if wait.is_zero() || first.ended || first.data.is_empty() {
        first
    } else {
        settle(&read.exec, first).await
    };
    let mut stretch = stretch(&read.exec, (from, seen.written)).await;
    if !seen.ended {
        stretch.leave_unfinished();
    }
    let until = from.saturating_add(stretch.length());
    read.session.has_read(&read.exec, &read.call, (from, until));
    let place = format!(
        "bash_output with bash_id {:?} and after {from}",
        read.exec.id().as_str()
    );
    let place = (!stretch.is_lost).then_some(place);
    let parts = (stretch.head, stretch.left_out, stretch.tail);
    let rendered = tool_text::output(parts, place).await;
    answer::Told {
        rendered: answer::or_empty(rendered, "(no new output)"),
        lines: tool_text::state_lines(&read.exec),
    }
}

/// Waits until a burst is over, so that a line is not told in halves.
async fn settle(exec: &Exec, mut seen: OutputPiece) -> OutputPiece {
    let deadline = Instant::now().checked_add(BURST);
    loop {
        let next = exec.read_output(seen.written, 1, QUIET).await;
        let is_late = deadline.is_none_or(|deadline| Instant::now() >= deadline);
        if next.written == seen.written || next.ended || is_late {
            return next;
        }
        seen = next;
    }
}

/// The start and the end of a stretch of output, with what is between them counted.
struct Stretch {
    head: Vec<u8>,
    left_out: u64,
    tail: Vec<u8>,
    /// Some of what is left out is no longer held.
    is_lost: bool,
}

impl Stretch {
    fn length(&self) -> u64 {
        u64_of(self.head.len())
            .saturating_add(self.left_out)
            .saturating_add(u64_of(self.tail.len()))
    }

    /// Leaves a character at the end that has not come whole to the next read.
    fn leave_unfinished(&mut self) {
        let kept = self.tail.len().saturating_sub(unfinished(&self.tail));
        self.tail.truncate(kept);
    }
}

/// The output between two offsets.
async fn stretch(exec: &Exec, (from, to): (u64, u64)) -> Stretch {
    let length = to.saturating_sub(from);
    if length <= u64_of(HEAD.saturating_add(TAIL)) {
        let tail = take(exec, (from, to)).await;
        // What is no longer held is missing from the start.
        let left_out = length.saturating_sub(u64_of(tail.len()));
        return Stretch {
            head: Vec::new(),
            left_out,
            tail,
            is_lost: left_out > 0,
        };
    }
    let head = take(exec, (from, from.saturating_add(u64_of(HEAD)))).await;
    let tail = take(exec, (to.saturating_sub(u64_of(TAIL)), to)).await;
    let found = head.len().saturating_add(tail.len());
    Stretch {
        left_out: length.saturating_sub(u64_of(found)),
        is_lost: found < HEAD.saturating_add(TAIL),
        head,
        tail,
    }
}

/// The bytes between two offsets, as far as they are held.
async fn take(exec: &Exec, (from, to): (u64, u64)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = from;
    while at < to {
        let missing = usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX);
        let piece = exec
            .read_output(at, missing.min(HEAD), Duration::ZERO)
            .await;
        if piece.data.is_empty() || piece.offset >= to {
            break;
        }
        let end = piece.offset.saturating_add(u64_of(piece.data.len()));
        let surplus = usize::try_from(end.saturating_sub(to)).unwrap_or(usize::MAX);
        let kept = piece.data.len().saturating_sub(surplus);
        bytes.extend_from_slice(piece.data.get(..kept).unwrap_or_default());
        at = end;
    }
    bytes
}

/// One page from an offset on.
async fn page(read: &Read, after: u64) -> answer::Told {
    let piece = read.exec.read_output(after, PAGE, read.input.wait()).await;
    let length = piece.data.len();
    let is_last = piece.offset.saturating_add(u64_of(length)) >= piece.written;
    let kept = if is_last && piece.ended {
        length
    } else {
        length.saturating_sub(unfinished(&piece.data))
    };
    let next = piece.offset.saturating_add(u64_of(kept));
    let data = piece.data.get(..kept).unwrap_or_default().to_vec();
    let rendered = tool_text::output((data, 0, Vec::new()), None).await;
    let mut lines = Vec::new();
    if piece.offset > after && length > 0 {
        lines.push(format!(
            "[bytes {after} to {} are no longer held]",
            piece.offset
        ));
    }
    if kept > 0 {
        lines.push(format!(
            "[bytes {} to {next} of {} so far; what follows: after {next}]",
            piece.offset, piece.written
        ));
    }
    lines.extend(tool_text::state_lines(&read.exec));
    answer::Told {
        rendered: answer::or_empty(rendered, "(no output there)"),
        lines,
    }
}

/// Bytes at the end of a text that begin a character of UTF-8 and do not finish it.
fn unfinished(bytes: &[u8]) -> usize {
    match std::str::from_utf8(
        bytes
            .get(bytes.len().saturating_sub(4)..)
            .unwrap_or_default(),
    ) {
        Ok(_) => 0,
        Err(_) => (1..=3_usize)
            .find(|back| {
                let start = bytes.len().checked_sub(*back);
                let first = start.and_then(|start| bytes.get(start)).copied();
                first.is_some_and(|first| length_of(first) > *back)
            })
            .unwrap_or(0),
    }
}

/// Bytes of the character that a byte begins; 0 when it begins none.
fn length_of(first: u8) -> usize {
    match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 0,
    }
}

fn u64_of(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_has_not_come_whole_waits_for_the_next_read() {
        let text = "a\u{e9}\u{6f22}\u{1f600}";
        for end in 0..=text.len() {
            let bytes = &text.as_bytes()[..end];
            let kept = bytes.len() - unfinished(bytes);
            assert!(std::str::from_utf8(&bytes[..kept]).is_ok(), "{end}");
            assert!(kept + 3 >= end, "{end}");
        }
        // What is no text is not waited for.
        for bytes in [b"\x80\x80\x80\x80".as_slice(), b"\xff", b"a\xc3\xc3a", b""] {
            assert_eq!(unfinished(bytes), 0, "{bytes:?}");
        }
    }
}
