//! Paths in arguments, brought into one spelling so that `//usr/../.` is recognised as `/`.
//!
//! Purely lexical: symbolic links are not followed, and the working directory is not known.

use super::word::{HOME, Word};

/// The spellings under which an argument or a redirection target is compared with patterns.
pub(super) fn spellings(word: &Word) -> Vec<String> {
    let mut spellings = vec![word.known.clone()];
    let (label, path) = match word.known.split_once('=') {
        Some((label, path)) => (format!("{label}="), path),
        None => (String::new(), word.known.as_str()),
    };
    if let Some(normal) = normal(path, word) {
        spellings.push(format!("{label}{normal}"));
    }
    if word.glob
        && word.complete
        && let Some(directory) = whole_directory(path)
    {
        let normal = normal(directory, word);
        spellings.extend(normal.map(|normal| format!("{label}{normal}")));
    }
    spellings
}

/// A pattern of a rule, with the home directory written as in a word.
pub(super) fn pattern(pattern: &str) -> String {
    let rest = pattern
        .strip_prefix("$HOME")
        .or_else(|| pattern.strip_prefix('~'))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match rest {
        Some(rest) => format!("{HOME}{rest}"),
        None => pattern.to_owned(),
    }
}

/// An absolute path, or one below home, without `//`, `/./`, `/../` and a slash at the end. `None` for
/// other paths. When only the start of the word is known, a slash at the end stays.
fn normal(path: &str, word: &Word) -> Option<String> {
    let (root, rest) = match path.strip_prefix(HOME) {
        Some(rest) => (HOME.to_string(), rest),
        None => (String::new(), path),
    };
    let is_home = rest.is_empty() && !root.is_empty();
    if !is_home && !rest.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if root.is_empty() || parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let open_end = if !word.complete && rest.ends_with('/') && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    let joined = format!("{root}/{}{open_end}", parts.join("/"));
    match joined.strip_suffix('/') {
        Some(home) if !home.is_empty() && open_end.is_empty() => Some(home.to_owned()),
        Some(_) | None => Some(joined),
    }
}

/// The directory whose whole contents a glob names (`/*`, `~/.*`): removing these removes it.
fn whole_directory(path: &str) -> Option<&str> {
    let (directory, last) = path.rsplit_once('/')?;
    let everything = matches!(last, "*" | ".*" | "**" | "?*" | ".[!.]*" | ".??*");
    everything.then_some(if directory.is_empty() { "/" } else { directory })
}
