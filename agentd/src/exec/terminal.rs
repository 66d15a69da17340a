//! The master side of a command's terminal: what it prints comes out of it, what is typed goes in.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{read, write},
};
use tokio::io::unix::AsyncFd;

/// The master, watched by the runtime.
#[derive(Debug)]
pub(super) struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// Takes over the master, whose open file becomes non-blocking.
    pub(super) fn watch(master: OwnedFd) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&master, FcntlArg::F_GETFL)?);
        fcntl(&master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for descriptors that could close early; an OwnedFd cannot"
        )]
        AsyncFd::new(master).map(Self)
    }

    /// Waits until something can be read, and reads it. Nothing, or an error, at the end: when no
    /// process has the terminal open any more that is `EIO`.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(outcome) = ready.try_io(|fd| Ok(read(fd.get_ref(), buffer)?)) {
                return outcome;
            }
        }
    }

    /// Reads what is there now, whatever the runtime believes.
    pub(super) fn read_now(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        read(self.0.get_ref(), buffer)
    }

    /// Waits until something may be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        // Kept as it is: a write that would block clears it.
        self.0
            .writable()
            .await
            .map(|mut ready| ready.retain_ready())
    }

    /// Writes what fits now.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_io(tokio::io::Interest::WRITABLE, |fd| {
            Ok(write(fd.as_fd(), bytes)?)
        })
    }
}
