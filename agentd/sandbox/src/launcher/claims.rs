//! Which protected names may be a command's work, told to every launcher of this machine, whoever's it is: for
//! each such name a lock on the workspace's directory. The kernel keeps it for as long as this launcher or its
//! janitor has the descriptor, so that nothing has to be removed and nothing stays after a kill.
//!
//! A command can take such locks itself. All it gains is that a name is removed which it has replaced.

use std::{
    ffi::CString,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    rc::Rc,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
};

use crate::sys::files::{self, Resolve};

/// The claims of one execution on names in its workspace. They end when it is dropped and nobody else has the
/// descriptor that keeps them.
#[derive(Debug)]
pub(crate) struct Claims(Rc<OwnedFd>);

impl Claims {
    /// None yet. The errors are those of opening the directory for reading.
    pub(crate) fn on(workspace: &Path) -> Result<Self, Errno> {
        let path = CString::new(workspace.as_os_str().as_bytes()).map_err(|_nul| Errno::EINVAL)?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        files::open(None, &path, flags, Resolve::NoSymlinks).map(|fd| Self(Rc::new(fd)))
    }

    /// For whoever goes on with them when this process is killed.
    pub(crate) fn kept_by(&self) -> &Rc<OwnedFd> {
        &self.0
    }

    /// Says that this execution may have made `name`, which is relative to the workspace.
    pub(crate) fn claim(&self, name: &Path) -> Result<(), Errno> {
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&lock(libc::F_RDLCK, name))).map(drop)
    }

    /// Whether another execution says so.
    pub(crate) fn is_claimed(&self, name: &Path) -> Result<bool, Errno> {
        let mut lock = lock(libc::F_WRLCK, name);
        fcntl(&self.0, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }
}

/// A lock on one byte, whose place stands for the name. Two names on the same place cost nothing but a
/// comparison at the end.
fn lock(kind: libc::c_int, name: &Path) -> libc::flock {
    libc::flock {
        l_type: kind.try_into().unwrap_or_default(),
        l_whence: libc::SEEK_SET.try_into().unwrap_or_default(),
        l_start: place(name),
        l_len: 1,
        l_pid: 0,
    }
}

/// The same in every launcher: FNV-1a, 62 bits of it.
fn place(name: &Path) -> libc::off_t {
    let hash = name
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    libc::off_t::try_from(hash >> 2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_claim_is_seen_by_others_until_it_ends() {
        let dir = std::env::temp_dir().join(format!("claims-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        let names = [".vscode", ".git/hooks", ".env"].map(Path::new);
        let (one, two) = (Claims::on(&dir).unwrap(), Claims::on(&dir).unwrap());
        for name in names {
            assert_eq!(two.is_claimed(name), Ok(false));
            one.claim(name).unwrap();
            assert_eq!(one.is_claimed(name), Ok(false), "by itself");
            assert_eq!(two.is_claimed(name), Ok(true));
            two.claim(name).unwrap();
            assert_eq!(one.is_claimed(name), Ok(true));
        }
        for name in ["", ".vscod", ".vscode/tasks.json", ".git"].map(Path::new) {
            assert_eq!(two.is_claimed(name), Ok(false), "{name:?}");
        }
        drop(one);
        for name in names {
            assert_eq!(two.is_claimed(name), Ok(false));
            assert_eq!(Claims::on(&dir).unwrap().is_claimed(name), Ok(true));
        }
        fs::remove_dir(dir).unwrap();
    }
}
