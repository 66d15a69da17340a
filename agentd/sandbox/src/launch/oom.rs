//! Whom the kernel kills when memory runs out: a command, never the daemon, and rather a command than
//! the init that has to tell how it ended. System calls only.

use std::os::fd::{AsFd, OwnedFd};

use nix::{errno::Errno, fcntl::OFlag, sys::stat::Mode};

use crate::{
    policy::Tier,
    sys::{caps, files},
};

/// The largest `oom_score_adj`: killed before anybody else.
const FIRST: &[u8] = b"1000";

/// Opens the setting of this process. Without it the kernel chooses by size alone, which is no reason
/// not to run: the memory limit holds all the same.
pub(super) fn open(tier: Tier) -> Option<OwnedFd> {
    let opened = if tier == Tier::Nested {
        open_undumpable()
    } else {
        open_here()
    };
    opened.ok()
}

/// The files of an undumpable process belong to root, and this one is a copy of the launcher, which is.
fn open_undumpable() -> Result<OwnedFd, Errno> {
    caps::set_dumpable()?;
    let opened = open_here();
    caps::set_undumpable()?;
    opened
}

fn open_here() -> Result<OwnedFd, Errno> {
    nix::fcntl::open(
        c"/proc/self/oom_score_adj",
        OFlag::O_WRONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
}

/// Makes this process, and what it forks from now on, the first to be killed. To be called without
/// capabilities: with them the kernel would not let init go back.
pub(super) fn prefer_commands(setting: Option<&OwnedFd>) {
    if let Some(setting) = setting {
        files::write_once(setting.as_fd(), FIRST).unwrap_or_default();
    }
}

/// Gives this process back what it had.
pub(super) fn spare_init(setting: Option<&OwnedFd>, value: &[u8]) {
    if let Some(setting) = setting {
        files::write_once(setting.as_fd(), value).unwrap_or_default();
    }
}
