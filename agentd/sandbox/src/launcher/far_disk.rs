//! Growth of far file systems. A scout asks how much of them is in use: one whose server is dead keeps the
//! scout, and the growth is then what was measured last.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use nix::{fcntl::OFlag, sys::stat::fstat, unistd::pipe2};

use super::{lifecycle::Millis, limits, scout::Scout};
use crate::{launch::open_name, sys::files};

/// Time between two questions.
const EVERY_MS: u64 = 2_000;

/// The far file systems that one command can write to.
#[derive(Debug)]
pub(crate) struct FarDisk {
    paths: Vec<PathBuf>,
    /// Bytes in use at the first answer.
    before: Option<u64>,
    growth: u64,
    pub(super) next: Millis,
    asking: Option<(Scout, OwnedFd)>,
}

impl FarDisk {
    /// Asks for the first time; `None` without paths.
    pub(crate) fn new(now: Millis, paths: Vec<PathBuf>) -> Option<Self> {
        if paths.is_empty() {
            return None;
        }
        let mut disk = Self {
            paths,
            before: None,
            growth: 0,
            next: now,
            asking: None,
        };
        disk.sample(now);
        Some(disk)
    }

    /// Takes the last answer, if it is there, and asks again.
    pub(crate) fn sample(&mut self, now: Millis) {
        self.next = now.after(EVERY_MS);
        if let Some((scout, answer)) = self.asking.take() {
            if !scout.is_back() {
                self.asking = Some((scout, answer));
                return;
            }
            let mut bytes = [0; 8];
            // A scout that was killed has said nothing.
            if files::read(answer.as_fd(), &mut bytes) == Ok(bytes.len()) {
                let used = u64::from_le_bytes(bytes);
                let before = *self.before.get_or_insert(used);
                self.growth = used.saturating_sub(before);
            }
        }
        let Ok((answer, tell)) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) else {
            return;
        };
        let scout = Scout::send(Some(tell.as_fd()), || {
            let used = used(&self.paths).to_le_bytes();
            // Nobody else can be told.
            files::write_once(tell.as_fd(), &used).unwrap_or_default();
        });
        self.asking = scout.ok().map(|scout| (scout, answer));
    }

    /// Bytes by which they have grown, as far as is known.
    pub(crate) fn growth(&self) -> u64 {
        self.growth
    }

    /// Whether this is the pid of its scout.
    pub(crate) fn holds(&self, pid: libc::pid_t) -> bool {
        self.asking.as_ref().is_some_and(|(scout, _)| scout.is(pid))
    }

    /// The scout that is on its way, for whoever reaps it.
    pub(crate) fn into_scout(self) -> Option<Scout> {
        self.asking.map(|(scout, _answer)| scout)
    }
}

/// Bytes in use; each file system is counted once.
fn used(paths: &[PathBuf]) -> u64 {
    let mut all = BTreeMap::new();
    for path in paths {
        if let Ok(directory) = open_name(path)
            && let (Ok(stat), Some(used)) = (fstat(&directory), limits::used(&directory))
        {
            all.insert(stat.st_dev, used);
        }
    }
    all.into_values().fold(0, u64::saturating_add)
}
