//! What init does once the command runs: reap, report, and end everything when told to or when the
//! launcher is gone. It is pid 1 of the pid namespace, or on the nested tier a subreaper. System calls
//! only.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::{
    message::{self, Command, LimitEnds, Report},
    prepare::PreparedJail,
    sweep,
};
use crate::{
    monitor::SignalScope,
    policy::Tier,
    sys::{exec, files, signals, socket, wait},
};

/// How long to wait before sweeping again for processes that were forked during the last sweep.
const SWEEP_AGAIN_MS: i32 = 5;

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, all of them one way"
)]
struct State<'jail> {
    jail: &'jail PreparedJail,
    leader: libc::pid_t,
    leader_gone: bool,
    killing: bool,
    /// The launcher is gone: there is nobody to report to.
    alone: bool,
    leftover: u32,
    user_us: u64,
    system_us: u64,
    max_rss_kib: u64,
    ends: LimitEnds,
}

/// Runs until no process of the jail is left.
pub(super) fn run(jail: &PreparedJail, processes: (libc::pid_t, &OwnedFd)) -> ! {
    let (leader, signals) = processes;
    let mut keep = [jail.init_end.as_raw_fd(), signals.as_raw_fd()];
    keep.sort_unstable();
    // ORDER: init must not hold the command's pipes, or their reader never sees the end.
    if files::close_all_but(&keep).is_err() {
        exec::exit_now(1);
    }
    let mut state = State {
        jail,
        leader,
        leader_gone: false,
        killing: false,
        alone: false,
        leftover: 0,
        user_us: 0,
        system_us: 0,
        max_rss_kib: 0,
        ends: LimitEnds::default(),
    };
    loop {
        drain(signals);
        if state.reap_all() {
            state.finish();
        }
        if state.killing {
            state.signal_all(libc::SIGKILL);
        }
        state.wait(signals);
    }
}

/// Empties the signal descriptor, so that the next wait waits.
fn drain(signals: &OwnedFd) {
    let mut buffer = [0; 1024];
    while files::read(signals.as_fd(), &mut buffer).is_ok_and(|count| count > 0) {}
}

impl State<'_> {
    /// Reaps what has ended; true when no child is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match wait::reap_any() {
                Ok(Some(reaped)) => self.account(&reaped),
                Ok(None) => return false,
                Err(Errno::ECHILD) => return true,
                Err(_) => {}
            }
        }
    }

    fn account(&mut self, reaped: &wait::Reaped) {
        self.user_us = self.user_us.saturating_add(micros(reaped.usage.ru_utime));
        self.system_us = self.system_us.saturating_add(micros(reaped.usage.ru_stime));
        let rss = u64::try_from(reaped.usage.ru_maxrss).unwrap_or(0);
        self.max_rss_kib = self.max_rss_kib.max(rss);
        if reaped.pid == self.leader {
            self.leader_gone = true;
            self.report(Report::LeaderExited {
                status: reaped.status,
            });
            return;
        }
        if self.killing {
            self.leftover = self.leftover.saturating_add(1);
        }
        self.count_limit(reaped.status);
    }

    /// Whoever has a living parent is that one's to reap, and is not seen here.
    fn count_limit(&mut self, status: libc::c_int) {
        if !libc::WIFSIGNALED(status) {
            return;
        }
        let ends = &mut self.ends;
        match libc::WTERMSIG(status) {
            libc::SIGXCPU => ends.cpu = ends.cpu.saturating_add(1),
            libc::SIGXFSZ => ends.file_size = ends.file_size.saturating_add(1),
            _ => {}
        }
    }

    fn report(&mut self, report: Report) {
        if !self.alone
            && socket::send_with_fds(self.jail.init_end.as_fd(), &report.encode(), &[]).is_err()
        {
            self.alone = true;
            self.killing = true;
        }
    }

    fn finish(&mut self) -> ! {
        self.report(Report::Empty {
            leftover: self.leftover,
            user_us: self.user_us,
            system_us: self.system_us,
            max_rss_bytes: self.max_rss_kib.saturating_mul(1024),
            ends: self.ends,
        });
        exec::exit_now(0)
    }

    /// A process that is stopped cannot act on TERM: it is continued as well.
    fn signal(&self, signal: libc::c_int, scope: SignalScope) {
        self.signal_scope(signal, scope);
        if signal == libc::SIGTERM {
            self.signal_scope(libc::SIGCONT, scope);
        }
    }

    fn signal_scope(&self, signal: libc::c_int, scope: SignalScope) {
        // ORDER: reaping frees the leader's pid, and so the name of its group, for somebody else; from
        // then on neither is signalled. Nobody but this thread reaps it.
        let target = match scope {
            SignalScope::Tree => return self.signal_all(signal),
            SignalScope::Group | SignalScope::Leader if self.leader_gone => return,
            // The leader made a session, and so a group, of its own.
            SignalScope::Group => self.leader.saturating_neg(),
            SignalScope::Leader => self.leader,
        };
        // ESRCH only says that it has not come so far, or has ended.
        wait::signal_pid(target, signal).unwrap_or_default();
    }

    fn signal_all(&self, signal: libc::c_int) {
        if self.jail.tier > Tier::Nested {
            // Every process of the namespace but init. ESRCH only says that there is none.
            wait::signal_pid(-1, signal).unwrap_or_default();
        } else {
            let leader = if self.leader_gone { 0 } else { self.leader };
            if leader > 0 {
                wait::signal_pid(leader, signal).unwrap_or_default();
            }
            sweep::signal_descendants(signal, leader);
        }
    }

    fn wait(&mut self, signals: &OwnedFd) {
        let timeout = if self.killing { SWEEP_AGAIN_MS } else { -1 };
        let mut fds = [
            signals::readable(signals.as_raw_fd()),
            signals::readable(self.jail.init_end.as_raw_fd()),
        ];
        let watched = if self.alone { 1 } else { 2 };
        let (watched, _) = fds.split_at_mut(watched);
        if signals::poll(watched, timeout).is_err() {
            self.killing = true;
        }
        if watched.get(1).is_some_and(|control| control.revents != 0) {
            self.obey();
        }
    }

    fn obey(&mut self) {
        let mut bytes = [0; message::COMMAND];
        match files::read(self.jail.init_end.as_fd(), &mut bytes) {
            // The launcher is gone: everything ends.
            Ok(0) => {
                self.alone = true;
                self.killing = true;
            }
            Ok(count) => match bytes.get(..count).and_then(Command::decode) {
                Some(Command::Signal { signal, scope }) => {
                    self.signal(libc::c_int::from(signal), scope);
                }
                Some(Command::Kill) | None => self.killing = true,
            },
            Err(Errno::EINTR) => {}
            Err(_) => {
                self.alone = true;
                self.killing = true;
            }
        }
    }
}

fn micros(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}
