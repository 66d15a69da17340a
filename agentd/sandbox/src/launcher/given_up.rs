//! The inits that were given up: on the nested tier they go on sweeping on their own, since their
//! conversation is closed; elsewhere they are stuck in the kernel during their set-up, with a KILL on the
//! way. They are reaped whenever they end.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    rc::Rc,
};

use super::scout::Scout;
use crate::{
    launch::Child,
    sys::{signals, wait},
};

/// Inits that are still to be reaped.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(Vec<Init>);

#[derive(Debug)]
struct Init {
    pid: libc::pid_t,
    pidfd: Rc<OwnedFd>,
    /// Throw-away uid that it or its commands may still have.
    uid: Option<u32>,
}

impl GivenUp {
    /// Takes over the init of an execution that is over for everybody else. Its conversation ends here,
    /// upon which it kills until nothing is left.
    pub(crate) fn add(&mut self, child: Child, uid: Option<u32>) {
        let Child { pid, pidfd, .. } = child;
        self.0.push(Init { pid, pidfd, uid });
    }

    /// Kills a scout that does not come back, and takes it over.
    pub(crate) fn add_scout(&mut self, scout: Scout) {
        let (pid, pidfd) = scout.abandon();
        self.0.push(Init {
            pid,
            pidfd: Rc::new(pidfd),
            uid: None,
        });
    }

    /// Reaps those that have ended. Returns their uids, which nobody has any more.
    pub(crate) fn reap(&mut self) -> Vec<u32> {
        let ended = self
            .0
            .extract_if(.., |init| !matches!(wait::reap(init.pid), Ok(None)));
        ended.filter_map(|init| init.uid).collect()
    }

    /// Whether this is the pid of one.
    pub(crate) fn holds(&self, pid: libc::pid_t) -> bool {
        self.0.iter().any(|init| init.pid == pid)
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> impl Iterator<Item = libc::pollfd> {
        self.0
            .iter()
            .map(|init| signals::readable(init.pidfd.as_raw_fd()))
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
            pidfd: Rc::new(null()),
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
        given_up.add(ended, Some(7));
        given_up.add(running, Some(8));
        let mut freed = Vec::new();
        while given_up.0.len() > 1 {
            freed.extend(given_up.reap());
        }
        // The uid of one that lives is nobody else's.
        assert_eq!(freed, [7]);
        assert_eq!(given_up.0[0].pid, pids.1);
        assert_eq!(wait::reap(pids.0).unwrap_err(), nix::errno::Errno::ECHILD);
        wait::signal_pid(pids.1, libc::SIGKILL).unwrap();
        while given_up.watched().next().is_some() {
            freed.extend(given_up.reap());
        }
        assert_eq!(freed, [7, 8]);
    }
}
