//! Entering namespaces that others made.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

/// Moves this process into the namespace behind `namespace`, which must be of the given kind
/// (`CLONE_NEW*`). Needs `CAP_SYS_ADMIN` over it, and one thread for a user namespace. After a mount
/// namespace, root and working directory are that namespace's root.
pub(crate) fn enter(namespace: BorrowedFd<'_>, kind: libc::c_int) -> Result<(), Errno> {
    // SAFETY: takes integers only; the descriptor is open by `BorrowedFd`.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), kind) };
    Errno::result(result).map(drop)
}
