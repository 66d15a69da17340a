//! Inits that nobody knows. In a session a process in between forks a command's init and tells its pid; one that
//! is killed before it has told leaves an init behind, which is this process's child all the same. It ends by
//! itself, since the other end of its conversation is closed, and has to be reaped.

use std::collections::BTreeMap;

use super::{super::lifecycle::Millis, Server};
use crate::{policy::SessionKey, sys::wait};

/// It is looked for so often, and for so long, after a start that failed.
const AGAIN_MS: u64 = 20;
const PATIENCE_MS: u64 = 5_000;

/// Until when there may be some, for each session. What a start that failed holds up is its own session alone.
#[derive(Debug, Default)]
pub(in crate::launcher) struct Strays(BTreeMap<SessionKey, Millis>);

impl Strays {
    /// There may be some in this session.
    pub(in crate::launcher) fn are_possible_in(&self, session: SessionKey) -> bool {
        self.0.contains_key(&session)
    }

    /// When to look again.
    pub(super) fn due(&self, now: Millis) -> Option<Millis> {
        (!self.0.is_empty()).then(|| now.after(AGAIN_MS))
    }

    /// There may be one from now on.
    fn expect(&mut self, sessions: Vec<SessionKey>, now: Millis) {
        let until = now.after(PATIENCE_MS);
        self.0.extend(sessions.into_iter().map(|key| (key, until)));
    }

    /// Those that were to come have come.
    fn forget_old(&mut self, now: Millis) {
        self.0.retain(|_, until| now < *until);
    }
}

impl Server {
    /// Reaps children that have ended and that nobody else waits for.
    pub(super) fn reap_strays(&mut self) {
        let now = self.clock.now();
        self.strays
            .expect(std::mem::take(&mut self.workshop.strays), now);
        if self.strays.0.is_empty() {
            return;
        }
        for pid in wait::ended_children() {
            if !self.knows(pid) {
                // ECHILD: it is no child any more.
                wait::reap(pid).map(drop).unwrap_or_default();
            }
        }
        self.strays.forget_old(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_failed_holds_up_its_own_session_for_a_while() {
        let [one, two, other] = [1, 2, 3].map(SessionKey);
        let mut strays = Strays::default();
        assert_eq!(strays.due(Millis(0)), None);
        strays.expect(vec![one], Millis(0));
        strays.expect(vec![two, two], Millis(1_000));
        for (now, expected) in [
            (0, [true, true]),
            (PATIENCE_MS - 1, [true, true]),
            (PATIENCE_MS, [false, true]),
            (PATIENCE_MS + 1_000, [false, false]),
        ] {
            strays.forget_old(Millis(now));
            assert_eq!([one, two].map(|key| strays.are_possible_in(key)), expected);
            assert!(!strays.are_possible_in(other));
            assert_eq!(strays.due(Millis(now)).is_some(), expected[1]);
        }
    }
}
