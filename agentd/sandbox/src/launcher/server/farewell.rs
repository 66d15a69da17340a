//! The end of the launcher: nothing of any jail or session stays.

use std::os::fd::AsRawFd;

use super::Server;
use crate::{monitor::ExecKey, policy::Tier, sys::signals};

/// How long jails may take to end when the front end is gone.
const FAREWELL_MS: u64 = 3_000;
/// How often what they left is looked at when nothing tells that it is gone.
const AGAIN_MS: i32 = 10;

impl Server {
    /// The front end is gone: every jail dies, and what they left is cleaned up.
    pub(super) fn farewell(&mut self) {
        for jail in self.jails.values() {
            jail.kill_tree();
        }
        let until = self.clock.now().after(FAREWELL_MS);
        while !self.jails.is_empty() && self.clock.now() < until {
            let mut fds: Vec<_> = self
                .jails
                .values()
                .map(|jail| signals::readable(jail.child.pidfd.as_raw_fd()))
                .collect();
            if signals::poll(&mut fds, 100).is_err() {
                break;
            }
            let now = self.clock.now();
            let keys: Vec<ExecKey> = self.jails.keys().copied().collect();
            for exec in keys {
                if let Some(jail) = self.jails.get_mut(&exec) {
                    jail.observe(now);
                    if jail.life.is_over() {
                        self.bury(exec, None);
                    }
                }
            }
        }
        for jail in std::mem::take(&mut self.jails).into_values() {
            // Without a pid namespace init is the one who can still sweep; it sees that we are gone.
            if jail.report.tier > Tier::Nested {
                jail.kill_init();
            }
            // What it may still make is left to the janitor, who waits for its init.
            let grave = self.dig(jail, None);
            self.begin_burying(grave);
        }
        for session in self.workshop.sessions.keys() {
            self.bury_session(session, None);
        }
        // What takes longer is left to the janitor, who begins when this process has ended.
        let until = self.clock.now().after(FAREWELL_MS);
        while !self.mourning.is_over() && self.clock.now() < until {
            let mut fds: Vec<_> = self.mourning.watched().collect();
            if signals::poll(&mut fds, AGAIN_MS).is_err() {
                break;
            }
            self.go_on_burying();
        }
    }
}
