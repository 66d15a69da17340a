//! The link itself: a handle to clone, a task that writes, a task that reads.

use std::{
    collections::BTreeMap,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixDatagram as StdSocket,
    },
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use agentd_sandbox::{
    explain::{Query, Verdict},
    monitor::{
        Channel, ChannelError, Event, ExecKey, MAX_MESSAGE, Received, Request, SetupFailure,
        StopReason,
    },
    policy::{Caller, Invocation, Refusal, SessionKey},
};
use thiserror::Error;
use tokio::{
    io::Interest,
    net::UnixDatagram,
    sync::{mpsc, watch},
};

use super::{Delivery, Profiles, routes::Routes};

/// Why a request did not go out.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The launcher is gone.
    #[error("the launcher is gone; restart agentd")]
    Gone,
    /// The request is larger than a message.
    #[error(
        "a request of {0} bytes is larger than the {MAX_MESSAGE} that fit; put it into a script"
    )]
    TooLarge(usize),
    /// The runtime does not take the socket.
    #[error("watch the launcher's socket")]
    Watch(#[source] std::io::Error),
    /// The socket does not take a flag, or a request does not encode.
    #[error("set up the launcher's socket")]
    Channel(#[source] ChannelError),
}

/// Why a question was not answered.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// There is no policy to ask.
    #[error(transparent)]
    Refused(Refusal),
    /// It did not go out, or no answer came back.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Why a session was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The policy refuses it.
    #[error(transparent)]
    Refused(Refusal),
    /// It did not go out, or no answer came back.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Why profiles were not read again.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// They are wrong; the old ones stay in force.
    #[error("{0}")]
    Invalid(String),
    /// It did not go out, or no answer came back.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// The handle.
#[derive(Debug, Clone)]
pub struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    outbox: mpsc::UnboundedSender<Outgoing>,
    routes: Mutex<Routes>,
    profiles: watch::Sender<Profiles>,
    alive: watch::Sender<bool>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// The channel, and the same socket once more as something that the runtime can watch.
#[derive(Debug)]
struct Socket {
    channel: Channel<Request, Event>,
    readiness: UnixDatagram,
}

impl Socket {
    fn watch(channel: Channel<Request, Event>) -> Result<Self, LinkError> {
        channel.set_nonblocking().map_err(LinkError::Channel)?;
        let again = channel
            .as_fd()
            .try_clone_to_owned()
            .map_err(LinkError::Watch)?;
        let readiness = UnixDatagram::from_std(StdSocket::from(again)).map_err(LinkError::Watch)?;
        Ok(Self { channel, readiness })
    }
}

impl Link {
    /// Takes over a channel whose greeting has been read. Starts two tasks on the current runtime.
    pub fn new(channel: Channel<Request, Event>, profiles: Profiles) -> Result<Self, LinkError> {
        let socket = Arc::new(Socket::watch(channel)?);
        let (outbox, queue) = mpsc::unbounded_channel();
        let link = Self(Arc::new(Shared {
            outbox,
            routes: Mutex::default(),
            profiles: watch::channel(profiles).0,
            alive: watch::channel(true).0,
            next_id: AtomicU64::new(1),
        }));
        tokio::spawn(write_all(Arc::clone(&socket), queue, link.clone()));
        tokio::spawn(read_all(socket, link.clone()));
        Ok(link)
    }

    /// Asks for a command. Its events come through the receiver, which ends early only when the
    /// launcher is gone. Takes the descriptors in the order of `SpawnFds`.
    pub fn spawn(
        &self,
        key: ExecKey,
        invocation: Invocation,
        fds: Vec<OwnedFd>,
    ) -> Result<mpsc::UnboundedReceiver<Delivery>, LinkError> {
        // ORDER: the route first, or a fast answer would find none.
        let route = self.routes().add_exec(key);
        let request = Request::Spawn {
            exec: key,
            invocation: Box::new(invocation),
        };
        self.post(&request, fds)
            .inspect_err(|_| self.routes().remove_exec(key))?;
        Ok(route)
    }

    /// Sends a request that has no answer of its own.
    pub fn tell(&self, request: &Request) -> Result<(), LinkError> {
        self.post(request, Vec::new())
    }

    /// Asks the policy of an invocation; at most 64 questions.
    pub async fn explain(
        &self,
        invocation: Invocation,
        queries: Vec<Query>,
    ) -> Result<Vec<Verdict>, ExplainError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let answer = self.routes().add_explain(id);
        self.tell(&Request::Explain {
            id,
            invocation: Box::new(invocation),
            queries,
        })
        .inspect_err(|_| self.routes().remove_explain(id))?;
        match answer.await {
            Ok(Ok(verdicts)) => Ok(verdicts),
            Ok(Err(refusal)) => Err(ExplainError::Refused(refusal)),
            Err(_) => Err(LinkError::Gone.into()),
        }
    }

    /// Opens a session. `key` must never have been used before. The answer is the environment of a command
    /// in it that asks for nothing.
    pub async fn open_session(
        &self,
        key: SessionKey,
        (profile, workspace): (&str, &Path),
        caller: Caller,
    ) -> Result<BTreeMap<String, String>, OpenError> {
        // ORDER: the route first, or a fast answer would find none.
        let answer = self.routes().add_open(key);
        self.tell(&Request::OpenSession {
            session: key,
            profile: profile.to_owned(),
            workspace: workspace.to_owned(),
            caller,
        })
        .inspect_err(|_| self.routes().remove_open(key))?;
        match answer.await {
            Ok(Ok(environment)) => Ok(environment),
            Ok(Err(refusal)) => Err(OpenError::Refused(refusal)),
            Err(_) => Err(LinkError::Gone.into()),
        }
    }

    /// Closes a session, and returns when nothing of it is left.
    pub async fn close_session(&self, key: SessionKey) -> Result<(), LinkError> {
        // ORDER: the route first, or a fast answer would find none.
        let answer = self.routes().add_close(key);
        self.tell(&Request::CloseSession { session: key })
            .inspect_err(|_| self.routes().remove_close(key))?;
        answer.await.or(Err(LinkError::Gone))
    }

    /// Has the profiles read again.
    pub async fn reload(&self) -> Result<Profiles, ReloadError> {
        let answer = self.routes().add_reload();
        self.tell(&Request::Reload)
            .inspect_err(|_| self.routes().remove_reload())?;
        match answer.await {
            Ok(Ok(profiles)) => Ok(Arc::new(profiles)),
            Ok(Err(why)) => Err(ReloadError::Invalid(why)),
            Err(_) => Err(LinkError::Gone.into()),
        }
    }

    /// The profiles in force.
    #[must_use]
    pub fn profiles(&self) -> Profiles {
        Arc::clone(&self.0.profiles.borrow())
    }

    /// Waits until the launcher is gone.
    pub async fn lost(&self) {
        // An error means that the sender is gone; it lives in `self`.
        drop(self.0.alive.subscribe().wait_for(|alive| !alive).await);
    }

    /// True when the launcher is known to be gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        !*self.0.alive.borrow()
    }

    fn post(&self, request: &Request, fds: Vec<OwnedFd>) -> Result<(), LinkError> {
        let bytes = serde_json::to_vec(request)
            .map_err(|error| LinkError::Channel(ChannelError::Protocol(error)))?;
        if bytes.len() > MAX_MESSAGE {
            return Err(LinkError::TooLarge(bytes.len()));
        }
        if self.is_lost() {
            return Err(LinkError::Gone);
        }
        self.0
            .outbox
            .send(Outgoing { bytes, fds })
            .or(Err(LinkError::Gone))
    }

    fn lose(&self) {
        // ORDER: first the flag, so that no route is added after they have all been dropped, unseen.
        self.0.alive.send_replace(false);
        drop(std::mem::take(&mut *self.routes()));
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.0.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_all(socket: Arc<Socket>, mut queue: mpsc::UnboundedReceiver<Outgoing>, link: Link) {
    while let Some(Outgoing { bytes, fds }) = queue.recv().await {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let sent = socket
            .readiness
            .async_io(Interest::WRITABLE, || {
                as_io(socket.channel.send_encoded(&bytes, &borrowed))
            })
            .await;
        if let Err(error) = sent {
            tracing::error!(%error, "cannot write to the launcher");
            break;
        }
    }
    link.lose();
}

async fn read_all(socket: Arc<Socket>, link: Link) {
    loop {
        let received = socket
            .readiness
            .async_io(Interest::READABLE, || as_io(socket.channel.recv()))
            .await;
        let delivery = match received {
            Ok(Some(received)) => whole(&link, received),
            Ok(None) => break,
            Err(error) => {
                tracing::error!(%error, "cannot read from the launcher");
                break;
            }
        };
        let delivered = link.routes().deliver(delivery);
        match delivered {
            Ok(None) => {}
            Ok(Some(profiles)) => {
                link.0.profiles.send_replace(Arc::new(profiles));
            }
            Err(error) => {
                tracing::error!(%error, "closing the connection to the launcher");
                break;
            }
        }
    }
    link.lose();
}

/// What is delivered of a message. A start whose descriptors did not arrive is none: the command is killed at
/// once, and told as one that could not be started.
fn whole(link: &Link, received: Received<Event>) -> Delivery {
    let Received {
        message,
        fds,
        fds_lost,
    } = received;
    let whole = |event| Delivery { event, fds };
    let Event::Started { exec, .. } = message else {
        return whole(message);
    };
    if !fds_lost {
        return whole(message);
    }
    let stop = Request::Stop {
        exec,
        reason: StopReason::Cancelled,
        grace_ms: Some(0),
    };
    if let Err(error) = link.tell(&stop) {
        tracing::warn!(%error, "a command without its descriptors was not stopped");
    }
    let failure = SetupFailure {
        stage: "descriptors".to_owned(),
        errno: nix::errno::Errno::EMFILE as i32,
        detail:
            "agentd has no room for more descriptors, so the command was killed just after its \
                 start; raise the limit of open files of agentd"
                .to_owned(),
    };
    whole(Event::SetupFailed { exec, failure })
}

fn as_io<T>(outcome: Result<T, ChannelError>) -> std::io::Result<T> {
    outcome.map_err(|error| match error {
        ChannelError::WouldBlock => std::io::ErrorKind::WouldBlock.into(),
        ChannelError::TooLarge(_) | ChannelError::Protocol(_) | ChannelError::Socket(_) => {
            std::io::Error::other(error)
        }
    })
}

#[cfg(test)]
mod tests;
