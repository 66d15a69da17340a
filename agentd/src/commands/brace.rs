//! Brace expansion of a raw word (`rm -rf /{usr,etc}`, `{sudo,x}`), as far as it can be done before the
//! script runs. Sequences (`{1..9}`) stay: no rule is about them.

use super::extent;

/// Most words that one word may become. Beyond that the rest stays unexpanded.
const MAX_WORDS: usize = 64;

/// Longest word that is expanded, in bytes; a bound on the work.
const MAX_WORD_BYTES: usize = 4_096;

/// The words that a raw word becomes; quotes and other expansions are kept. Repetitions are possible.
pub(super) fn expand(raw: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut left = vec![raw.to_owned()];
    while let Some(word) = left.pop() {
        let full =
            word.len() > MAX_WORD_BYTES || done.len().saturating_add(left.len()) >= MAX_WORDS;
        match alternatives(&word).filter(|_| !full) {
            Some(words) => left.extend(words.into_iter().rev()),
            None => done.push(word),
        }
    }
    done
}

/// Replaces the first complete group of a word by each of its members.
fn alternatives(word: &str) -> Option<Vec<String>> {
    let group = first_group(word)?;
    let before = word.get(..group.open)?;
    let after = word.get(group.close.saturating_add(1)..)?;
    let starts = std::iter::once(group.open).chain(group.commas.iter().copied());
    let ends = group
        .commas
        .iter()
        .copied()
        .chain(std::iter::once(group.close));
    let members = starts
        .zip(ends)
        .filter_map(|(start, end)| word.get(start.saturating_add(1)..end));
    Some(
        members
            .map(|member| format!("{before}{member}{after}"))
            .collect(),
    )
}

/// Byte indices of `{`, of its own commas, and of `}`.
struct Group {
    open: usize,
    commas: Vec<usize>,
    close: usize,
}

/// The first group with a comma to be closed: of nested ones the inner, which gives the same words.
fn first_group(word: &str) -> Option<Group> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut at = 0_usize;
    while let Some(rest) = word.get(at..).filter(|rest| !rest.is_empty()) {
        // Braces and commas in a quoted text or an expansion mean nothing.
        let length = extent::piece(rest).unwrap_or(rest.len());
        if length == 1 {
            match (rest.as_bytes().first()?, open.last_mut()) {
                (b'{', _) => open.push((at, Vec::new())),
                (b',', Some((_, commas))) => commas.push(at),
                (b'}', Some(_)) => {
                    let (start, commas) = open.pop()?;
                    if !commas.is_empty() {
                        return Some(Group {
                            open: start,
                            commas,
                            close: at,
                        });
                    }
                }
                (_, _) => {}
            }
        }
        at = at.saturating_add(length);
    }
    None
}
