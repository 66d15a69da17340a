//! Who is at the other end of a connection, as the kernel says, and whether they may talk to us.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use agentd_sandbox::policy::Caller;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    sync::OwnedSemaphorePermit,
};
use tonic::{Request, transport::server::Connected};

use super::status::Problem;

/// The peer of a connection. In the extensions of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerInfo {
    /// Who.
    pub caller: Caller,
}

/// Who may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// User ids.
    pub uids: Vec<u32>,
    /// Primary group ids. Supplementary groups are not seen on a socket.
    pub gids: Vec<u32>,
}

impl Allowed {
    /// May this caller connect?
    #[must_use]
    pub fn admits(&self, caller: Caller) -> bool {
        self.uids.contains(&caller.uid) || self.gids.contains(&caller.gid)
    }
}

/// The caller of a request; an error when it came by no known connection, which is a bug.
pub(super) fn caller<T>(request: &Request<T>) -> Result<Caller, Problem> {
    request
        .extensions()
        .get::<PeerInfo>()
        .map(|peer| peer.caller)
        .ok_or_else(|| Problem::not_authorized("the connection has no known peer"))
}

/// An accepted connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    peer: PeerInfo,
    /// Given back when the connection closes.
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Asks the kernel who is at the other end.
    pub fn accept(stream: UnixStream, permit: OwnedSemaphorePermit) -> std::io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self {
            stream,
            peer: PeerInfo {
                caller: Caller {
                    uid: credentials.uid(),
                    gid: credentials.gid(),
                },
            },
            _permit: permit,
        })
    }

    /// The peer.
    #[must_use]
    pub fn peer(&self) -> PeerInfo {
        self.peer
    }
}

impl Connected for Connection {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_users_and_groups_are_admitted() {
        let allowed = Allowed {
            uids: vec![0, 1000],
            gids: vec![50],
        };
        let table = [
            (1000, 1, true),
            (0, 0, true),
            (1, 50, true),
            (1, 1000, false),
            (50, 1, false),
        ];
        for (uid, gid, admitted) in table {
            assert_eq!(allowed.admits(Caller { uid, gid }), admitted, "{uid}:{gid}");
        }
        assert!(!Allowed::default().admits(Caller { uid: 0, gid: 0 }));
    }
}
