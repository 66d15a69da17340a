//! Where a command's output goes: to our own streams as it arrives, or into memory for JSON.

use std::io;

use tokio::io::{AsyncWriteExt, Stderr, Stdout};

use super::report::Captures;
use crate::daemon::OutputStream;

/// Where output goes.
#[derive(Debug)]
pub enum Sink {
    /// To our own streams, byte for byte.
    Live {
        /// For standard output.
        stdout: Stdout,
        /// For standard error.
        stderr: Stderr,
    },
    /// Into memory.
    Captured(Box<Captures>),
}

impl Sink {
    /// A sink to our own streams.
    #[must_use]
    pub fn live() -> Self {
        Self::Live {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
        }
    }

    /// A sink into memory.
    #[must_use]
    pub fn captured() -> Self {
        Self::Captured(Box::default())
    }

    /// Takes the next bytes of a stream.
    ///
    /// # Errors
    /// Our own stream is closed or broken.
    pub async fn write(&mut self, stream: OutputStream, data: &[u8]) -> io::Result<()> {
        match (self, stream) {
            (Self::Live { stdout, .. }, OutputStream::Stdout) => {
                stdout.write_all(data).await?;
                stdout.flush().await
            }
            (Self::Live { stderr, .. }, OutputStream::Stderr) => {
                stderr.write_all(data).await?;
                stderr.flush().await
            }
            (Self::Captured(captures), stream) => {
                captures.output.push(data);
                match stream {
                    OutputStream::Stdout => captures.stdout.push(data),
                    OutputStream::Stderr => captures.stderr.push(data),
                }
                Ok(())
            }
        }
    }
}
