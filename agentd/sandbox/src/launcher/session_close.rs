//! Closing sessions: what runs in one is killed, and when the last of it is gone everything that the
//! session had is removed and the front end is told.

use super::{
    jail::Jail,
    lifecycle::{Input, Millis},
    server::Server,
};
use crate::{
    monitor::{Event, ExecKey, StopReason},
    policy::SessionKey,
};

impl Server {
    /// Ends what runs in a session; `finish_closing` does the rest when the last of it is gone.
    pub(super) fn close_session(&mut self, session: SessionKey, now: Millis) {
        if !self.workshop.sessions.start_closing(session) {
            // One that is being buried is announced when that is done.
            if !self.mourning.is_for(session) {
                self.outbox.push(&Event::SessionClosed { session });
            }
            return;
        }
        let jails = self.jails.iter();
        let inside = jails.filter(|(_, jail)| jail.session == Some(session));
        let inside: Vec<ExecKey> = inside.map(|(exec, _)| *exec).collect();
        for exec in inside {
            let stop = Input::Stop {
                reason: StopReason::Cancelled,
                grace_ms: Some(0),
            };
            self.step(exec, now, stop);
        }
    }

    /// Removes the sessions being closed in which nothing runs any more.
    pub(super) fn finish_closing(&mut self) {
        for session in self.workshop.sessions.closing() {
            if self.strays.are_possible_in(session) {
                // One may still run as the session's user.
                continue;
            }
            let occupied = |jail: &Jail| jail.session == Some(session);
            if !self.jails.values().any(occupied) && !self.mourning.is_for(session) {
                self.bury_session(session, Some(Event::SessionClosed { session }));
            }
        }
    }
}
