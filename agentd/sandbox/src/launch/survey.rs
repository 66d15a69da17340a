//! Looking at the host: what the paths of a policy are, without following any link.

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::readlinkat,
    sys::stat::{SFlag, fstat},
};
use thiserror::Error;

use crate::{
    plan::{Kind, Survey, counted_user},
    policy::{FsRule, Policy},
    sys::files::{self, Resolve},
};

/// Why a survey failed.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Unseen {
    /// This process or the host is out of descriptors or memory: a path that cannot be looked at is not one that
    /// is missing.
    #[error("survey: {}", .0.desc())]
    Exhausted(Errno),
    /// A protected name cannot be looked at. Taken for missing it would not be protected, and a command that
    /// closed a directory above it could open it again.
    #[error("survey: {}: {}", .0.display(), .1.desc())]
    Guarded(PathBuf, Errno),
}

/// Looks at every path that a rule of `policy` names.
pub(crate) fn survey(policy: &Policy, landlock_abi: u32) -> Result<Survey, Unseen> {
    let rules = policy.fs.rules.iter().chain(&policy.fs.exec);
    let look = |rule: &FsRule| {
        let kind = match kind(&rule.path) {
            Ok(kind) => kind,
            Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => {
                return Err(Unseen::Exhausted(errno));
            }
            // A path through a link (`/lib/x` where `/lib` is one) is no path of its own: the rule on the link
            // and the rule on its target cover it.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Kind::Missing,
            Err(errno) if policy.is_protection(rule) => {
                return Err(Unseen::Guarded(rule.path.clone(), errno));
            }
            Err(_) => Kind::Missing,
        };
        Ok((rule.path.clone(), kind))
    };
    let kinds: BTreeMap<PathBuf, Kind> = rules.map(look).collect::<Result<_, Unseen>>()?;
    // Reading all of `/proc` is slow where there are many processes: only where it is used.
    let tasks_of_user = counted_user(policy).map_or(0, tasks_of);
    Ok(Survey {
        kinds,
        landlock_abi,
        tasks_of_user,
    })
}

/// Opens a path as a name only; no component may be a link, the last one is not followed.
pub(crate) fn open_name(path: &Path) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_nul| Errno::EINVAL)?;
    files::open(
        None,
        &path,
        libc::O_PATH | libc::O_NOFOLLOW,
        Resolve::NoSymlinks,
    )
}

fn kind(path: &Path) -> Result<Kind, Errno> {
    let fd = open_name(path)?;
    let stat = fstat(fd.as_fd())?;
    Ok(
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Directory,
            SFlag::S_IFLNK => readlinkat(fd.as_fd(), "")
                .map_or(Kind::Missing, |target| Kind::Symlink(target.into())),
            _ => Kind::Other,
        },
    )
}

/// Threads of all processes of a user: what `RLIMIT_NPROC` counts.
fn tasks_of(uid: u32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let mut count = 0_u64;
    for entry in entries.flatten() {
        let is_pid = entry.file_name().as_bytes().iter().all(u8::is_ascii_digit);
        if is_pid && entry.metadata().is_ok_and(|meta| meta.uid() == uid) {
            let threads = fs::read_dir(entry.path().join("task")).map_or(1, Iterator::count);
            count = count.saturating_add(u64::try_from(threads).unwrap_or(1));
        }
    }
    count
}
