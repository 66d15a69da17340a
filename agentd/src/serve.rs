//! `agentd serve`: from settings to a running daemon and back. ORDER: launcher, sockets, facts, then
//! privilege away, then the runtime, then the first byte of a client.

use std::{
    io,
    os::unix::{net::UnixStream as StdStream, process::ExitStatusExt},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_sandbox::{
    confine::{self, ConfineError},
    policy::Refusal,
};
use thiserror::Error;

mod accept;
mod life;
mod slots;

use crate::{
    config::{Config, Mode},
    exit::Exit,
    launcher_link::LinkError,
    rpc::{Identity, ServerError},
    run::{boot_failed, complain},
    startup::{
        self, BootError, Booted, ListenError, Listening, Memory, PrivilegeError, Reach,
        Unprivileged,
    },
};

/// Threads for the blacklist's parser. More would only compete.
const BLOCKING_THREADS: usize = 4;

/// Why the daemon does not serve, or no longer.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// No launcher.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The default profile is not one.
    #[error("default profile: {0}")]
    DefaultProfile(Refusal),
    /// No socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Still root.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// Not confined.
    #[error("agentd cannot confine itself; see 'agentd doctor' for what this kernel lacks")]
    Confine(#[from] ConfineError),
    /// No runtime.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// The launcher's socket does not work.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The server does not work.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The launcher died.
    #[error(
        "the launcher is gone; every running command was ended with reason 'lost'; restart agentd"
    )]
    LauncherGone,
}

impl ServeError {
    fn exit(&self) -> Exit {
        match self {
            Self::Listen(ListenError::NotConnected(_)) => Exit::Usage,
            Self::DefaultProfile(_) | Self::Confine(_) => Exit::Config,
            Self::Boot(_) | Self::Listen(_) | Self::Link(_) | Self::LauncherGone => {
                Exit::Unavailable
            }
            Self::Privilege(_) => Exit::NotPermitted,
            Self::Runtime(_) | Self::Server(_) => Exit::Bug,
        }
    }
}

/// Where clients come from.
#[derive(Debug)]
enum Door {
    Sockets(Vec<Listening>),
    Connection(StdStream),
}

/// Everything that serving needs, made while there was privilege.
#[derive(Debug)]
struct Prepared {
    booted: Booted,
    door: Door,
    identity: Identity,
    memory: Memory,
    since: Instant,
}

/// Serves until told to stop.
pub(crate) fn serve(config: Config) -> Exit {
    match prepare(&config).and_then(|prepared| run(config, prepared)) {
        Ok(()) => Exit::Ok,
        Err(ServeError::Boot(error)) => boot_failed(&error),
        Err(error) => {
            let exit = error.exit();
            complain(&error, exit)
        }
    }
}

fn prepare(config: &Config) -> Result<Prepared, ServeError> {
    let since = Instant::now();
    startup::open_files::raise();
    // ORDER: the connection leaves standard input before the launcher is started.
    let connection = match config.mode {
        Mode::Embedded => Some(startup::embedded()?),
        Mode::Service => None,
    };
    let booted = config.launcher.boot()?;
    check_default_profile(config, &booted)?;
    let unprivileged = Unprivileged::choose();
    let door = match connection {
        Some(connection) => Door::Connection(connection),
        None => Door::Sockets(bind(config, unprivileged)?),
    };
    let prepared = Prepared {
        booted,
        door,
        identity: startup::identity(),
        memory: Memory::open(),
        since,
    };
    unprivileged.become_it()?;
    confine::front_end()?;
    Ok(prepared)
}

fn check_default_profile(config: &Config, booted: &Booted) -> Result<(), ServeError> {
    let known = |name: &str| booted.profiles.iter().any(|p| p.name == name);
    if known(&config.default_profile) {
        return Ok(());
    }
    let names: Vec<_> = booted.profiles.iter().map(|p| p.name.as_str()).collect();
    Err(ServeError::DefaultProfile(Refusal::UnknownProfile {
        name: config.default_profile.clone(),
        known: names.join(", "),
    }))
}

fn bind(config: &Config, unprivileged: Unprivileged) -> Result<Vec<Listening>, ServeError> {
    let reach = Reach {
        owner: unprivileged.ids().map(|(uid, gid)| {
            let gid = config.socket_gid.unwrap_or(gid.as_raw());
            (uid.as_raw(), gid)
        }),
        others: config.others,
    };
    config
        .listen
        .iter()
        .map(|path| Ok(Listening::bind(path, reach)?))
        .collect()
}

fn run(config: Config, prepared: Prepared) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(ServeError::Runtime)?;
    let Prepared {
        booted,
        door,
        identity,
        memory,
        since,
    } = prepared;
    let Booted {
        channel,
        host,
        profiles,
        process,
    } = booted;
    let paths: Vec<PathBuf> = match &door {
        Door::Sockets(sockets) => sockets.iter().map(|s| s.path.clone()).collect(),
        Door::Connection(_) => Vec::new(),
    };
    let plan = life::Plan {
        config,
        host,
        identity,
        memory,
        since,
    };
    let outcome = runtime.block_on(life::live(plan, (channel, Arc::new(profiles)), door));
    // ORDER: the launcher ends when its socket closes, and that closes with the runtime's tasks.
    runtime.shutdown_timeout(Duration::from_millis(200));
    let killed = process.wait().is_some_and(|s| s.signal().is_some());
    for path in paths {
        // The confined front end may not be allowed to; the next start replaces a stale socket.
        drop(std::fs::remove_file(path));
    }
    // Told to stop and bereft of the launcher at once: the loss is what has to be heard of.
    if killed {
        return outcome.and(Err(ServeError::LauncherGone));
    }
    outcome
}
