//! The launcher: one thread, no network, no async runtime. It owns the profiles and the privilege, makes
//! jails, and speaks the closed language of `monitor` with the front end. It never reads what a command
//! prints, and opens no path that a client names except through the resolved policy.

mod args;
mod burial;
mod claims;
mod clock;
mod descriptors;
mod facts;
mod far;
mod far_disk;
mod given_up;
mod hits;
mod jail;
mod janitor;
mod lifecycle;
#[cfg(test)]
mod lifecycle_tests;
mod limits;
mod not_started;
mod oom;
mod outbox;
mod protected;
mod removal;
mod scout;
mod server;
mod session_close;
mod session_home;
mod session_open;
mod sessions;
mod setup;
mod stale;
mod start;
mod tripwire;
mod uids;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use janitor::Janitor;
use thiserror::Error;

pub(crate) use jail::complain;

use crate::{
    cgroup::Cgroups,
    launch::{self, STATE_FD},
    monitor::{Channel, ChannelError, Event, Request},
    probe,
    profile::{Catalogue, ProfileError},
    sys::{caps, files, signals},
};

/// Exit codes, after `sysexits.h`.
const USAGE: u8 = 64;
const UNAVAILABLE: u8 = 69;
const CONFIGURATION: u8 = 78;

#[derive(Debug, Error)]
enum LauncherError {
    #[error(transparent)]
    Usage(#[from] args::UsageError),
    #[error("profiles: {0}")]
    Profiles(#[from] ProfileError),
    #[error("this host cannot run any jail: {0}")]
    NoTier(String),
    #[error("standard input is not the socket of an agentd: this program is started by agentd")]
    NotStartedByAgentd(#[source] nix::errno::Errno),
    #[error("a process that cleans up could not be started: {0}")]
    NoJanitor(#[source] nix::errno::Errno),
    #[error(
        "descriptor {STATE_FD} cannot be reserved: raise the hard limit of open files to 1024 or more"
    )]
    NoStateFd(#[source] nix::errno::Errno),
    #[error("the conversation with agentd broke: {0}")]
    Channel(#[from] ChannelError),
}

/// Runs the launcher; the whole of `agentd-launcher`.
#[must_use]
pub fn main() -> ExitCode {
    // A panic here must not unwind past half-made jails: the end of this process is the end of them all.
    std::panic::set_hook(Box::new(|panic| {
        drop(writeln!(io::stderr(), "agentd-launcher: bug: {panic}"));
        std::process::abort();
    }));
    // ORDER: before the first child. Inits and the janitor are forks of this process and have it from here.
    signals::forget_inherited();
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "agentd-launcher: {error}"));
            ExitCode::from(match error {
                LauncherError::Usage(_) => USAGE,
                LauncherError::Profiles(_) => CONFIGURATION,
                LauncherError::NoTier(_)
                | LauncherError::NotStartedByAgentd(_)
                | LauncherError::NoJanitor(_)
                | LauncherError::NoStateFd(_)
                | LauncherError::Channel(_) => UNAVAILABLE,
            })
        }
    }
}

/// Every running jail holds several descriptors; what commands get is set for each of them anyway.
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap_or_default();
    }
}

/// This process, the front end that started it, and who cleans up.
fn own_processes(janitor: &Janitor) -> [i32; 3] {
    use nix::unistd::{getpid, getppid};
    [getpid().as_raw(), getppid().as_raw(), janitor.pid()]
}

fn run(arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<(), LauncherError> {
    let args = args::parse(arguments)?;
    let socket = files::take_stdin().map_err(LauncherError::NotStartedByAgentd)?;
    let channel = Channel::from_fd(socket);
    channel.set_nonblocking()?;
    // Nobody of the same user may look into this process either.
    caps::set_undumpable().map_err(LauncherError::NotStartedByAgentd)?;
    // The janitor holds descriptors for every command as well.
    raise_open_files();
    // ORDER: before anything is made that it would have to remove.
    let janitor = Janitor::hire().map_err(LauncherError::NoJanitor)?;
    serve((args, channel), janitor)
}

fn serve(
    (args, channel): (args::Args, Channel<Event, Request>),
    mut janitor: Janitor,
) -> Result<(), LauncherError> {
    // The socket is the lifecycle, signals are not: a service manager or a terminal signals the whole
    // group, and agentd has its commands ended and cleaned up after in order.
    let ignored = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
    ];
    let mask = ignored
        .into_iter()
        .fold(0, |mask, signal| mask | signals::bit(signal));
    signals::set_mask(mask).map_err(LauncherError::NotStartedByAgentd)?;
    // ORDER: after the limit was raised, before any descriptor could get that number.
    launch::reserve_state_fd().map_err(LauncherError::NoStateFd)?;
    let mut host = probe::probe();
    let Some(tier) = host.tier else {
        return Err(LauncherError::NoTier(host.tier_reason));
    };
    let left = stale::left_behind(std::path::Path::new(stale::PARENT), host.uid);
    let left = left.unwrap_or_else(|error| {
        let parent = stale::PARENT;
        complain(format_args!("what earlier runs left in {parent}: {error}"));
        Vec::new()
    });
    let catalogue = Catalogue::load(&args.profile_dirs)?;
    let cgroups = Cgroups::open(args.cgroup, &own_processes(&janitor));
    for root in cgroups.roots() {
        janitor.entrust_cgroup(&root);
    }
    host.capabilities.push(cgroups.capability());
    let mut server =
        server::Server::new(channel, (host, tier), (catalogue, args), (cgroups, janitor));
    server.clear_away(left);
    server.announce();
    let result = server.serve();
    server.close();
    Ok(result?)
}
