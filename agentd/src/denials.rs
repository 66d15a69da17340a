//! Denials inferred from what a command printed: a line with the text of an errno names a path or an
//! address, and the policy says whether that is refused. The word alone proves nothing; only the
//! policy's answer does. Pure.

mod hidden;
mod lines;
mod redirect;
mod suspect;

pub use hidden::mentioned;
pub use lines::suspects;
pub use suspect::{Suspect, judge};

/// Most denials in one result.
pub const MAX_DENIALS: usize = 16;

/// Most questions asked of the policy for one command.
pub(crate) const MAX_SUSPECTS: usize = 64;

/// Bytes of a script that are looked at, from its start. This runs between everybody's commands, so its
/// work is bounded whatever a script holds.
const SCRIPT_HEAD: usize = 128 * 1024;

/// What is known of the command beside its output.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The script, to tell a redirection from a read.
    pub script: &'a [u8],
    /// Working directory, from which relative paths are taken.
    pub cwd: &'a str,
}

impl<'a> Scene<'a> {
    /// The part of the script that is looked at.
    fn script_head(&self) -> &'a [u8] {
        self.script.get(..SCRIPT_HEAD).unwrap_or(self.script)
    }
}

#[cfg(test)]
mod tests;
