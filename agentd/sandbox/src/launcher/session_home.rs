//! The directory of a session on the host. Only its owner, the launcher's user, can look into it; what a
//! command sees of it is mounted into its jail, or granted by Landlock rules.
//!
//! ```text
//! /tmp/agentd-PID-NAMESPACE-sKEY/   0700
//!     tmp/      0700  mount point of the session's /tmp; on the nested tier the directory itself
//!     output/   0755  kept output; made by the launcher, filled by the front end, read by commands
//!     scripts/  0755  scripts of running commands, on the nested tier
//! ```

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use nix::{
    errno::Errno,
    sys::stat::{Mode, fchmod, fstat},
    unistd::{UnlinkatFlags, unlinkat},
};

use super::{
    removal::Allowance,
    stale::{self, OwnDir},
};
use crate::{
    launch::open_name,
    monitor::ExecKey,
    policy::{SessionDirs, SessionKey},
    sys::files::{self, Resolve},
};

/// Longest name of an output file.
const LONGEST_NAME: usize = 64;

/// The directory of a session. It has to be given up, or it stays until the launcher's end.
#[derive(Debug)]
pub(crate) struct SessionHome {
    dir: OwnDir,
    output: Rc<OwnedFd>,
}

impl SessionHome {
    /// Makes it.
    pub(crate) fn make(session: SessionKey) -> io::Result<Self> {
        let dir = stale::make_session_dir(std::process::id(), session.0)?;
        match Self::furnish(dir.path()) {
            Ok(output) => Ok(Self {
                dir,
                output: Rc::new(output),
            }),
            Err(error) => {
                // What is told is why it cannot be used.
                dir.remove(&Allowance::unlimited()).unwrap_or_default();
                Err(error)
            }
        }
    }

    /// Gives it up; what is to be removed.
    pub(crate) fn forget(self) -> OwnDir {
        self.dir
    }

    /// Makes what is in it; the answer is the directory of kept output.
    fn furnish(path: &Path) -> io::Result<OwnedFd> {
        for (name, mode) in [("tmp", 0o700), ("output", 0o755), ("scripts", 0o755)] {
            let below = path.join(name);
            fs::create_dir(&below)?;
            // Whatever the file mode creation mask is.
            fs::set_permissions(&below, fs::Permissions::from_mode(mode))?;
        }
        Ok(open_name(&path.join("output"))?)
    }

    /// Its directory of temporary files.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Its directories, for one command.
    pub(crate) fn dirs(&self, exec: ExecKey) -> SessionDirs {
        SessionDirs {
            tmp: self.tmp(),
            output: self.dir.path().join("output"),
            script: self.dir.path().join("scripts").join(exec.0.to_string()),
        }
    }

    /// Makes an output file that was not there, readable and writable. `EINVAL` for a name that a request
    /// must not choose.
    pub(crate) fn make_output(&self, name: &str) -> Result<(KeptOutput, OwnedFd), Errno> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(allowed) {
            return Err(Errno::EINVAL);
        }
        let name = CString::new(name).map_err(|_nul| Errno::EINVAL)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let dir = self.output.as_fd();
        let file = files::open_mode(Some(dir), &name, (flags, 0o600), Resolve::Beneath)?;
        fchmod(file.as_fd(), Mode::from_bits_truncate(0o644))?;
        let kept = KeptOutput {
            dir: Rc::clone(&self.output),
            name,
        };
        Ok((kept, file))
    }
}

/// An output file in a session's directory.
#[derive(Debug)]
pub(crate) struct KeptOutput {
    dir: Rc<OwnedFd>,
    name: CString,
}

impl KeptOutput {
    /// Removes it if nothing was written to it.
    pub(crate) fn remove_if_empty(&self) {
        let opened = files::open(
            Some(self.dir.as_fd()),
            &self.name,
            libc::O_PATH | libc::O_NOFOLLOW,
            Resolve::Beneath,
        );
        let empty = opened.and_then(|file| fstat(file.as_fd()));
        if empty.is_ok_and(|stat| stat.st_size == 0) {
            self.remove();
        }
    }

    /// Removes it.
    pub(crate) fn remove(&self) {
        // It goes with the session at the latest.
        unlinkat(
            self.dir.as_fd(),
            self.name.as_c_str(),
            UnlinkatFlags::NoRemoveDir,
        )
        .unwrap_or_default();
    }
}
