//! The name of a program as it is invoked.

use super::word::Word;

/// The last path component of a command word, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'a> {
    text: &'a str,
    complete: bool,
}

impl Name<'_> {
    /// Compares with a pattern; a trailing `*` matches any rest.
    pub(super) fn matches(&self, pattern: &str) -> bool {
        match pattern.strip_suffix('*') {
            Some(start) => self.text.starts_with(start),
            None => self.complete && self.text == pattern,
        }
    }
}

/// The name in a command word. `None` when nothing of it is known.
pub(super) fn name(word: &Word) -> Option<Name<'_>> {
    let (text, complete) = if word.complete {
        (word.known.as_str(), true)
    } else if let Some((_, last)) = word.ending.rsplit_once('/') {
        // `$BIN/sudo`: only the directory is unknown.
        return Some(Name {
            text: last,
            complete: true,
        })
        .filter(|name| !name.text.is_empty());
    } else {
        (word.known.as_str(), false)
    };
    let last = text.rsplit_once('/').map_or(text, |(_, last)| last);
    (!last.is_empty()).then_some(Name {
        text: last,
        complete,
    })
}

/// The name of a program that is known in full.
pub(super) fn known_name(word: &Word) -> Option<&str> {
    name(word)
        .filter(|name| name.complete)
        .map(|name| name.text)
}
