//! Where a nested construct of bash ends: `$(…)`, `${…}`, and backquotes, with everything that may hide
//! the closing delimiter inside. One pass, no recursion, whatever the nesting.

/// How often a here-document may turn out to be none (a shift in arithmetic) before `<<` is no longer
/// believed. Each failure reads all of the rest.
const MAX_FAILED_SEARCHES: u32 = 64;

/// A construct whose closing delimiter is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// `(`: commands.
    Paren,
    /// `${`: a parameter.
    Brace,
    /// A double quote.
    Double,
}

/// Length of the piece of a word at the start of the text: a quoted text, an escaped character or an
/// expansion as a whole, else one character. `None` when its end is missing.
pub(super) fn piece(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let first = chars.next()?;
    let second = chars.next();
    let to_end = |opening: usize, find: fn(&str) -> Option<usize>| {
        let end = find(text.get(opening..)?)?;
        Some(opening.saturating_add(end).saturating_add(1))
    };
    match (first, second) {
        ('\\', escaped) => Some(escaped.map_or(0, char::len_utf8).saturating_add(1)),
        ('\'', _) => to_end(1, |inside| inside.find('\'')),
        ('"', _) => to_end(1, |inside| closing(inside, Open::Double)),
        ('`', _) => to_end(1, closing_backquote),
        ('$', Some('(')) => to_end(2, |inside| closing(inside, Open::Paren)),
        ('$', Some('{')) => to_end(2, |inside| closing(inside, Open::Brace)),
        ('$', Some('[')) => to_end(2, |inside| inside.find(']')),
        ('$', Some('\'')) => to_end(2, closing_ansi_quote),
        ('$', Some('"')) => to_end(2, |inside| closing(inside, Open::Double)),
        (other, _) => Some(other.len_utf8()),
    }
}

/// Byte index of the delimiter that closes `open`, in the text right after its opening.
pub(super) fn closing(text: &str, open: Open) -> Option<usize> {
    let mut finder = Finder {
        text,
        at: 0,
        stack: vec![open],
        previous: ' ',
        heredocs: Vec::new(),
        searches: MAX_FAILED_SEARCHES,
    };
    while let Some(c) = finder.next() {
        if let Some(end) = finder.step(c) {
            return Some(end);
        }
    }
    None
}

/// Byte index of the unescaped backquote that ends a substitution, in the text right after its start.
pub(super) fn closing_backquote(text: &str) -> Option<usize> {
    unescaped(text, '`')
}

/// Byte index of the quote that ends `$'…'`, in the text right after its start.
pub(super) fn closing_ansi_quote(text: &str) -> Option<usize> {
    unescaped(text, '\'')
}

fn unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let found = !escaped && c == wanted;
        escaped = !escaped && c == '\\';
        found.then_some(at)
    })
}

struct Finder<'a> {
    text: &'a str,
    /// Start of the rest.
    at: usize,
    stack: Vec<Open>,
    /// Character before the current one; decides whether `#` starts a comment.
    previous: char,
    /// Tags of the here-documents whose bodies start after this line.
    heredocs: Vec<String>,
    /// Searches for the end of a here-document that may still fail.
    searches: u32,
}

impl<'a> Finder<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at = self.at.saturating_add(c.len_utf8());
        Some(c)
    }

    fn skip(&mut self, bytes: Option<usize>) {
        let rest = self.rest().len();
        // Past the closing delimiter, which is one byte long; to the end when there is none.
        let step = bytes.map_or(rest, |bytes| bytes.saturating_add(1));
        self.at = self.at.saturating_add(step);
    }

    /// Digests one character; the end when it closes the outermost construct.
    fn step(&mut self, c: char) -> Option<usize> {
        let before = std::mem::replace(&mut self.previous, c);
        let top = *self.stack.last()?;
        match (c, top) {
            ('\\', _) => {
                self.next();
            }
            ('`', _) => self.skip(closing_backquote(self.rest())),
            ('$', _) => self.dollar(top),
            ('"', Open::Double) | (')', Open::Paren) | ('}', Open::Brace) => {
                self.stack.pop();
                if self.stack.is_empty() {
                    return self.at.checked_sub(c.len_utf8());
                }
            }
            ('"', Open::Paren | Open::Brace) => self.stack.push(Open::Double),
            ('(', Open::Paren) => self.stack.push(Open::Paren),
            ('\'', Open::Paren) => self.skip(self.rest().find('\'')),
            ('\'', Open::Brace) if !self.quoted() => self.skip(self.rest().find('\'')),
            ('#', Open::Paren) if starts_word(before) => {
                let end = self.rest().find('\n').unwrap_or_else(|| self.rest().len());
                self.at = self.at.saturating_add(end);
            }
            ('<', Open::Paren) => self.less(),
            ('\n', Open::Paren) => self.skip_heredocs(),
            (_, _) => {}
        }
        None
    }

    /// A `${…}` inside double quotes keeps single quotes as they are.
    fn quoted(&self) -> bool {
        let around = self.stack.iter().rev().find(|open| **open != Open::Brace);
        around == Some(&Open::Double)
    }

    fn dollar(&mut self, top: Open) {
        match self.rest().chars().next() {
            Some('(') => {
                self.next();
                self.stack.push(Open::Paren);
            }
            Some('{') => {
                self.next();
                self.stack.push(Open::Brace);
            }
            Some('\'') if top != Open::Double => {
                self.next();
                self.skip(closing_ansi_quote(self.rest()));
            }
            Some(_) | None => {}
        }
    }

    /// A second `<` announces a here-document; a third one makes it a here-string.
    fn less(&mut self) {
        let Some(after) = self.rest().strip_prefix('<') else {
            return;
        };
        self.next();
        if after.starts_with('<') {
            self.next();
            return;
        }
        let word = after
            .strip_prefix('-')
            .unwrap_or(after)
            .trim_start_matches([' ', '\t']);
        let end = word.find(|c: char| c.is_whitespace() || ";&|<>()".contains(c));
        let tag: String = word
            .get(..end.unwrap_or(word.len()))
            .unwrap_or_default()
            .chars()
            .filter(|c| !matches!(c, '\'' | '"' | '\\'))
            .collect();
        if !tag.is_empty() {
            self.heredocs.push(tag);
        }
    }

    /// Skips the bodies of the announced here-documents. One without an end is none (`1<<2`).
    fn skip_heredocs(&mut self) {
        for tag in std::mem::take(&mut self.heredocs) {
            if self.searches == 0 {
                return;
            }
            let mut body = 0_usize;
            let end = self.rest().split_inclusive('\n').find_map(|line| {
                body = body.saturating_add(line.len());
                (line.trim_end_matches('\n').trim_start_matches('\t') == tag).then_some(body)
            });
            match end {
                // Up to the line break after the tag, which is read as any other.
                Some(end) => self.at = self.at.saturating_add(end.saturating_sub(1)),
                None => self.searches = self.searches.saturating_sub(1),
            }
        }
    }
}

fn starts_word(before: char) -> bool {
    before.is_whitespace() || ";&|(".contains(before)
}
