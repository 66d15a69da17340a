//! Where a script redirects output to. Found once for a command, in one pass over its script. Pure.

use std::collections::HashSet;

/// Longest target that is kept, in bytes; longer words of output are no paths either.
const LONGEST: usize = 512;

/// Targets of the redirections in a script, as written there, in each of the ways in which one can be
/// read: up to the end of a path, of a word, of a quotation.
#[derive(Debug)]
pub(super) struct Redirections<'s>(HashSet<&'s [u8]>);

impl<'s> Redirections<'s> {
    /// Finds them. Linear in the script, whatever it holds.
    pub(super) fn of(script: &'s [u8]) -> Self {
        let mut targets = HashSet::new();
        for after in script.split(|byte| *byte == b'>').skip(1) {
            let lead = length_where(after, |byte| b"|& \t\"'".contains(&byte));
            let (lead, target) = after.split_at_checked(lead).unwrap_or((after, &[]));
            let target = target.strip_prefix(b"./").unwrap_or(target);
            let path = length_where(target, is_path_byte);
            let word = length_where(target, |byte| !b" \t\n;&|<()\"'".contains(&byte));
            let quoted = lead
                .last()
                .filter(|last| b"\"'".contains(last))
                .map_or(0, |quote| length_where(target, |byte| byte != *quote));
            for length in [path, word, quoted] {
                let found = target.get(..length).unwrap_or_default();
                if !found.is_empty() && found.len() < LONGEST {
                    targets.insert(found);
                }
            }
        }
        Self(targets)
    }

    /// True when output goes to `path`, absolute, in a script that runs in `cwd`.
    pub(super) fn hold(&self, path: &str, cwd: &str) -> bool {
        let below_cwd = path
            .strip_prefix(cwd)
            .and_then(|rest| rest.strip_prefix('/'));
        [Some(path), below_cwd]
            .into_iter()
            .flatten()
            .any(|wanted| self.0.contains(wanted.as_bytes()))
    }
}

/// Number of bytes at the start that are all so.
fn length_where(bytes: &[u8], is_so: impl Fn(u8) -> bool) -> usize {
    bytes
        .iter()
        .position(|byte| !is_so(*byte))
        .unwrap_or(bytes.len())
}

/// A byte of what [`is_path_char`](super::lines::is_path_char) takes, or of any character beyond ASCII.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_in_each_of_its_spellings_and_nothing_else_is() {
        for script in [
            "echo >/w/a.txt",
            "echo > a.txt",
            "echo >>a.txt; true",
            "echo >| ./a.txt",
            "echo &> 'a.txt'",
            "echo 2>\"/w/a.txt\"&",
            "(echo >a.txt)",
        ] {
            let found = Redirections::of(script.as_bytes());
            assert!(found.hold("/w/a.txt", "/w"), "{script}");
            assert!(!found.hold("/w/a.tx", "/w"), "{script}");
            assert!(!found.hold("/w", "/w"), "{script}");
        }
        for script in [
            "",
            ">",
            "a.txt",
            "cat <a.txt",
            "echo >a.txt2",
            "echo >/v/w/a.txt",
        ] {
            let found = Redirections::of(script.as_bytes());
            assert!(!found.hold("/w/a.txt", "/w"), "{script}");
        }
        let spaced = Redirections::of(b"echo > 'my file'; echo > a+b; echo > \xc3\xa4");
        for name in ["my file", "a+b", "\u{e4}"] {
            assert!(spaced.hold(&format!("/w/{name}"), "/w"), "{name}");
        }
        let elsewhere = Redirections::of(b"echo > ork/x");
        assert!(!elsewhere.hold("/elsewhere/x", "/w"), "another directory");
    }
}
