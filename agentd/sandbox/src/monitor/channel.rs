//! A `SOCK_SEQPACKET` socket that carries one JSON message per datagram, with file descriptors.

use std::{
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::errno::Errno;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::sys;

/// Largest message in bytes. A larger one is refused by the sender and fatal at the receiver.
pub const MAX_MESSAGE: usize = 128 * 1024;

/// Most file descriptors beside one message.
pub const MAX_FDS: usize = 4;

/// Why a message did not go through.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The socket is not ready; try again when it is (only on a non-blocking socket).
    #[error("the socket is not ready")]
    WouldBlock,
    /// The message is larger than [`MAX_MESSAGE`].
    #[error("a message of {0} bytes is larger than the {MAX_MESSAGE} that fit")]
    TooLarge(usize),
    /// The peer said something outside the protocol.
    #[error("the peer sent a message outside the protocol")]
    Protocol(#[source] serde_json::Error),
    /// A system call failed.
    #[error("socket: {0}")]
    Socket(Errno),
}

impl ChannelError {
    /// The peer is gone: it closed its end, perhaps with messages in it that it never read.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Socket(Errno::ECONNRESET | Errno::EPIPE))
    }
}

impl From<Errno> for ChannelError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::EAGAIN {
            Self::WouldBlock
        } else {
            Self::Socket(errno)
        }
    }
}

/// A received message.
#[derive(Debug)]
pub struct Received<T> {
    /// The message.
    pub message: T,
    /// File descriptors beside it, all close-on-exec; none when some are missing.
    pub fds: Vec<OwnedFd>,
    /// Descriptors are missing: this process may not open as many. The message itself is whole.
    pub fds_lost: bool,
}

/// One end; sends `Tx`, receives `Rx`. The other end is the mirror image.
#[derive(Debug)]
pub struct Channel<Tx, Rx> {
    fd: OwnedFd,
    types: PhantomData<fn(Tx) -> Rx>,
}

impl<Tx: Serialize, Rx: DeserializeOwned> Channel<Tx, Rx> {
    /// Both ends, close-on-exec, blocking.
    pub fn pair() -> Result<(Self, Channel<Rx, Tx>), ChannelError> {
        let (ours, theirs) = sys::socket::seqpacket_pair()?;
        Ok((
            Self::from_fd(ours),
            Channel {
                fd: theirs,
                types: PhantomData,
            },
        ))
    }

    /// Wraps one end that was inherited.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self {
            fd,
            types: PhantomData,
        }
    }

    /// Gives the file descriptor back, for passing it on.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Makes `send` and `recv` return [`ChannelError::WouldBlock`] instead of waiting.
    pub fn set_nonblocking(&self) -> Result<(), ChannelError> {
        Ok(sys::socket::set_nonblocking(self.fd.as_fd())?)
    }

    /// Sends one message. It arrives whole or not at all.
    pub fn send(&self, message: &Tx, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let bytes = serde_json::to_vec(message).map_err(ChannelError::Protocol)?;
        self.send_encoded(&bytes, fds)
    }

    /// Sends one message that was encoded before (for a queue of unsent messages).
    pub fn send_encoded(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        if bytes.len() > MAX_MESSAGE {
            return Err(ChannelError::TooLarge(bytes.len()));
        }
        Ok(sys::socket::send_with_fds(self.fd.as_fd(), bytes, fds)?)
    }

    /// Receives one message; `None` when the peer is gone.
    pub fn recv(&self) -> Result<Option<Received<Rx>>, ChannelError> {
        let mut buffer = vec![0_u8; MAX_MESSAGE.saturating_add(1)];
        let sys::socket::Datagram {
            length,
            fds,
            fds_lost,
        } = sys::socket::recv_with_fds(self.fd.as_fd(), &mut buffer)?;
        if length == 0 {
            return Ok(None);
        }
        let bytes = buffer.get(..length).unwrap_or_default();
        if bytes.len() > MAX_MESSAGE {
            return Err(ChannelError::TooLarge(length));
        }
        let message = serde_json::from_slice(bytes).map_err(ChannelError::Protocol)?;
        Ok(Some(Received {
            message,
            fds,
            fds_lost,
        }))
    }
}

impl<Tx, Rx> AsFd for Channel<Tx, Rx> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
