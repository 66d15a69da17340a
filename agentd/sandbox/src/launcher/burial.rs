//! Removing what an execution or a session left, without keeping the launcher's one thread from everybody
//! else: a little is removed at once; what is more than that is the business of a process of its own, and who
//! waits for the end waits for that.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::{
    jail::complain,
    removal::Allowance,
    stale::OwnDir,
    tripwire::{Progress, Tripwires},
};
use crate::{
    monitor::Tripped,
    sys::{
        caps, exec, files,
        fork::{self, Forked},
        signals, wait,
    },
};

/// Entries that are removed at once: a few milliseconds.
const AT_ONCE: u64 = 256;
/// Most helpers one after the other; one is enough unless somebody goes on making files.
const MOST_HELPERS: u32 = 3;

/// What is to be removed, and how far that has come.
#[derive(Debug)]
pub(crate) struct Burial {
    tripwires: Tripwires,
    /// Claimed until it is removed, so that nobody else takes it for abandoned.
    directory: Option<OwnDir>,
    helper: Option<Helper>,
    helpers: u32,
}

/// A process that removes the rest.
#[derive(Debug)]
struct Helper {
    pid: libc::pid_t,
    pidfd: OwnedFd,
}

impl Burial {
    /// Of what a command may have made although it must not, and of a private directory.
    pub(crate) fn of(tripwires: Tripwires, directory: Option<OwnDir>) -> Self {
        Self {
            tripwires,
            directory,
            helper: None,
            helpers: 0,
        }
    }

    /// Goes on as far as it can without waiting.
    pub(crate) fn go_on(&mut self) -> Progress {
        if let Some(helper) = &self.helper {
            if matches!(wait::reap(helper.pid), Ok(None)) {
                return Progress::Unfinished;
            }
            self.helper = None;
        }
        let wires = self.tripwires.spring(Allowance::of(AT_ONCE));
        let directory = self.remove_directory(&Allowance::of(AT_ONCE));
        if [wires, directory] == [Progress::Done; 2] {
            return Progress::Done;
        }
        if self.helpers == MOST_HELPERS {
            self.tripwires.give_up();
            if let Some(directory) = &self.directory {
                let what = directory.path().display();
                complain(format_args!("{what} remains: it grows while it is removed"));
            }
            return Progress::Done;
        }
        // Without one, this process goes on itself in its next turn.
        if let Ok(helper) = self.call_helper() {
            self.helper = Some(helper);
            self.helpers = self.helpers.saturating_add(1);
        }
        Progress::Unfinished
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> Option<libc::pollfd> {
        let helper = self.helper.as_ref()?;
        Some(signals::readable(helper.pidfd.as_raw_fd()))
    }

    /// Whether this is the pid of its helper.
    pub(crate) fn holds(&self, pid: libc::pid_t) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.pid == pid)
    }

    /// What the command made.
    pub(crate) fn tripped(&self) -> Vec<Tripped> {
        self.tripwires.tripped()
    }

    fn remove_directory(&mut self, allowance: &Allowance) -> Progress {
        let Some(directory) = &self.directory else {
            return Progress::Done;
        };
        match directory.remove(allowance) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Progress::Unfinished;
            }
            // A helper was as far.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                complain(format_args!(
                    "{} remains: {error}",
                    directory.path().display()
                ));
            }
            Ok(()) => {}
        }
        self.directory = None;
        Progress::Done
    }

    /// Forks it. As a copy of a process with one thread it may allocate.
    fn call_helper(&self) -> Result<Helper, Errno> {
        let launcher = nix::unistd::getpid();
        match fork::clone_process(0, None)? {
            Forked::Child(_) => {
                if withdraw(launcher).is_err() {
                    exec::exit_now(1);
                }
                self.remove_all();
                exec::exit_now(0)
            }
            Forked::Parent { pid, pidfd } => Ok(Helper { pid, pidfd }),
        }
    }

    /// The helper's work. What fails is tried once more by the launcher, who tells why.
    fn remove_all(&self) {
        self.tripwires.remove_rest();
        if let Some(directory) = &self.directory {
            let all = Allowance::unlimited();
            directory.remove(&all).unwrap_or_default();
        }
    }
}

/// Keeps nothing of the launcher's that somebody waits for the end of, and ends with the launcher: the janitor
/// goes on then.
fn withdraw(launcher: nix::unistd::Pid) -> Result<(), Errno> {
    caps::set_name(c"agentd-remover")?;
    caps::die_with(launcher)?;
    files::close_all_but(&[libc::STDERR_FILENO])
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::claim::{self, Maker};

    fn directory(name: &str, entries: u64) -> (PathBuf, OwnDir) {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let dir = dir.join(format!("burial-{name}-{}", std::process::id()));
        let own = OwnDir::make(dir.clone()).unwrap();
        for number in 0..entries {
            fs::write(dir.join(number.to_string()), "").unwrap();
        }
        (dir, own)
    }

    #[test]
    fn a_little_is_removed_at_once() {
        for entries in [0, 1, AT_ONCE - 1] {
            let (dir, own) = directory("little", entries);
            let mut burial = Burial::of(Tripwires::default(), Some(own));
            assert_eq!(burial.go_on(), Progress::Done, "{entries}");
            assert!(!dir.exists() && burial.watched().is_none());
        }
    }

    /// Tests have threads, and a process with threads must not fork: the launcher goes on bit by bit then.
    #[test]
    fn without_a_helper_it_still_comes_to_an_end() {
        let (dir, own) = directory("much", 9 * AT_ONCE);
        let mut burial = Burial::of(Tripwires::default(), Some(own));
        let mut turns = 0;
        while burial.go_on() == Progress::Unfinished {
            assert!(
                matches!(claim::maker_of(&dir), Maker::Alive),
                "nobody else may take it"
            );
            turns += 1;
        }
        assert_eq!(turns, 9);
        assert!(!dir.exists());
    }

    #[test]
    fn what_cannot_be_removed_does_not_keep_anybody() {
        let (dir, own) = directory("gone", 0);
        fs::remove_dir(dir).unwrap();
        let mut burial = Burial::of(Tripwires::default(), Some(own));
        assert_eq!(burial.go_on(), Progress::Done);
    }
}
