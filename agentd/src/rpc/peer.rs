//! Who is at the other end of a connection, as the kernel says, and whether they may talk to us.

use std::{
    fmt::Debug,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use agentd_sandbox::policy::Caller;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    time::Sleep,
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

/// What a connection holds until it closes.
trait Held: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Held for T {}

/// Bytes of the greeting that HTTP/2 begins with: the preface, and the head of the first frame.
const GREETING: usize = 24 + 9;

/// An accepted connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    peer: PeerInfo,
    /// Until when the client has to have greeted, and how much of that has come.
    greeting: Option<(Pin<Box<Sleep>>, usize)>,
    /// Given back when the connection closes.
    _place: Box<dyn Held>,
}

impl Connection {
    /// Asks the kernel who is at the other end. `place` is dropped when the connection closes.
    pub fn accept(
        stream: UnixStream,
        place: impl Debug + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self {
            stream,
            peer: PeerInfo {
                caller: Caller {
                    uid: credentials.uid(),
                    gid: credentials.gid(),
                },
            },
            greeting: None,
            _place: Box::new(place),
        })
    }

    /// Ends unless the client greets within `patience`.
    #[must_use]
    pub fn greeting_within(mut self, patience: Duration) -> Self {
        self.greeting = Some((Box::pin(tokio::time::sleep(patience)), 0));
        self
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
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some((deadline, seen)) = &mut self.greeting else {
            return read;
        };
        *seen = seen.saturating_add(buffer.filled().len().saturating_sub(before));
        if *seen >= GREETING {
            self.greeting = None;
        } else if read.is_pending() && deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn who_does_not_greet_loses_the_place_and_who_did_may_be_silent() {
        for (greeting, stays) in [
            (0, false),
            (1, false),
            (GREETING - 1, false),
            (GREETING, true),
        ] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let connection = Connection::accept(ours, ()).unwrap();
            let mut connection = connection.greeting_within(Duration::from_millis(50));
            theirs.write_all(&vec![b'P'; greeting]).await.unwrap();
            let mut bytes = vec![0; 100];
            let reading = async {
                loop {
                    let _length: usize = connection.read(&mut bytes).await?;
                }
            };
            let patience = Duration::from_millis(if stays { 200 } else { 5000 });
            let read: Result<io::Result<()>, _> = tokio::time::timeout(patience, reading).await;
            match read {
                Ok(Err(error)) => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    assert!(!stays, "{greeting}");
                }
                Ok(Ok(())) => panic!("it never ends well"),
                Err(_elapsed) => assert!(stays, "{greeting}"),
            }
        }
    }

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
