//! The janitor's own process. It never calls `execve`, and as a copy of a process with one thread it may
//! allocate.
//!
//! It keeps its user id, which owns most of what there is to remove, and of root's capabilities the two
//! without which neither cgroups nor what a command of another user made can be removed. It has a session of
//! its own, so that what ends the launcher's process group spares it, and no descriptors but the socket and
//! those that name the inits of running commands.

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    rc::Rc,
    time::{Duration, Instant},
};

use nix::{errno::Errno, fcntl::OFlag, sys::stat::Mode};

use super::{
    super::stale,
    ledger::{Ledger, Word},
};
use crate::{
    cgroup,
    monitor::{Channel, ChannelError},
    sys::{caps, exec, files, signals},
};

/// How long it goes on trying: on the nested tier the commands' inits outlive the launcher until they have
/// swept their trees.
const PATIENCE: Duration = Duration::from_secs(5);
/// As long as an init may take to find out that the launcher is dead.
const SETTLE: Duration = Duration::from_millis(200);
const TRY_AGAIN_MS: i32 = 20;

/// Does the work of the janitor of this launcher. `closed`: its copy of the launcher's end could be closed.
pub(super) fn run(
    (launcher, closed): (u32, Result<(), Errno>),
    channel: &Channel<(), Word>,
    mut ledger: Ledger,
) -> ! {
    // Without room for them, those that it has do, only longer.
    ledger.own().unwrap_or_default();
    let Ok(_null) = closed.and_then(|()| withdraw(channel, &ledger)) else {
        exec::exit_now(1);
    };
    listen(channel, &mut ledger);
    exec::exit_now(i32::from(clean_up(launcher, ledger).is_err()))
}

/// Gives up everything that it does not need. Returns what stands for standard input.
fn withdraw(channel: &Channel<(), Word>, ledger: &Ledger) -> Result<OwnedFd, Errno> {
    caps::set_name(c"agentd-janitor")?;
    nix::unistd::setsid()?;
    signals::set_mask(u64::MAX)?;
    let mut keep = ledger.descriptors();
    keep.push(channel.as_fd().as_raw_fd());
    keep.sort_unstable();
    files::close_all_but(&keep)?;
    // Nothing that is opened later may be taken for standard output.
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    for target in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        if !keep.contains(&target) {
            files::duplicate_to(null.as_fd(), target)?;
        }
    }
    match caps::drop_bounding_set() {
        // Without privilege there is nothing to drop.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    // The root of a hierarchy of cgroups is mode 0555, and directories of a workspace belong to others: only
    // these let their entries be removed.
    match caps::keep_only_for_removal() {
        Ok(()) => {}
        Err(Errno::EPERM) => caps::drop_all()?,
        Err(errno) => return Err(errno),
    }
    caps::set_no_new_privs()?;
    caps::set_undumpable()?;
    Ok(null)
}

/// Writes down what the launcher says, until it is gone.
fn listen(channel: &Channel<(), Word>, ledger: &mut Ledger) {
    loop {
        match channel.recv() {
            Ok(Some(received)) => {
                let fd = received.fds.into_iter().next();
                ledger.note(&received.message, fd.map(Rc::new));
            }
            // One word that cannot be read does not make the others worthless.
            Err(
                ChannelError::Protocol(_)
                | ChannelError::TooLarge(_)
                | ChannelError::WouldBlock
                | ChannelError::Socket(Errno::EINTR | Errno::EMSGSIZE),
            ) => {}
            Ok(None) | Err(ChannelError::Socket(_)) => return,
        }
    }
}

fn clean_up(launcher: u32, mut ledger: Ledger) -> std::io::Result<()> {
    // The processes in them are the launcher's children's and die with it; this is for those that do not.
    cgroup::remove_all(ledger.groups());
    // ORDER: what a command may not make is removed when nobody can make it again.
    ledger.wait_for_inits(PATIENCE, SETTLE);
    let uid = nix::unistd::geteuid().as_raw();
    let start = Instant::now();
    loop {
        let sprung = ledger.spring();
        let result = stale::remove_all_of(launcher, uid);
        if (sprung && result.is_ok()) || start.elapsed() > PATIENCE {
            return result;
        }
        signals::poll(&mut [], TRY_AGAIN_MS)?;
    }
}
