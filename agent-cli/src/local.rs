//! Our own terminal, as a command on a terminal of its own needs it: raw mode, size, and changes of that.

#[cfg(unix)]
mod raw;

use crate::daemon::TerminalSize;

/// The size when there is no terminal to ask.
const USUAL: TerminalSize = TerminalSize {
    columns: 80,
    rows: 24,
};
/// Most columns or rows that the daemon takes.
const MOST: u16 = 4096;

/// A size that the daemon takes, whatever the terminal says.
fn sane(columns: u16, rows: u16) -> TerminalSize {
    if columns == 0 || rows == 0 {
        return USUAL;
    }
    TerminalSize {
        columns: columns.min(MOST),
        rows: rows.min(MOST),
    }
}

#[cfg(unix)]
mod system {
    use std::io;

    use rustix::termios;
    use tokio::signal::unix::{self, SignalKind};

    pub use super::raw::RawTerminal;
    use super::{TerminalSize, USUAL, sane};

    /// The size of our terminal, on whichever stream it is.
    #[must_use]
    pub fn size() -> TerminalSize {
        let sizes = [
            termios::tcgetwinsize(io::stdin()),
            termios::tcgetwinsize(io::stdout()),
            termios::tcgetwinsize(io::stderr()),
        ];
        let size = sizes.into_iter().flatten().next();
        size.map_or(USUAL, |size| sane(size.ws_col, size.ws_row))
    }

    /// Changes of the size.
    #[derive(Debug)]
    pub struct Resizes(unix::Signal);

    impl Resizes {
        /// Watches from now on; `None` when that is not possible.
        #[must_use]
        pub fn watch() -> Option<Self> {
            unix::signal(SignalKind::window_change()).ok().map(Self)
        }

        /// The next size.
        pub async fn next(&mut self) -> TerminalSize {
            self.0.recv().await;
            size()
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::{convert::Infallible, future, io};

    use super::{TerminalSize, USUAL};

    /// Raw mode; there is none here.
    #[derive(Debug)]
    pub struct RawTerminal {}

    impl RawTerminal {
        /// `None`.
        ///
        /// # Errors
        /// Never.
        pub fn enter() -> io::Result<Option<Self>> {
            Ok(None)
        }

        /// Never returns.
        pub async fn attend(&self) -> Infallible {
            future::pending().await
        }
    }

    /// The usual size.
    #[must_use]
    pub fn size() -> TerminalSize {
        USUAL
    }

    /// Changes of the size; there are none here.
    #[derive(Debug)]
    pub struct Resizes {}

    impl Resizes {
        /// `None`.
        #[must_use]
        pub fn watch() -> Option<Self> {
            None
        }

        /// Never returns.
        pub async fn next(&mut self) -> TerminalSize {
            future::pending().await
        }
    }
}

pub use system::{RawTerminal, Resizes, size};

#[cfg(test)]
mod tests {
    use super::{USUAL, sane};

    #[test]
    fn a_size_is_one_that_the_daemon_takes() {
        for ((columns, rows), expected) in [
            ((120, 40), (120, 40)),
            ((0, 0), (USUAL.columns, USUAL.rows)),
            ((0, 40), (USUAL.columns, USUAL.rows)),
            ((u16::MAX, 1), (4096, 1)),
        ] {
            let size = sane(columns, rows);
            assert_eq!((size.columns, size.rows), expected);
        }
    }
}
