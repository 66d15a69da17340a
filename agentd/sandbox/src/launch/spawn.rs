//! The fork.

use std::{
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

use nix::{fcntl::OFlag, unistd::pipe2};

use super::{
    child,
    failure::{Failure, Stage},
    inside::{self, Unstarted},
    prepare::PreparedJail,
};
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
    pub(crate) pidfd: Rc<OwnedFd>,
    /// Conversation with init.
    pub(crate) control: OwnedFd,
    /// Carries a failure; its end without one means that the command was executed. Non-blocking.
    pub(crate) errors: OwnedFd,
}

/// Starts a jail, inside the namespaces of its session when it has one.
pub(crate) fn spawn(jail: PreparedJail) -> Result<Child, Unstarted> {
    let failed = |errno| Unstarted::Nobody(Failure::at(Stage::Fork)(errno));
    let (errors, errors_in_child) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
    socket::set_nonblocking(errors.as_fd()).map_err(failed)?;
    let (pid, pidfd) = match &jail.resources.namespaces {
        Some(shared) => inside::start(&jail, &errors_in_child, shared)?,
        None => match fork::clone_process(jail.clone_flags(), jail.group()).map_err(failed)? {
            Forked::Child(proof) => child::enter(&jail, &errors_in_child, &proof),
            Forked::Parent { pid, pidfd } => (pid, pidfd),
        },
    };
    // Dropping the rest of `jail` closes the launcher's copies of the command's descriptors.
    Ok(Child {
        pid,
        pidfd: Rc::new(pidfd),
        control: jail.launcher_end,
        errors,
    })
}
