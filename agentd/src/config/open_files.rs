//! How many commands fit into the limit of open files.

use super::ConfigError;

/// Open files of one command: its two outputs, its input, its report to its session, the file that keeps
/// its output. A terminal takes fewer.
const OF_ONE: u64 = 5;

/// Open files of the daemon itself, and of a few connections.
const OWN: u64 = 64;

/// Most commands at once with that many open files.
fn most(open_files: u64) -> usize {
    let left = open_files.saturating_sub(OWN).checked_div(OF_ONE);
    usize::try_from(left.unwrap_or_default()).unwrap_or(usize::MAX)
}

/// A number that was configured must fit.
pub(super) fn check(max_execs: usize, open_files: u64) -> Result<usize, ConfigError> {
    match most(open_files) {
        most if max_execs <= most => Ok(max_execs),
        most => Err(ConfigError::OpenFiles {
            max_execs,
            most,
            open_files,
        }),
    }
}

/// One that was not becomes smaller, but never none.
pub(super) fn fitting(default: usize, open_files: u64) -> usize {
    default.min(most(open_files)).max(1)
}
