//! Bounding: at most [`MAX_OUTPUT_CHARS`] characters of output, the start and the end of it, and a
//! marker that says exactly what is missing between them.

use super::{decode::Parts, terminal};

/// Most characters of output in a text for the model.
pub(super) const MAX_OUTPUT_CHARS: usize = 50_000;

/// Of these, characters of the start. The end gets the larger share: that is where errors are.
const HEAD_CHARS: usize = 20_000;

/// How many bytes a cut may give up to fall on a line boundary.
const LINE_SLACK: usize = 2_000;

/// How many characters a cut may move to keep one that is composed of several together.
const CLUSTER_SLACK: usize = 16;

/// What is missing between head and tail can be read elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Yes.
    Held,
    /// No.
    Nowhere,
}

/// Output that fits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) text: String,
    pub(super) omitted_chars: u64,
    pub(super) omitted_lines: u64,
}

/// Cleans and bounds the output. Blank lines at the start and white space at the end go; the
/// indentation of the first line stays, since the model may have to repeat it in an edit.
pub(super) fn fit(parts: &Parts, elsewhere: Elsewhere) -> Cut {
    match parts {
        Parts::Whole(all) => {
            let cleaned = terminal::clean(all, terminal::Redraw::Apply);
            fit_whole(without_blank_start(cleaned.trim_end()))
        }
        Parts::Split {
            head,
            tail,
            lost_bytes,
        } => {
            let head = terminal::clean(head, terminal::Redraw::Apply);
            let tail = terminal::clean(tail, terminal::Redraw::Apply);
            let ends = Ends {
                head: without_blank_start(&head),
                tail: tail.trim_end(),
            };
            ends.fit(*lost_bytes, elsewhere)
        }
    }
}

fn fit_whole(text: &str) -> Cut {
    if text.chars().nth(MAX_OUTPUT_CHARS).is_none() {
        return Cut {
            text: text.to_owned(),
            omitted_chars: 0,
            omitted_lines: 0,
        };
    }
    let (head, rest) = text
        .split_at_checked(head_end(text, HEAD_CHARS))
        .unwrap_or((text, ""));
    let tail_chars = MAX_OUTPUT_CHARS.saturating_sub(HEAD_CHARS);
    let (middle, tail) = rest
        .split_at_checked(tail_start(rest, tail_chars))
        .unwrap_or((rest, ""));
    let omitted_chars = count(middle.chars().count());
    let omitted_lines = count(lines(middle));
    let what = format!("{omitted_chars} characters ({omitted_lines} lines) omitted");
    Cut {
        text: join(head, &marker(&what), tail),
        omitted_chars,
        omitted_lines,
    }
}

/// The two ends of output whose middle is lost.
struct Ends<'a> {
    head: &'a str,
    tail: &'a str,
}

impl Ends<'_> {
    fn fit(&self, lost_bytes: u64, elsewhere: Elsewhere) -> Cut {
        let (head_chars, tail_chars) = share(self.head.chars().count(), self.tail.chars().count());
        let (head, after_head) = self
            .head
            .split_at_checked(head_end(self.head, head_chars))
            .unwrap_or((self.head, ""));
        let (before_tail, tail) = self
            .tail
            .split_at_checked(tail_start(self.tail, tail_chars))
            .unwrap_or(("", self.tail));
        let omitted = [after_head, before_tail];
        let omitted_chars = count(omitted.iter().map(|part| part.chars().count()).sum());
        let omitted_lines = count(omitted.iter().map(|part| lines(part)).sum());
        let what = match (omitted_chars, elsewhere) {
            (0, Elsewhere::Nowhere) => format!("{lost_bytes} bytes omitted, no longer held"),
            (0, Elsewhere::Held) => format!("{lost_bytes} bytes omitted"),
            (_, Elsewhere::Nowhere) => format!(
                "{omitted_chars} characters ({omitted_lines} lines) omitted, plus {lost_bytes} bytes no longer held"
            ),
            (_, Elsewhere::Held) => format!(
                "{omitted_chars} characters ({omitted_lines} lines) omitted, plus {lost_bytes} bytes"
            ),
        };
        Cut {
            text: join(head, &marker(&what), tail),
            omitted_chars,
            omitted_lines,
        }
    }
}

/// Divides the budget; what one end does not need the other may use.
fn share(head: usize, tail: usize) -> (usize, usize) {
    let tail_chars = MAX_OUTPUT_CHARS.saturating_sub(HEAD_CHARS);
    if head <= HEAD_CHARS {
        (head, MAX_OUTPUT_CHARS.saturating_sub(head))
    } else if tail <= tail_chars {
        (MAX_OUTPUT_CHARS.saturating_sub(tail), tail)
    } else {
        (HEAD_CHARS, tail_chars)
    }
}

fn marker(what: &str) -> String {
    format!("[... {what} ...]")
}

fn join(head: &str, marker: &str, tail: &str) -> String {
    let mut text = head.to_owned();
    for part in [marker, tail] {
        if !text.is_empty() && !text.ends_with('\n') && !part.is_empty() {
            text.push('\n');
        }
        text.push_str(part);
    }
    text
}

/// Where a head of at most `chars` characters ends: after a line if one ends near, else between two
/// characters that do not belong together.
fn head_end(text: &str, chars: usize) -> usize {
    let Some((limit, _)) = text.char_indices().nth(chars) else {
        return text.len();
    };
    let kept = text.get(..limit).unwrap_or_default();
    match kept.rfind('\n') {
        Some(at) if limit.saturating_sub(at) <= LINE_SLACK => at.saturating_add(1),
        Some(_) | None => cluster_start(text, limit),
    }
}

/// Where a tail of at most `chars` characters starts.
fn tail_start(text: &str, chars: usize) -> usize {
    let Some(before) = text.chars().count().checked_sub(chars) else {
        return 0;
    };
    let limit = text
        .char_indices()
        .nth(before)
        .map_or(text.len(), |(at, _)| at);
    let (dropped, kept) = text.split_at_checked(limit).unwrap_or(("", text));
    if dropped.is_empty() || dropped.ends_with('\n') {
        return limit;
    }
    match kept.find('\n') {
        Some(at) if at <= LINE_SLACK => limit.saturating_add(at).saturating_add(1),
        Some(_) | None => cluster_end(text, limit),
    }
}

/// The last boundary at or before `limit` that does not split a cluster.
fn cluster_start(text: &str, limit: usize) -> usize {
    let before = text.get(..limit).unwrap_or_default();
    let boundaries = before.char_indices().rev().map(|(at, _)| at);
    std::iter::once(limit)
        .chain(boundaries)
        .take(CLUSTER_SLACK)
        .find(|at| !splits_cluster(text, *at))
        .unwrap_or(limit)
}

/// The first boundary at or after `limit` that does not split a cluster.
fn cluster_end(text: &str, limit: usize) -> usize {
    let after = text.get(limit..).unwrap_or_default();
    after
        .char_indices()
        .map(|(at, _)| limit.saturating_add(at))
        .take(CLUSTER_SLACK)
        .find(|at| !splits_cluster(text, *at))
        .unwrap_or(limit)
}

/// Whether the characters at both sides of a boundary are parts of one: a cheap approximation of
/// grapheme clusters that covers combining marks and joined or modified emoji.
fn splits_cluster(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let joins = before.ends_with('\u{200d}');
    joins || after.starts_with(extends_previous)
}

fn extends_previous(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{5bd}'
            | '\u{610}'..='\u{61a}'
            | '\u{64b}'..='\u{65f}'
            | '\u{93a}'..='\u{94f}'
            | '\u{e31}'
            | '\u{e34}'..='\u{e3a}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{200d}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}'
            | '\u{1f3fb}'..='\u{1f3ff}'
            | '\u{e0020}'..='\u{e007f}'
            | '\u{e0100}'..='\u{e01ef}'
    )
}

/// Lines of a text, an unfinished one included.
fn lines(text: &str) -> usize {
    text.lines().count()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Drops lines of nothing but white space from the start.
fn without_blank_start(text: &str) -> &str {
    let indented = text.trim_start();
    let blank = text.len().saturating_sub(indented.len());
    let start = text
        .get(..blank)
        .and_then(|white| white.rfind('\n'))
        .map_or(0, |at| at.saturating_add(1));
    text.get(start..).unwrap_or_default()
}
