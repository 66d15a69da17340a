//! The fork.

use std::os::fd::{AsFd, OwnedFd};

use nix::{errno::Errno, fcntl::OFlag, unistd::pipe2};

use super::{child, prepare::PreparedJail};
use crate::sys::{
    fork::{self, Forked},
    socket,
};

/// A jail whose init was started. Dropping it closes the conversation, upon which init ends everything.
#[derive(Debug)]
pub(crate) struct Child {
    /// Pid of init, for reaping only.
    pub(crate) pid: libc::pid_t,
    /// Names init without reuse.
    pub(crate) pidfd: OwnedFd,
    /// Conversation with init.
    pub(crate) control: OwnedFd,
    /// Carries a failure; its end without one means that the command was executed. Non-blocking.
    pub(crate) errors: OwnedFd,
}

/// Starts a jail.
pub(crate) fn spawn(jail: PreparedJail) -> Result<Child, Errno> {
    let (errors, errors_in_child) = pipe2(OFlag::O_CLOEXEC)?;
    socket::set_nonblocking(errors.as_fd())?;
    match fork::clone_process(jail.clone_flags(), jail.group())? {
        Forked::Child(proof) => child::enter(&jail, &errors_in_child, &proof),
        Forked::Parent { pid, pidfd } => {
            // Dropping the rest of `jail` closes the launcher's copies of the command's descriptors.
            Ok(Child {
                pid,
                pidfd,
                control: jail.launcher_end,
                errors,
            })
        }
    }
}
