//! The inits that were given up (nested tier only): they go on sweeping on their own, since their
//! conversation is closed, and are reaped whenever they end.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::{
    launch::Child,
    sys::{signals, wait},
};

/// Inits that are still to be reaped.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(Vec<(libc::pid_t, OwnedFd)>);

impl GivenUp {
    /// Takes over the init of an execution that is over for everybody else. Its conversation ends here,
    /// upon which it kills until nothing is left.
    pub(crate) fn add(&mut self, child: Child) {
        self.0.push((child.pid, child.pidfd));
    }

    /// Reaps those that have ended.
    pub(crate) fn reap(&mut self) {
        self.0
            .retain(|(pid, _)| matches!(wait::reap(*pid), Ok(None)));
    }

    /// Whether this is the pid of one.
    pub(crate) fn holds(&self, pid: libc::pid_t) -> bool {
        self.0.iter().any(|(known, _)| *known == pid)
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> impl Iterator<Item = libc::pollfd> {
        self.0
            .iter()
            .map(|(_, pidfd)| signals::readable(pidfd.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, process::Command};

    use super::*;

    #[expect(clippy::zombie_processes, reason = "what is tested reaps it")]
    fn child(script: &str) -> Child {
        #[expect(clippy::disallowed_methods, reason = "a test")]
        let mut command = Command::new("sh");
        let started = command.args(["-c", script]).spawn().unwrap();
        let null = || File::open("/dev/null").unwrap().into();
        Child {
            pid: i32::try_from(started.id()).unwrap(),
            pidfd: null(),
            control: null(),
            errors: null(),
        }
    }

    #[test]
    fn an_init_stays_until_it_has_ended_and_leaves_no_zombie() {
        let mut given_up = GivenUp::default();
        let ended = child("exit 3");
        let running = child("exec sleep 100");
        let pids = (ended.pid, running.pid);
        given_up.add(ended);
        given_up.add(running);
        while given_up.0.len() > 1 {
            given_up.reap();
        }
        assert_eq!(given_up.0[0].0, pids.1);
        assert_eq!(wait::reap(pids.0).unwrap_err(), nix::errno::Errno::ECHILD);
        wait::signal_pid(pids.1, libc::SIGKILL).unwrap();
        while given_up.watched().next().is_some() {
            given_up.reap();
        }
    }
}
