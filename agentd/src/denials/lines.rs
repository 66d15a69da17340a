//! Finds suspects in output. Works on bytes that may be anything; its work is linear in them.

use std::{cell::OnceCell, collections::HashSet};

use super::{
    MAX_SUSPECTS, Scene,
    redirect::Redirections,
    suspect::{Access, Suspect},
};

/// Longest line that is looked at. Error messages are short; a longer line is data.
const MAX_LINE: usize = 1024;

/// Most different words that are looked at as paths. A message holds a few, and what follows from more
/// of them is not told anyway.
const MAX_WORDS: usize = 512;

/// Most words of one line that are looked at.
const MAX_LINE_WORDS: usize = 16;

/// What an errno text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Errno {
    /// Refused. On most hosts the file's own permissions do the same.
    Refused,
    /// Nothing can be changed there.
    ReadOnly,
    /// Not there. In a root of its own that is how a hidden path looks.
    Missing,
    /// No way to that address.
    Unreachable,
}

const TEXTS: &[(&str, Errno)] = &[
    ("Permission denied", Errno::Refused),
    ("Operation not permitted", Errno::Refused),
    ("Read-only file system", Errno::ReadOnly),
    ("No such file or directory", Errno::Missing),
    ("Network is unreachable", Errno::Unreachable),
    ("Could not resolve host", Errno::Unreachable),
    ("Temporary failure in name resolution", Errno::Unreachable),
    ("Failed to connect to", Errno::Unreachable),
];

/// Words of messages about making, changing or removing something.
const CREATE_WORDS: &[&str] = &[
    "cannot touch",
    "cannot create",
    "cannot make",
    "cannot move",
    "cannot remove",
    "cannot overwrite",
    "cannot open for writing",
    "nable to create",
    "could not create",
    "could not lock",
    "couldn't open temporary file",
    "failed to create",
    "mkdir",
    "unlink",
    "rename",
];

/// Suspects in several pieces of output, in order of appearance, each once. The first and the last
/// line of a piece may be cut; then they match nothing or name a path that the policy allows.
#[must_use]
pub fn suspects(pieces: &[&[u8]], scene: &Scene<'_>) -> Vec<Suspect> {
    let mut search = Search {
        scene,
        redirections: OnceCell::new(),
        words: HashSet::new(),
        seen: HashSet::new(),
        found: Vec::new(),
    };
    for line in pieces.iter().flat_map(|piece| piece.split(|b| *b == b'\n')) {
        if search.is_over() {
            break;
        }
        if line.len() <= MAX_LINE {
            search.line(&String::from_utf8_lossy(line));
        }
    }
    search.found.truncate(MAX_SUSPECTS);
    search.found
}

/// What a message says was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tried {
    /// A look.
    Read,
    /// A change.
    Create,
    /// Either: the shell's line about a refused redirection looks like one about a refused program. The
    /// script tells them apart.
    OfTheShell,
}

struct Search<'s> {
    scene: &'s Scene<'s>,
    redirections: OnceCell<Redirections<'s>>,
    /// What was looked at: a flood of the same message costs no more than one.
    words: HashSet<(String, Tried)>,
    seen: HashSet<Suspect>,
    found: Vec<Suspect>,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.found.len() >= MAX_SUSPECTS || self.words.len() >= MAX_WORDS
    }

    fn line(&mut self, line: &str) {
        let Some((text, errno)) = TEXTS.iter().find(|(text, _)| line.contains(text)) else {
            return;
        };
        let tried = match errno {
            Errno::Unreachable => {
                if let Some(address) = address(line) {
                    self.add(address);
                }
                return;
            }
            Errno::ReadOnly => Tried::Create,
            Errno::Refused | Errno::Missing => tried(line),
        };
        for word in words(line, text).into_iter().take(MAX_LINE_WORDS) {
            if self.is_over() {
                return;
            }
            if !self.words.insert((word.to_owned(), tried)) {
                continue;
            }
            if let Some(path) = absolute(word, self.scene.cwd) {
                let access = self.access(&path, tried);
                self.add(Suspect::Path { path, access });
            }
        }
    }

    fn access(&self, path: &str, tried: Tried) -> Access {
        let redirections = || Redirections::of(self.scene.script_head());
        match tried {
            Tried::Read => Access::Read,
            Tried::Create => Access::Create,
            Tried::OfTheShell => {
                let redirections = self.redirections.get_or_init(redirections);
                if redirections.hold(path, self.scene.cwd) {
                    Access::Create
                } else {
                    Access::Read
                }
            }
        }
    }

    fn add(&mut self, suspect: Suspect) {
        if self.seen.insert(suspect.clone()) {
            self.found.push(suspect);
        }
    }
}

/// What was tried where an access was refused. A program's own line is never about a redirection.
fn tried(line: &str) -> Tried {
    if CREATE_WORDS.iter().any(|word| line.contains(word)) {
        Tried::Create
    } else if is_of_the_shell(line) {
        Tried::OfTheShell
    } else {
        Tried::Read
    }
}

/// True for `NAME: line N: …`, the form of bash's own messages.
fn is_of_the_shell(line: &str) -> bool {
    line.split_once(": line ").is_some_and(|(_, rest)| {
        rest.split_once(": ").is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

pub(super) fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')
}

/// Words of the line that may be paths. Quoted ones first: what is quoted is the subject.
fn words<'l>(line: &'l str, errno_text: &str) -> Vec<&'l str> {
    let quoted = quoted_words(line);
    if quoted.is_empty() {
        bare_words(line, errno_text)
    } else {
        quoted
    }
}

/// Words in straight or typographic quotes.
fn quoted_words(line: &str) -> Vec<&str> {
    const QUOTES: &[(char, char)] = &[('\'', '\''), ('"', '"'), ('‘', '’'), ('`', '\'')];
    let mut words = Vec::new();
    let mut rest = line;
    while let Some((start, close)) = rest.char_indices().find_map(|(at, c)| {
        let (open, close) = QUOTES.iter().find(|(open, _)| *open == c)?;
        Some((at.saturating_add(open.len_utf8()), *close))
    }) {
        let after = rest.get(start..).unwrap_or_default();
        let Some((word, tail)) = after.split_once(close) else {
            break;
        };
        words.push(word);
        rest = tail;
    }
    words
}

/// Without quotes: pieces between `: ` that are one word, or that hold a slash word. The program's own
/// name, which comes first, is a subject only when nothing else is.
fn bare_words<'l>(line: &'l str, errno_text: &str) -> Vec<&'l str> {
    let before = line.split(errno_text).next().unwrap_or_default();
    let after = line.split(errno_text).nth(1).unwrap_or_default();
    let mut pieces: Vec<&str> = before
        .split(": ")
        .chain(after.split(": "))
        .map(|piece| piece.trim().trim_end_matches([':', '.', ',', '(', ')']))
        .filter(|piece| !piece.is_empty())
        .collect();
    if pieces.len() > 1 {
        pieces.remove(0);
    }
    pieces
        .into_iter()
        .flat_map(|piece| {
            let whole = (!piece.contains(' ')).then_some(piece);
            let slashed = piece
                .split_whitespace()
                .filter(|word| piece.contains(' ') && word.contains('/'));
            whole.into_iter().chain(slashed)
        })
        .collect()
}

/// A word as an absolute path without `.` and `..`; `None` when it cannot be one.
fn absolute(word: &str, cwd: &str) -> Option<String> {
    let plausible = !word.is_empty()
        && word.len() < 512
        && !word
            .contains(|letter: char| letter.is_control() || letter == char::REPLACEMENT_CHARACTER)
        && !word.contains("://")
        && !word.starts_with(['-', '~', '$', '[', '<']);
    if !plausible {
        return None;
    }
    let joined = if word.starts_with('/') {
        word.to_owned()
    } else {
        format!("{cwd}/{word}")
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// The address that a message about the network names.
fn address(line: &str) -> Option<Suspect> {
    if let Some((_, rest)) = line.split_once("/dev/tcp/") {
        let mut parts = rest.split(['/', ':', ' ']);
        let (host, port) = (parts.next()?, parts.next()?);
        return connect(host, port);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    for (index, word) in words.iter().enumerate() {
        let next = at(index.saturating_add(1));
        match *word {
            "port" => return connect(at(index.saturating_sub(1)), next),
            "host:" => return connect(next, "0"),
            _ => {}
        }
    }
    None
}

fn connect(host: &str, port: &str) -> Option<Suspect> {
    let host = host.trim_matches(['\'', '"', ':', ',', ')', '(', '[', ']']);
    let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
    let plausible = !host.is_empty()
        && host.len() < 256
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':'));
    plausible.then(|| Suspect::Connect {
        host: host.to_owned(),
        port: digits.parse().unwrap_or(0),
    })
}
