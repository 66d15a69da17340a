//! Removing what a command made, with the launcher's rights: no link is ever followed, and a directory that
//! its maker closed is opened again first.

use std::{
    ffi::{CString, OsStr},
    fs::{self, Permissions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::PathBuf,
};

use nix::sys::stat::{SFlag, fstat};

use crate::sys::files::{self, Resolve};

/// Deepest tree that is removed. Each level holds a descriptor, and a command can make a tree deeper than
/// any stack.
const DEEPEST: u32 = 256;

/// What a name turned out to be.
#[derive(Debug)]
pub(crate) enum Found {
    /// A directory, opened as a name only.
    Directory(OwnedFd),
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

/// Looks at a name without following it; `NotFound` when there is nothing.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Found> {
    let name = CString::new(name.as_bytes())?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let fd = files::open(Some(parent), &name, flags, Resolve::Beneath)?;
    let kind = SFlag::from_bits_truncate(fstat(fd.as_fd())?.st_mode) & SFlag::S_IFMT;
    Ok(if kind == SFlag::S_IFDIR {
        Found::Directory(fd)
    } else if kind == SFlag::S_IFLNK {
        Found::Link
    } else {
        Found::Other
    })
}

/// Removes a name and everything below it; `NotFound` when there is nothing.
pub(crate) fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let found = look(parent, name)?;
    match remove_found(parent, name, &found, DEEPEST) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The directory that holds the name may be closed; it gets its mode back.
            let mode = fstat(parent)?.st_mode;
            open_up(parent)?;
            let result = remove_found(parent, name, &found, DEEPEST);
            fs::set_permissions(by_descriptor(parent), Permissions::from_mode(mode & 0o7777))?;
            result
        }
        result => result,
    }
}

fn remove_found(parent: BorrowedFd<'_>, name: &OsStr, found: &Found, depth: u32) -> io::Result<()> {
    let path = by_descriptor(parent).join(name);
    let Found::Directory(directory) = found else {
        return fs::remove_file(path);
    };
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| io::Error::other("it is nested too deeply to be removed"))?;
    open_up(directory.as_fd())?;
    for entry in fs::read_dir(by_descriptor(directory.as_fd()))? {
        let name = entry?.file_name();
        let found = look(directory.as_fd(), &name)?;
        remove_found(directory.as_fd(), &name, &found, depth)?;
    }
    fs::remove_dir(path)
}

/// Lets the owner list and change a directory, by descriptor and so without following anything.
fn open_up(directory: BorrowedFd<'_>) -> io::Result<()> {
    fs::set_permissions(by_descriptor(directory), Permissions::from_mode(0o700))
}

/// A path that means exactly what the descriptor names.
fn by_descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
