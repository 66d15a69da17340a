//! Standard output: results are written whole, and whether they arrived is known. Knows nothing of what
//! they are.

use std::io::{self, ErrorKind, Write};

/// Exit code when the reader of our output went away, as a shell says it: 128 + SIGPIPE. Nobody reads, so
/// nothing is said.
pub const READER_GONE: u8 = 141;

/// Writes a result.
///
/// # Errors
/// Standard output is closed, full or broken.
pub fn write(result: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(result)?;
    // What stays in the buffer is written at the exit, where nobody would hear of a failure.
    out.flush()
}

/// The exit code of a command whose result could not be written: [`READER_GONE`], else `otherwise`.
#[must_use]
pub fn exit_code(error: &io::Error, otherwise: u8) -> u8 {
    if error.kind() == ErrorKind::BrokenPipe {
        READER_GONE
    } else {
        otherwise
    }
}

#[cfg(test)]
mod tests {
    use super::exit_code;
    use std::io::{Error, ErrorKind};

    #[test]
    fn only_a_reader_that_went_away_has_the_code_of_sigpipe() {
        assert_eq!(exit_code(&Error::from(ErrorKind::BrokenPipe), 125), 141);
        assert_eq!(exit_code(&Error::from(ErrorKind::StorageFull), 125), 125);
    }
}
