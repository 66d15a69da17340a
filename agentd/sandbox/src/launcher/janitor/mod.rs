//! The janitor: a process that cleans up on the host when the launcher could not, because it was killed.
//!
//! It is forked before the launcher makes anything, is told of whatever it could not find by itself, and
//! waits for the end of a socket whose other end only the launcher holds. Then it removes what a launcher of
//! this pid may have left (`process`), and ends. After an orderly end it finds nothing. When it is killed
//! itself, another one is forked and begins with everything that the first was told (`ledger`).

mod ledger;
mod process;

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use ledger::{Ledger, Word};
use nix::errno::Errno;

use super::{complain, tripwire::Tripwires};
use crate::{
    monitor::{Channel, ChannelError, ExecKey},
    sys::{
        files,
        fork::{self, Forked},
        signals, wait,
    },
};

/// How long an orderly end waits for it, and how long for the end of one that was killed.
const FAREWELL: Duration = Duration::from_secs(1);
/// Shortest time between two janitors: somebody may be killing one after the other.
const PAUSE: Duration = Duration::from_secs(1);

/// The launcher's side. Dropping it lets the janitor end.
#[derive(Debug)]
pub(crate) struct Janitor {
    ledger: Ledger,
    hired: Option<Hired>,
    hired_at: Instant,
    /// Were killed, and could not be reaped at once.
    fired: Vec<libc::pid_t>,
    /// Somebody was told that there is none.
    complained: bool,
}

/// A janitor at work.
#[derive(Debug)]
struct Hired {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    channel: Channel<Word, ()>,
}

impl Janitor {
    /// Forks the first one. To be called before anything is made, with one thread.
    pub(crate) fn hire() -> Result<Self, Errno> {
        let ledger = Ledger::default();
        Ok(Self {
            hired: Some(Hired::fork(&ledger)?),
            hired_at: Instant::now(),
            ledger,
            fired: Vec::new(),
            complained: false,
        })
    }

    /// Its pid, as this process sees it; 0 when there is none at the moment.
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.hired.as_ref().map_or(0, |hired| hired.pid)
    }

    /// Has a cgroup removed as well, with everything below it and every process in it: the directory of a
    /// cgroup that this launcher made.
    pub(crate) fn entrust_cgroup(&mut self, path: &Path) {
        self.tell(&Word::Group(path.to_owned()), None);
    }

    /// Has what the command makes of these names removed, and keeps others told of them until that is done. To
    /// be called before the command can run.
    pub(crate) fn entrust_names(&mut self, exec: ExecKey, watched: &Tripwires) {
        let Some((workspace, owner, claims)) = watched.base() else {
            return;
        };
        let missing = watched.names().filter(|name| name.before.is_none());
        let word = Word::Names {
            exec,
            workspace: workspace.to_owned(),
            owner,
            names: missing.map(|name| name.path.clone()).collect(),
        };
        self.tell(&word, Some(claims));
        for found in watched.names().filter(|name| name.before.is_some()) {
            let name = found.path.clone();
            self.tell(&Word::Found { exec, name }, found.before.as_ref());
        }
    }

    /// Says by which process it shows that the command is gone.
    pub(crate) fn started(&mut self, exec: ExecKey, init: &Rc<OwnedFd>) {
        if self.ledger.knows(exec) {
            self.tell(&Word::Started { exec }, Some(init));
        }
    }

    /// The command is gone and was cleaned up after: from now on its names are nobody's business.
    pub(crate) fn over(&mut self, exec: ExecKey) {
        if self.ledger.knows(exec) {
            self.tell(&Word::Over { exec }, None);
        }
    }

    /// Whether this is the pid of one.
    pub(crate) fn holds(&self, pid: libc::pid_t) -> bool {
        self.pid() == pid || self.fired.contains(&pid)
    }

    /// What becomes readable when it dies.
    pub(crate) fn watched(&self) -> Option<libc::pollfd> {
        let hired = self.hired.as_ref();
        hired.map(|hired| signals::readable(hired.pidfd.as_raw_fd()))
    }

    /// After how many milliseconds to look after it though nothing happens.
    pub(crate) fn due(&self) -> Option<u64> {
        let waits = self.hired.is_none() || !self.fired.is_empty();
        let left = PAUSE.saturating_sub(self.hired_at.elapsed());
        waits.then(|| u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1))
    }

    /// Reaps one that was killed and forks another.
    pub(crate) fn look_after(&mut self) {
        self.fired
            .retain(|pid| matches!(wait::reap(*pid), Ok(None)));
        if let Some(hired) = &self.hired {
            if matches!(wait::reap(hired.pid), Ok(None)) {
                return;
            }
            self.hired = None;
            complain(format_args!(
                "the janitor was killed; another one takes over what it was told"
            ));
        }
        if self.hired_at.elapsed() >= PAUSE {
            self.hire_another();
        }
    }

    /// Writes it down, then says it.
    fn tell(&mut self, word: &Word, fd: Option<&Rc<OwnedFd>>) {
        self.ledger.note(word, fd.map(Rc::clone));
        let Some(hired) = &self.hired else {
            // Whoever is hired next reads it in the ledger.
            return;
        };
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        match hired.channel.send(word, &fds) {
            Ok(()) => {}
            Err(error @ (ChannelError::TooLarge(_) | ChannelError::Protocol(_))) => {
                complain(format_args!("the janitor cannot be told: {error}"));
            }
            // ORDER: it is gone, or stopped and listens no more. Another one has to know before anything
            // is made.
            Err(ChannelError::WouldBlock | ChannelError::Socket(_)) => {
                self.fire();
                complain(format_args!(
                    "the janitor does not listen; another one takes over what it was told"
                ));
                self.hire_another();
            }
        }
    }

    /// Kills the one there is: two would be in each other's way.
    fn fire(&mut self) {
        if let Some(hired) = self.hired.take() {
            // ESRCH only says that it is dead.
            wait::signal_pidfd(hired.pidfd.as_fd(), libc::SIGKILL).unwrap_or_default();
            if !hired.ends_soon() {
                self.fired.push(hired.pid);
            }
        }
    }

    fn hire_another(&mut self) {
        self.hired_at = Instant::now();
        match Hired::fork(&self.ledger) {
            Ok(hired) => {
                self.hired = Some(hired);
                self.complained = false;
            }
            Err(errno) if !self.complained => {
                self.complained = true;
                complain(format_args!(
                    "no janitor can be started, so what this process makes will remain if it is killed: {}; \
                     raise the limits of processes and memory",
                    errno.desc()
                ));
            }
            Err(_) => {}
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        if let Some(Hired {
            pid,
            pidfd,
            channel,
        }) = self.hired.take()
        {
            drop(channel);
            reap_within(FAREWELL, pid, &pidfd);
        }
    }
}

impl Hired {
    fn fork(ledger: &Ledger) -> Result<Self, Errno> {
        let (channel, theirs) = Channel::pair().map_err(|error| errno_of(&error))?;
        let launcher = std::process::id();
        match fork::clone_process(0, None)? {
            Forked::Child(_) => {
                // ORDER: its copy of the other end goes first, or the conversation never ends.
                let closed = files::close_number(channel.as_fd().as_raw_fd());
                process::run((launcher, closed), &theirs, ledger.clone())
            }
            Forked::Parent { pid, pidfd } => {
                channel
                    .set_nonblocking()
                    .map_err(|error| errno_of(&error))?;
                Ok(Self {
                    pid,
                    pidfd,
                    channel,
                })
            }
        }
    }

    fn ends_soon(&self) -> bool {
        reap_within(FAREWELL, self.pid, &self.pidfd)
    }
}

/// Waits for the end of a child; false when it takes longer.
fn reap_within(patience: Duration, pid: libc::pid_t, pidfd: &OwnedFd) -> bool {
    let start = Instant::now();
    while matches!(wait::reap(pid), Ok(None)) {
        let left = patience.saturating_sub(start.elapsed());
        let left = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        let mut ended = [signals::readable(pidfd.as_raw_fd())];
        if left == 0 || signals::poll(&mut ended, left).is_err() {
            return false;
        }
    }
    true
}

fn errno_of(error: &ChannelError) -> Errno {
    match error {
        ChannelError::Socket(errno) => *errno,
        ChannelError::WouldBlock => Errno::EAGAIN,
        ChannelError::TooLarge(_) | ChannelError::Protocol(_) => Errno::EMSGSIZE,
    }
}
