//! Accepts connections, and turns away those that the peer check does not admit.

use std::{io, os::unix::net::UnixStream as StdStream, sync::Arc, time::Duration};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use crate::rpc::{Allowed, Connection};

/// Connections at once. More wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 128;

/// Pause when the process is out of descriptors: accepting again at once would only burn time.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Where accepted connections go.
pub(super) type Accepted = mpsc::Sender<io::Result<Connection>>;

/// Connections that may still be opened.
pub(super) fn slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_CONNECTIONS))
}

/// Accepts until the receiver is gone.
pub(super) async fn accept(
    listener: UnixListener,
    allowed: Allowed,
    slots: Arc<Semaphore>,
    accepted: Accepted,
) {
    loop {
        let Ok(permit) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            () = accepted.closed() => return,
        };
        match stream {
            Ok((stream, _)) => {
                let Some(connection) = admit(stream, &allowed, permit) else {
                    continue;
                };
                if accepted.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

fn admit(
    stream: UnixStream,
    allowed: &Allowed,
    permit: OwnedSemaphorePermit,
) -> Option<Connection> {
    match Connection::accept(stream, permit) {
        Ok(connection) => {
            let caller = connection.peer().caller;
            if allowed.admits(caller) {
                return Some(connection);
            }
            tracing::warn!(uid = caller.uid, gid = caller.gid, "refused a connection");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "a connection has no peer credentials");
            None
        }
    }
}

/// The one connection of an embedded daemon. Its peer is whoever started us, so there is no list.
pub(super) fn inherited(stream: StdStream, permit: OwnedSemaphorePermit) -> io::Result<Connection> {
    Connection::accept(UnixStream::from_std(stream)?, permit)
}
