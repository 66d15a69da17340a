//! A process that looks at paths before the launcher does. The launcher has one thread: where a look can
//! wait for a server that is dead, it must not be that thread's.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use crate::sys::{
    caps, exec, files,
    fork::{self, Forked},
    signals, wait,
};

/// One that is on its way. To be reaped, or given to who reaps.
#[derive(Debug)]
pub(crate) struct Scout {
    pid: libc::pid_t,
    pidfd: OwnedFd,
}

impl Scout {
    /// Forks it. It has no descriptor of the launcher's but `keep`, on which it can tell something; that it comes
    /// back is told by its end. As a copy of a process with one
    /// thread it may allocate, and as one that never calls `execve` it stays as privileged as the launcher.
    pub(crate) fn send(keep: Option<BorrowedFd<'_>>, look: impl FnOnce()) -> Result<Self, Errno> {
        let launcher = nix::unistd::getpid();
        let kept = keep.map(|fd| fd.as_raw_fd());
        let kept = kept.as_slice();
        match fork::clone_process(0, None)? {
            Forked::Child(_) => {
                // ORDER: a copy of a descriptor that stays open in here would keep a conversation open that
                // the launcher ends; and it must not outlive the launcher.
                if caps::die_with(launcher).is_err() || files::close_all_but(kept).is_err() {
                    exec::exit_now(1);
                }
                look();
                exec::exit_now(0)
            }
            Forked::Parent { pid, pidfd } => Ok(Self { pid, pidfd }),
        }
    }

    /// It has come back, and was reaped. Not to be asked again after that.
    pub(crate) fn is_back(&self) -> bool {
        !matches!(wait::reap(self.pid), Ok(None))
    }

    /// Whether this is its pid.
    pub(crate) fn is(&self, pid: libc::pid_t) -> bool {
        self.pid == pid
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> libc::pollfd {
        signals::readable(self.pidfd.as_raw_fd())
    }

    /// Kills it. Its pid and a descriptor that names it, for whoever reaps it: it may be stuck in the kernel.
    pub(crate) fn abandon(self) -> (libc::pid_t, OwnedFd) {
        // ESRCH: it has just ended.
        wait::signal_pidfd(self.pidfd.as_fd(), libc::SIGKILL).unwrap_or_default();
        (self.pid, self.pidfd)
    }
}
