//! Accepts connections, and turns away those that the peer check does not admit.

use std::{io, os::unix::net::UnixStream as StdStream, sync::Arc, time::Duration};

use agentd_sandbox::policy::Caller;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, mpsc},
};

use super::slots::{Capacity, Place, Slots};
use crate::rpc::{Allowed, Connection};

/// Connections at once.
const CAPACITY: Capacity = Capacity {
    of_user: 128,
    in_all: 384,
    for_operators: 16,
    waiting: 128,
    patience: Duration::from_secs(10),
};

/// A client greets at once. One that does not only takes a place.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Pause when the process is out of descriptors: accepting again at once would only burn time.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Where accepted connections go.
pub(super) type Accepted = mpsc::Sender<io::Result<Connection>>;

/// Connections that may be opened.
pub(super) fn slots(operators: &[u32]) -> Arc<Slots> {
    Slots::new(CAPACITY, operators.to_vec())
}

/// Accepts until the receiver is gone.
pub(super) async fn accept(
    listener: UnixListener,
    allowed: Allowed,
    slots: Arc<Slots>,
    accepted: Accepted,
) {
    loop {
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            () = accepted.closed() => return,
        };
        match stream {
            Ok((stream, _)) => {
                let Some(caller) = admitted(&stream, &allowed) else {
                    continue;
                };
                match slots.take(caller.uid) {
                    Some(place) => pass_on(stream, place, &accepted).await,
                    // ORDER: not here, or one user's connections would keep others waiting.
                    None => drop(tokio::spawn(later(
                        (stream, caller),
                        Arc::clone(&slots),
                        accepted.clone(),
                    ))),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Who is at the other end, if it may connect.
fn admitted(stream: &UnixStream, allowed: &Allowed) -> Option<Caller> {
    let caller = match stream.peer_cred() {
        Ok(credentials) => Caller {
            uid: credentials.uid(),
            gid: credentials.gid(),
        },
        Err(error) => {
            tracing::warn!(%error, "a connection has no peer credentials");
            return None;
        }
    };
    if !allowed.admits(caller) {
        tracing::warn!(uid = caller.uid, gid = caller.gid, "refused a connection");
        return None;
    }
    Some(caller)
}

/// Passes a connection on once there is a place for it.
async fn later((stream, caller): (UnixStream, Caller), slots: Arc<Slots>, accepted: Accepted) {
    if let Some(place) = slots.wait(caller.uid).await {
        pass_on(stream, place, &accepted).await;
    } else {
        tracing::warn!(uid = caller.uid, "closed a connection: there are too many");
    }
}

async fn pass_on(stream: UnixStream, place: Place, accepted: &Accepted) {
    match Connection::accept(stream, place) {
        // An error means that the server is gone.
        Ok(connection) => drop(
            accepted
                .send(Ok(connection.greeting_within(HANDSHAKE)))
                .await,
        ),
        Err(error) => tracing::warn!(%error, "a connection has no peer credentials"),
    }
}

/// The one connection of an embedded daemon. Its peer is whoever started us, so there is no list.
pub(super) fn inherited(stream: StdStream, permit: OwnedSemaphorePermit) -> io::Result<Connection> {
    Connection::accept(UnixStream::from_std(stream)?, permit)
}
