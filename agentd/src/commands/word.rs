//! One word of the script: what is known of its value before the script runs, and the scripts nested
//! in it. Quotes and escapes are removed; expansions are not performed, they end what is known.

use super::{
    ansi_c,
    extent::{self, Open},
};

/// Stands for the home directory (`~`, `$HOME`) in a known text. A private-use character: a quoted
/// tilde is a file name, and must not be taken for it.
pub(super) const HOME: char = '\u{10fffd}';

/// How deep expansions in a word are followed at once.
const MAX_DEPTH: u32 = 16;

/// What is known of a word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// As written.
    pub(super) raw: String,
    /// Value up to the first expansion.
    pub(super) known: String,
    /// Value after the last expansion; empty without any.
    pub(super) ending: String,
    /// The value as the text of a script, with a parameter in place of each expansion: it parses as the
    /// value would, if the expansions hold no syntax.
    pub(super) script: String,
    /// There is no expansion: `known` is the value.
    pub(super) complete: bool,
    /// There is an unquoted `*`, `?` or `[`, which bash may expand to file names.
    pub(super) glob: bool,
    /// Texts of command substitutions.
    pub(super) scripts: Vec<String>,
}

/// How quotes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// A word of a command.
    Word,
    /// Inside double quotes.
    Double,
    /// The body of a here-document, or arithmetic: quotes are ordinary characters.
    Body,
}

impl Word {
    /// Reads a word of a command.
    pub(super) fn parse(raw: &str) -> Self {
        let mut reader = Reader::new(raw, 0);
        reader.home_at_start();
        reader.read(Quoting::Word);
        raw.clone_into(&mut reader.word.raw);
        reader.word
    }

    /// The value, when it is known in full.
    pub(super) fn value(&self) -> Option<&str> {
        self.complete.then_some(self.known.as_str())
    }
}

/// The scripts nested in the body of a here-document or in an arithmetic expression.
pub(super) fn scripts_in_body(text: &str) -> Vec<String> {
    let mut reader = Reader::new(text, 0);
    reader.read(Quoting::Body);
    reader.word.scripts
}

struct Reader<'a> {
    rest: &'a str,
    word: Word,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, depth: u32) -> Self {
        Self {
            rest: text,
            depth,
            word: Word {
                complete: true,
                ..Word::default()
            },
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest.strip_prefix(prefix);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    /// Takes the text up to the closing delimiter, and drops the delimiter. Everything when there is
    /// none: the parser has let such a word pass, so it is read as far as it goes.
    fn take_to(&mut self, end: Option<usize>) -> &'a str {
        let end = end.unwrap_or(self.rest.len());
        let (inside, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest.get(1..).unwrap_or_default();
        inside
    }

    fn push(&mut self, c: char) {
        if c == HOME {
            self.word.script.push_str("$HOME");
        } else {
            self.word.script.push(c);
        }
        if self.word.complete {
            self.word.known.push(c);
        } else {
            self.word.ending.push(c);
        }
    }

    fn push_str(&mut self, text: &str) {
        text.chars().for_each(|c| self.push(c));
    }

    fn unknown(&mut self) {
        self.word.script.push_str("$_");
        self.word.complete = false;
        self.word.ending.clear();
    }

    /// An unquoted `~` at the start of a word, or right after the `=` of an assignment.
    fn home_at_start(&mut self) {
        let after = self.rest.strip_prefix('~');
        if let Some(after) = after
            && (after.is_empty() || after.starts_with('/'))
        {
            self.rest = after;
            self.push(HOME);
        }
    }

    fn read(&mut self, quoting: Quoting) {
        while let Some(c) = self.next() {
            match (c, quoting) {
                ('\\', _) => self.escape(quoting),
                ('$', _) => self.dollar(quoting),
                ('`', _) => self.backquote(quoting),
                ('\'', Quoting::Word) => {
                    let inside = self.take_to(self.rest.find('\''));
                    self.push_str(inside);
                }
                ('"', Quoting::Word) => self.double_quotes(),
                ('*' | '?' | '[', Quoting::Word) => {
                    self.word.glob = true;
                    self.push(c);
                }
                ('=', Quoting::Word) => {
                    self.push(c);
                    self.home_at_start();
                }
                (other, _) => self.push(other),
            }
        }
    }

    fn double_quotes(&mut self) {
        let inside = self.take_to(extent::closing(self.rest, Open::Double));
        let after = std::mem::replace(&mut self.rest, inside);
        self.read(Quoting::Double);
        self.rest = after;
    }

    fn escape(&mut self, quoting: Quoting) {
        match (self.next(), quoting) {
            (Some('\n') | None, _) => {}
            (Some(c), Quoting::Word) | (Some(c @ ('$' | '`' | '"' | '\\')), _) => self.push(c),
            (Some(c), Quoting::Double | Quoting::Body) => {
                self.push('\\');
                self.push(c);
            }
        }
    }

    fn backquote(&mut self, quoting: Quoting) {
        let inside = self.take_to(extent::closing_backquote(self.rest));
        let mut script = String::with_capacity(inside.len());
        let mut chars = inside.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, chars.peek()) {
                ('\\', Some('`' | '\\' | '$')) => script.extend(chars.next()),
                ('\\', Some('"')) if quoting == Quoting::Double => script.extend(chars.next()),
                (other, _) => script.push(other),
            }
        }
        self.word.scripts.push(script);
        self.unknown();
    }

    fn dollar(&mut self, quoting: Quoting) {
        if self.eat("(") {
            self.parentheses();
        } else if self.eat("{") {
            self.braces();
        } else if self.eat("[") {
            self.unknown();
        } else if quoting == Quoting::Word && self.eat("'") {
            let inside = self.take_to(extent::closing_ansi_quote(self.rest));
            self.push_str(&ansi_c::decode(inside));
        } else if quoting == Quoting::Word && self.eat("\"") {
            self.double_quotes();
        } else {
            self.parameter();
        }
    }

    /// `$(script)`, or `$((arithmetic))`, in which only substitutions are scripts.
    fn parentheses(&mut self) {
        let inside = self.take_to(extent::closing(self.rest, Open::Paren));
        let arithmetic = inside
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        match arithmetic {
            Some(expression) => self.nested(expression, Quoting::Body),
            None => self.word.scripts.push(inside.to_owned()),
        }
        self.unknown();
    }

    /// Collects the scripts in the inside of an expansion. Too deep down the inside counts as a script
    /// itself, which is read later and within the bounds for scripts.
    fn nested(&mut self, inside: &str, quoting: Quoting) {
        let depth = self.depth.saturating_add(1);
        if depth > MAX_DEPTH {
            self.word.scripts.push(inside.to_owned());
        } else {
            let mut reader = Reader::new(inside, depth);
            reader.read(quoting);
            self.word.scripts.append(&mut reader.word.scripts);
        }
    }

    /// `${…}`. Home stays known through the operators that only test it or strip a slash.
    fn braces(&mut self) {
        let inside = self.take_to(extent::closing(self.rest, Open::Brace));
        self.nested(inside, Quoting::Word);
        let home = inside.strip_prefix("HOME").is_some_and(|operator| {
            operator.is_empty() || operator.starts_with([':', '-', '?', '%', '='])
        });
        if home {
            self.push(HOME);
        } else {
            self.unknown();
        }
    }

    /// `$name` and the special parameters; a `$` before anything else is itself.
    fn parameter(&mut self) {
        let name_end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        let (name, rest) = self
            .rest
            .split_at_checked(name_end)
            .unwrap_or((self.rest, ""));
        if name == "HOME" {
            self.rest = rest;
            self.push(HOME);
        } else if name.starts_with(|c: char| c.is_ascii_digit())
            || self.rest.starts_with(['@', '*', '#', '?', '-', '$', '!'])
        {
            self.next();
            self.unknown();
        } else if name.is_empty() {
            self.push('$');
        } else {
            self.rest = rest;
            self.unknown();
        }
    }
}
