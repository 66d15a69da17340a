//! From byte offsets and misspelt words to places and suggestions. Pure text work.

use std::ops::Range;

use toml::Spanned;

use super::ProfileError;
use crate::policy::RuleRef;

/// A profile's text, for turning spans into `file:line`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'t> {
    /// File name shown to people.
    pub(super) file: &'t str,
    /// Whole text.
    pub(super) text: &'t str,
}

impl Source<'_> {
    /// Place of a byte offset.
    pub(super) fn at(&self, offset: usize) -> RuleRef {
        let before = self.text.as_bytes().iter().take(offset);
        let newlines = before.filter(|byte| **byte == b'\n').count();
        RuleRef {
            file: self.file.to_owned(),
            line: u32::try_from(newlines.saturating_add(1)).unwrap_or(u32::MAX),
        }
    }

    /// Place of a value.
    pub(super) fn of<T>(&self, value: &Spanned<T>) -> RuleRef {
        self.at(value.span().start)
    }

    /// An error about a value.
    pub(super) fn wrong<T>(&self, value: &Spanned<T>, key: &str, problem: String) -> ProfileError {
        ProfileError::Value {
            at: self.of(value),
            key: key.to_owned(),
            problem,
        }
    }

    /// The line that a place names, trimmed and shortened.
    fn line(&self, at: &RuleRef) -> String {
        let index = usize::try_from(at.line)
            .unwrap_or(usize::MAX)
            .saturating_sub(1);
        let line = self.text.lines().nth(index).unwrap_or_default().trim();
        line.chars().take(80).collect()
    }

    /// What the TOML reader reports, with a place and, for unknown keys, the nearest known one.
    pub(super) fn explain(&self, error: &toml::de::Error) -> ProfileError {
        let at = self.at(error.span().unwrap_or(Range { start: 0, end: 0 }).start);
        let message = error.message();
        if let Some(rest) = message.strip_prefix("unknown field ") {
            let mut words = quoted(rest).into_iter();
            let key = words.next().unwrap_or_default().to_owned();
            let known: Vec<&str> = words.collect();
            let hint = suggestion(&key, &known);
            return ProfileError::UnknownKey { at, key, hint };
        }
        let text = self.line(&at);
        ProfileError::Syntax {
            at,
            problem: message.trim_end().replace('\n', "; "),
            text,
        }
    }
}

/// The words between backticks.
pub(super) fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// "did you mean …", or the list of what is known.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(steps, _)| *steps <= word.chars().count().div_ceil(3).max(1))
        .min();
    match near {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => "no key is known here; remove it".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// Levenshtein distance, with `-` and `_` alike.
fn distance(left: &str, right: &str) -> usize {
    let alike = |letter: char| {
        if letter == '-' {
            '_'
        } else {
            letter.to_ascii_lowercase()
        }
    };
    let right: Vec<char> = right.chars().map(alike).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().map(alike).enumerate() {
        let mut diagonal = index;
        let mut left_cell = index.saturating_add(1);
        let mut next = vec![left_cell];
        for (above, other) in row.iter().skip(1).zip(&right) {
            let replaced = diagonal.saturating_add(usize::from(letter != *other));
            left_cell = replaced
                .min(above.saturating_add(1))
                .min(left_cell.saturating_add(1));
            next.push(left_cell);
            diagonal = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (left, right, steps) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("a-b", "a_b", 0),
        ] {
            assert_eq!(distance(left, right), steps, "{left} {right}");
        }
    }

    #[test]
    fn a_near_key_is_suggested_and_a_far_one_is_not() {
        let known = ["read", "write", "readonly"];
        assert_eq!(suggestion("raed", &known), "did you mean `read`?");
        assert_eq!(suggestion("read-only", &known), "did you mean `readonly`?");
        assert_eq!(
            suggestion("mounts", &known),
            "known here: read, write, readonly"
        );
    }

    #[test]
    fn offsets_become_lines() {
        let source = Source {
            file: "a.toml",
            text: "x\ny\n\nz",
        };
        let lines: Vec<u32> = [0, 1, 2, 4, 5, 99]
            .map(|offset| source.at(offset).line)
            .to_vec();
        assert_eq!(lines, [1, 1, 2, 3, 4, 4]);
    }
}
