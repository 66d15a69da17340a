//! Denials inferred from what a command printed: a line with the text of an errno names a path or an
//! address, and the policy says whether that is refused. The word alone proves nothing; only the
//! policy's answer does. Pure.

mod hidden;
mod lines;
mod suspect;

pub use hidden::mentioned;
pub use lines::suspects;
pub use suspect::{Suspect, judge};

/// Most denials in one result.
pub const MAX_DENIALS: usize = 16;

/// Most questions asked of the policy for one command.
pub(crate) const MAX_SUSPECTS: usize = 64;

/// What is known of the command beside its output.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The script, to tell a redirection from a read.
    pub script: &'a [u8],
    /// Working directory, from which relative paths are taken.
    pub cwd: &'a str,
}

#[cfg(test)]
mod tests;
