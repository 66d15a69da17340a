//! How a jail gets into its group.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use crate::sys::files;

/// The way in. Each is there before the command's first instruction.
#[derive(Debug)]
pub(crate) enum Entry {
    /// There is no group.
    None,
    /// The jail's init is cloned into the group with this directory, which costs nothing.
    Cloned(OwnedFd),
    /// Init writes itself into these `cgroup.procs`. After idle time the kernel takes 8 to 16 ms for
    /// that, so it must not be the launcher that waits.
    InitWrites(Vec<OwnedFd>),
    /// The leader does. For the nested tier: killing the group then leaves init alive, which reaps what
    /// was killed and reports.
    LeaderWrites(Vec<OwnedFd>),
}

impl Entry {
    /// The group to be cloned into.
    pub(crate) fn cloned(&self) -> Option<&OwnedFd> {
        match self {
            Self::Cloned(directory) => Some(directory),
            Self::None | Self::InitWrites(_) | Self::LeaderWrites(_) => None,
        }
    }

    /// What init does. System calls only.
    pub(crate) fn enter_as_init(&self) -> Result<(), Errno> {
        match self {
            Self::InitWrites(files) => write_all(files),
            Self::None | Self::Cloned(_) | Self::LeaderWrites(_) => Ok(()),
        }
    }

    /// What the leader does. System calls only.
    pub(crate) fn enter_as_leader(&self) -> Result<(), Errno> {
        match self {
            Self::LeaderWrites(files) => write_all(files),
            Self::None | Self::Cloned(_) | Self::InitWrites(_) => Ok(()),
        }
    }
}

fn write_all(files: &[OwnedFd]) -> Result<(), Errno> {
    for file in files {
        // 0 is whoever writes, whatever its pid is in which namespace.
        files::write_once(file.as_fd(), b"0")?;
    }
    Ok(())
}
