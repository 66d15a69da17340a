//! The daemon's life on the runtime: serve, wait for a reason to stop, drain.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_sandbox::monitor::{Channel, Event, Request};
use tokio::{
    net::UnixListener,
    signal::unix::{SignalKind, signal},
    sync::{Semaphore, mpsc, oneshot},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Router;
use tonic_health::server::HealthReporter;

use super::{Door, ServeError, accept};
use crate::{
    config::Config,
    exec::{Executor, Registry},
    launcher_link::{HostReport, Link, Profiles},
    rpc::{self, Connection, Daemon, Identity},
    session,
    startup::Memory,
};

/// Longest wait at the end for commands that were told to end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

/// Longest wait for clients to take the last bytes.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Time between two looks for what need not be kept any longer.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// What was prepared beside the sockets.
pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) host: HostReport,
    pub(super) identity: Identity,
    pub(super) memory: Memory,
    pub(super) since: Instant,
}

/// Why serving ends.
enum Reason {
    Told,
    ConnectionClosed,
    LauncherGone,
}

pub(super) async fn live(
    plan: Plan,
    launcher: (Channel<Request, Event>, Profiles),
    door: Door,
) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
    let link = Link::new(launcher.0, launcher.1)?;
    let mut registry = Registry::new(plan.config.max_execs, &plan.identity.boot_id)
        .with_queue(plan.config.max_queued)
        .with_tuning(plan.config.tuning);
    if plan.config.is_shared() {
        registry = registry.with_shares();
    }
    let daemon = Arc::new(Daemon {
        sessions: session::Registry::new(
            link.clone(),
            &plan.identity.boot_id,
            plan.config.sessions,
        ),
        executor: Executor::new(registry, link.clone()),
        health: HealthReporter::new(),
        host: plan.host,
        identity: plan.identity,
        default_profile: plan.config.default_profile.clone(),
        operators: plan.config.operators.clone(),
        since: plan.since,
        memory: plan.memory,
    });
    tokio::spawn(sweep(Arc::clone(&daemon)));
    let (connections, closed) = open(door, &plan.config)?;
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(rpc::router(&daemon)?, connections, stopped));
    let reason = tokio::select! {
        _ = terminate.recv() => Reason::Told,
        _ = interrupt.recv() => Reason::Told,
        () = link.lost() => Reason::LauncherGone,
        () = closed.wait() => Reason::ConnectionClosed,
    };
    let patience = match reason {
        Reason::Told => plan.config.drain_timeout,
        Reason::ConnectionClosed | Reason::LauncherGone => Duration::ZERO,
    };
    let drained = tokio::select! {
        drained = daemon.drain(patience, DRAIN_PATIENCE) => drained,
        // Told again: no more patience.
        _ = terminate.recv() => daemon.drain(Duration::ZERO, DRAIN_PATIENCE).await,
        _ = interrupt.recv() => daemon.drain(Duration::ZERO, DRAIN_PATIENCE).await,
        () = link.lost(), if !link.is_lost() =>
            daemon.drain(Duration::ZERO, DRAIN_PATIENCE).await,
    };
    tracing::info!(ended = drained.terminated, "stopping");
    // An error means that the server is gone already.
    stop.send(()).unwrap_or(());
    drop(tokio::time::timeout(CLOSE_PATIENCE, server).await);
    match reason {
        // It may have gone meanwhile: nothing but its death closes its socket before this function ends.
        Reason::Told | Reason::ConnectionClosed if !link.is_lost() => Ok(()),
        Reason::Told | Reason::ConnectionClosed | Reason::LauncherGone => {
            Err(ServeError::LauncherGone)
        }
    }
}

/// Forgets old executions, also when nobody asks for anything.
async fn sweep(daemon: Arc<Daemon>) {
    let mut due = tokio::time::interval(SWEEP_EVERY);
    loop {
        due.tick().await;
        daemon.executor.registry().sweep();
    }
}

type Connections = ReceiverStream<io::Result<Connection>>;

async fn serve(router: Router, connections: Connections, stopped: oneshot::Receiver<()>) {
    let stopped = async {
        // An error means that the daemon is gone, which is the same.
        drop(stopped.await);
    };
    if let Err(error) = router
        .serve_with_incoming_shutdown(connections, stopped)
        .await
    {
        tracing::error!(%error, "the server failed");
    }
}

/// Tells when the only connection there will ever be has closed.
enum Closed {
    Never,
    WhenFree {
        slot: Arc<Semaphore>,
        /// Kept: the end of the stream of connections would end the server, too early for its last
        /// responses.
        _open: mpsc::Sender<io::Result<Connection>>,
    },
}

impl Closed {
    async fn wait(&self) {
        match self {
            Self::Never => std::future::pending().await,
            Self::WhenFree { slot, .. } => {
                // Free again means closed. An error would mean that nobody counts any more.
                drop(slot.acquire().await);
            }
        }
    }
}

fn open(door: Door, config: &Config) -> Result<(Connections, Closed), ServeError> {
    let (sender, receiver) = mpsc::channel(1);
    let closed = match door {
        Door::Connection(stream) => {
            let slot = Arc::new(Semaphore::new(1));
            let permit = Arc::clone(&slot)
                .try_acquire_owned()
                .map_err(|error| ServeError::Runtime(io::Error::other(error)))?;
            let connection = accept::inherited(stream, permit).map_err(ServeError::Runtime)?;
            // An error would mean that the receiver, which is here, is gone.
            drop(sender.try_send(Ok(connection)));
            Closed::WhenFree {
                slot,
                _open: sender,
            }
        }
        Door::Sockets(sockets) => {
            let slots = accept::slots(&config.operators);
            for socket in sockets {
                let listener =
                    UnixListener::from_std(socket.listener).map_err(ServeError::Runtime)?;
                tracing::info!(path = %socket.path.display(), "listening");
                tokio::spawn(accept::accept(
                    listener,
                    config.allowed.clone(),
                    Arc::clone(&slots),
                    sender.clone(),
                ));
            }
            Closed::Never
        }
    };
    Ok((ReceiverStream::new(receiver), closed))
}
