//! Inits that nobody knows. In a session a process in between forks a command's init and tells its pid; one that
//! is killed before it has told leaves an init behind, which is this process's child all the same. It ends by
//! itself, since the other end of its conversation is closed, and has to be reaped.

use super::{super::lifecycle::Millis, Server};
use crate::sys::wait;

/// It is looked for so often, and for so long, after a start that failed.
const AGAIN_MS: u64 = 20;
const PATIENCE_MS: u64 = 5_000;

/// Until when there may be some.
#[derive(Debug, Default)]
pub(in crate::launcher) struct Strays(Option<Millis>);

impl Strays {
    /// There may be some.
    pub(in crate::launcher) fn are_possible(&self) -> bool {
        self.0.is_some()
    }

    /// When to look again.
    pub(super) fn due(&self, now: Millis) -> Option<Millis> {
        self.0.map(|_| now.after(AGAIN_MS))
    }
}

impl Server {
    /// Reaps children that have ended and that nobody else waits for.
    pub(super) fn reap_strays(&mut self) {
        let now = self.clock.now();
        if std::mem::take(&mut self.workshop.stray) {
            self.strays = Strays(Some(now.after(PATIENCE_MS)));
        }
        let Some(until) = self.strays.0 else { return };
        while let Some(pid) = wait::ended_child().filter(|pid| !self.knows(*pid)) {
            if wait::reap(pid).is_err() {
                break;
            }
        }
        if now >= until {
            self.strays = Strays(None);
        }
    }

    fn knows(&self, pid: libc::pid_t) -> bool {
        let mut jails = self.jails.values();
        jails.any(|jail| jail.child.pid == pid || jail.watch.holds(pid))
            || self.given_up.holds(pid)
            || self.mourning.holds(pid)
            || self.ahead.holds(pid)
            || self.workshop.janitor.holds(pid)
    }
}
