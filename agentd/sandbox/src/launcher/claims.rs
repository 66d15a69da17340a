//! Which protected names may be a command's work, told to every launcher of this machine that works for the same
//! user: for each such name a lock on a file of that user's. The kernel keeps it for as long as this launcher or
//! its janitor has the descriptor, so that nothing has to be removed and nothing stays after a kill but the
//! empty file.
//!
//! No jail has the file, and no other user: whoever could take such locks could have a name removed that the
//! person has replaced meanwhile. Where there can be none, the workspace's own directory stands for it.

use std::{
    ffi::CString,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    rc::Rc,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    sys::stat::{FileStat, SFlag, fstat},
    unistd::{Gid, Uid, fchown, geteuid},
};

use super::stale;
use crate::{
    launch::open_name,
    sys::files::{self, Resolve},
};

/// The claims of one execution on names in its workspace. They end when it is dropped, and when everybody who
/// has the descriptor that keeps them is dead.
#[derive(Debug)]
pub(crate) struct Claims {
    file: Rc<OwnedFd>,
    /// Device and inode of the workspace.
    workspace: [u64; 2],
}

impl Claims {
    /// None yet. The errors are those of opening the workspace.
    pub(crate) fn on(workspace: &Path) -> Result<Self, Errno> {
        let stat = fstat(open_name(workspace)?)?;
        // Root's launchers and the user's own have to meet.
        let user = if geteuid().is_root() {
            Uid::from_raw(stat.st_uid)
        } else {
            geteuid()
        };
        let file = match file_of(user) {
            Some(file) => file,
            None => directory(workspace)?,
        };
        Ok(Self {
            file: Rc::new(file),
            workspace: [stat.st_dev, stat.st_ino],
        })
    }

    /// For whoever goes on with them when this process is killed.
    pub(crate) fn kept_by(&self) -> &Rc<OwnedFd> {
        &self.file
    }

    /// Says that this execution may have made `name`, which is relative to the workspace.
    pub(crate) fn claim(&self, name: &Path) -> Result<(), Errno> {
        let lock = self.lock(libc::F_RDLCK, name);
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
    }

    /// Whether another execution says so.
    pub(crate) fn is_claimed(&self, name: &Path) -> Result<bool, Errno> {
        let mut lock = self.lock(libc::F_WRLCK, name);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }

    /// A lock on one byte, whose place stands for the name. Two names on the same place cost nothing but a
    /// comparison at the end.
    fn lock(&self, kind: libc::c_int, name: &Path) -> libc::flock {
        lock(kind, (place(self.workspace, name), 1))
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        // Copies of the descriptor do not keep them: a janitor's, or an init's that is stuck in the kernel.
        let all = lock(libc::F_UNLCK, (0, 0));
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&all)).unwrap_or_default();
    }
}

fn lock(kind: libc::c_int, (start, length): (libc::off_t, libc::off_t)) -> libc::flock {
    libc::flock {
        l_type: kind.try_into().unwrap_or_default(),
        l_whence: libc::SEEK_SET.try_into().unwrap_or_default(),
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

/// The same in every launcher: FNV-1a, 62 bits of it.
fn place(workspace: [u64; 2], name: &Path) -> libc::off_t {
    let workspace = workspace.into_iter().flat_map(u64::to_le_bytes);
    let hash = workspace
        .chain(name.as_os_str().as_bytes().iter().copied())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    libc::off_t::try_from(hash >> 2).unwrap_or_default()
}

/// The user's file, made if there is none; `None` where somebody else is in the way.
fn file_of(user: Uid) -> Option<OwnedFd> {
    let places = [
        format!("/run/user/{user}/agentd-names"),
        format!("{}/.agentd-names-{user}", stale::PARENT),
    ];
    places.into_iter().find_map(|path| {
        let path = CString::new(path).ok()?;
        // Another launcher may be making it.
        (0..TRIES).find_map(|_| own_file(&path, user).ok())
    })
}

/// Tries to get the file when others make it at the same time.
const TRIES: u32 = 3;

fn own_file(path: &CString, user: Uid) -> Result<OwnedFd, Errno> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match files::open(None, path, flags, Resolve::NoSymlinks) {
        Err(Errno::ENOENT) => {
            let flags = flags | libc::O_CREAT | libc::O_EXCL;
            let file = files::open_mode(None, path, (flags, 0o600), Resolve::NoSymlinks)?;
            if user != geteuid()
                && let Err(errno) = fchown(&file, Some(user), None::<Gid>)
            {
                nix::unistd::unlink(path.as_c_str()).unwrap_or_default();
                return Err(errno);
            }
            file
        }
        file => file?,
    };
    let stat = fstat(file.as_fd())?;
    if is_private(&stat, user) {
        Ok(file)
    } else {
        Err(Errno::EPERM)
    }
}

fn is_private(stat: &FileStat, user: Uid) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
        && stat.st_uid == user.as_raw()
        && stat.st_mode & 0o777 == 0o600
}

fn directory(workspace: &Path) -> Result<OwnedFd, Errno> {
    let path = CString::new(workspace.as_os_str().as_bytes()).map_err(|_nul| Errno::EINVAL)?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    files::open(None, &path, flags, Resolve::NoSymlinks)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

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
        // Somebody has a copy of its descriptor.
        let _copy = Rc::clone(one.kept_by());
        drop(one);
        for name in names {
            assert_eq!(two.is_claimed(name), Ok(false));
            assert_eq!(Claims::on(&dir).unwrap().is_claimed(name), Ok(true));
        }
        let elsewhere = std::env::temp_dir().canonicalize().unwrap();
        assert_eq!(
            Claims::on(&elsewhere).unwrap().is_claimed(names[0]),
            Ok(false)
        );
        fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn only_a_file_that_nobody_else_can_open_is_taken() {
        let dir = std::env::temp_dir().join(format!("claims-file-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        let path = |name: &str| CString::new(dir.join(name).as_os_str().as_bytes()).unwrap();
        let own = geteuid();
        for _made_or_found in 0..2 {
            own_file(&path("new"), own).unwrap();
        }
        let other = Uid::from_raw(own.as_raw().wrapping_add(1));
        assert!(own_file(&path("new"), other).is_err(), "somebody else's");
        fs::set_permissions(dir.join("new"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(own_file(&path("new"), own).is_err(), "others read it");
        std::os::unix::fs::symlink("elsewhere", dir.join("link")).unwrap();
        own_file(&path("link"), own).unwrap_err();
        assert!(!dir.join("elsewhere").exists());
        nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(dir.join("directory")).unwrap();
        for name in ["fifo", "directory"] {
            assert!(own_file(&path(name), own).is_err(), "{name}");
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
