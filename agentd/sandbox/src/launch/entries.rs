//! Entries of the root that is being built: found and made without following any link. System calls only.

use std::{
    ffi::CString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::stat::{Mode, fchmod},
    unistd::{UnlinkatFlags, unlinkat},
};

use crate::sys::{
    files::{self, Resolve},
    mount,
};

/// Opens a place below the new root. No component may be a link: below a writable directory a link could
/// lead anywhere.
pub(super) fn place(root: BorrowedFd<'_>, path: &CString) -> Result<OwnedFd, Errno> {
    files::open(
        Some(root),
        path,
        libc::O_PATH | libc::O_NOFOLLOW,
        Resolve::Beneath,
    )
}

/// Makes a directory. In a session's `/tmp` an earlier command made it for the same purpose, or put
/// something else in its place, which gives way: a link there must not be followed, nor may it keep the
/// session's commands from starting.
pub(super) fn make_dir(
    root: BorrowedFd<'_>,
    path: &CString,
    (parent, name): (&CString, &CString),
) -> Result<(), Errno> {
    let parent = place(root, parent)?;
    match mount::make_dir(parent.as_fd(), name, 0o755) {
        Err(Errno::EEXIST) => {}
        result => return result,
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match files::open(Some(root), path, flags, Resolve::Beneath) {
        // By descriptor: what it is cannot change any more. An earlier command may have closed it.
        Ok(made) => fchmod(made, Mode::from_bits_truncate(0o755)),
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            unlinkat(parent.as_fd(), name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
            mount::make_dir(parent.as_fd(), name, 0o755)
        }
        Err(errno) => Err(errno),
    }
}

pub(super) fn make_file(root: BorrowedFd<'_>, path: &CString) -> Result<OwnedFd, Errno> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    files::open_mode(Some(root), path, (flags, 0o444), Resolve::Beneath)
}
