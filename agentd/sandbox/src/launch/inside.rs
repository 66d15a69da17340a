//! Starting a jail's init inside the namespaces of a session. The launcher itself never enters them (from
//! a user namespace there is no way back): a process in between does, forks init as a *sibling* of its
//! own, so that init is the launcher's child like any other, and ends.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::{
    anchor::{self, Namespaces},
    child,
    failure::{Failure, Stage},
    prepare::PreparedJail,
};
use crate::{
    policy::NetMode,
    sys::{
        caps, exec,
        fork::{self, Forked},
        namespaces, signals, socket, wait,
    },
};

/// Entering a namespace and forking wait for nothing.
const LIMIT_MS: i32 = 10_000;

/// Init's pid and a descriptor that names it.
pub(super) type Started = (libc::pid_t, OwnedFd);

/// Why there is no init to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unstarted {
    /// None was forked.
    Nobody(Failure),
    /// One may have been forked that nobody knows, as a child of this process.
    PerhapsSomebody(Failure),
}

/// Forks init into `shared`.
pub(super) fn start(
    jail: &PreparedJail,
    errors: &OwnedFd,
    shared: &Namespaces,
) -> Result<Started, Unstarted> {
    let failed = |errno| Unstarted::Nobody(Failure::at(Stage::Fork)(errno));
    let (ours, theirs) = socket::seqpacket_pair().map_err(failed)?;
    // The process in between is made in the jail's control group, and init with it.
    match fork::clone_process(0, jail.group()).map_err(failed)? {
        Forked::Child(proof) => {
            let sibling = step_in(shared, jail.net).and_then(|()| {
                fork::clone_sibling(&proof, jail.clone_flags()).map_err(Failure::at(Stage::Fork))
            });
            let told = match sibling {
                Ok(Forked::Child(proof)) => child::enter(jail, errors, &proof),
                Ok(Forked::Parent { pid, pidfd }) => tell(&theirs, pid, &pidfd),
                Err(failure) => socket::send_with_fds(theirs.as_fd(), &failure.encode(), &[]),
            };
            // If that failed the launcher sees an end without a word, which says that there may be an init.
            told.unwrap_or_default();
            exec::exit_now(0)
        }
        Forked::Parent { pid, pidfd } => {
            drop(theirs);
            let started = receive(&ours, &pidfd);
            // ESRCH: it has ended already.
            wait::signal_pidfd(pidfd.as_fd(), libc::SIGKILL).unwrap_or_default();
            match anchor::reap(pid) {
                Ok(()) => started,
                Err(errno) => Err(lost(errno)),
            }
        }
    }
}

/// System calls only.
fn step_in(shared: &Namespaces, net: NetMode) -> Result<(), Failure> {
    caps::set_parent_death_signal().map_err(Failure::at(Stage::Attributes))?;
    // The profile may have changed since the session was opened.
    let shared_net = shared.net.as_ref().filter(|_| net == NetMode::None);
    // ORDER: the user namespace first: it gives the right to enter the others.
    let all = [
        (shared.user.as_ref(), libc::CLONE_NEWUSER),
        (shared_net, libc::CLONE_NEWNET),
        (Some(&shared.mount), libc::CLONE_NEWNS),
    ];
    for (index, (namespace, kind)) in all.into_iter().enumerate() {
        if let Some(namespace) = namespace {
            namespaces::enter(namespace.as_fd(), kind)
                .map_err(Failure::at_index(Stage::EnterSession, index))?;
        }
    }
    Ok(())
}

fn tell(socket: &OwnedFd, pid: libc::pid_t, pidfd: &OwnedFd) -> Result<(), Errno> {
    socket::send_with_fds(socket.as_fd(), &pid.to_le_bytes(), &[pidfd.as_fd()])
}

/// An init may have been forked.
fn lost(errno: Errno) -> Unstarted {
    Unstarted::PerhapsSomebody(Failure::at(Stage::Fork)(errno))
}

fn receive(socket: &OwnedFd, between: &OwnedFd) -> Result<Started, Unstarted> {
    // Its end is watched too: init has a copy of the other end of the socket for a moment.
    let mut watch = [
        signals::readable(socket.as_raw_fd()),
        signals::readable(between.as_raw_fd()),
    ];
    if signals::poll(&mut watch, LIMIT_MS).map_err(lost)? == 0 {
        return Err(lost(Errno::ETIMEDOUT));
    }
    socket::set_nonblocking(socket.as_fd()).map_err(lost)?;
    let mut bytes = [0; 16];
    let received = socket::recv_with_fds(socket.as_fd(), &mut bytes).map_err(lost)?;
    let bytes = bytes.get(..received.length).unwrap_or_default();
    if let Some(failure) = Failure::decode(bytes) {
        return Err(Unstarted::Nobody(failure));
    }
    let pid = <[u8; 4]>::try_from(bytes).map_err(|_short| lost(Errno::EIO))?;
    let errno = if received.fds_lost {
        Errno::EMFILE
    } else {
        Errno::EIO
    };
    let pidfd = received.fds.into_iter().next();
    let pidfd = pidfd.ok_or_else(|| lost(errno))?;
    Ok((libc::pid_t::from_le_bytes(pid), pidfd))
}

impl Unstarted {
    /// What failed.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Nobody(failure) | Self::PerhapsSomebody(failure) => failure,
        }
    }
}
