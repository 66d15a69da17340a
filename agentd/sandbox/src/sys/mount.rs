//! Mounts by descriptor: what is mounted was opened without following links, and stays that object.

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use nix::errno::Errno;

/// No writes through this mount.
pub(crate) const READ_ONLY: u64 = 0x01;
/// Set-user-id bits and file capabilities have no effect.
pub(crate) const NO_SUID: u64 = 0x02;
/// Device nodes cannot be opened.
pub(crate) const NO_DEV: u64 = 0x04;
/// Nothing can be executed.
pub(crate) const NO_EXEC: u64 = 0x08;
const IDMAP: u64 = 0x0010_0000;

const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x04;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// How much of a tree a call covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The one mount.
    One,
    /// The mount and all below it.
    Recursive,
}

impl Depth {
    fn flag(self) -> libc::c_uint {
        match self {
            Self::One => 0,
            Self::Recursive => libc::AT_RECURSIVE as libc::c_uint,
        }
    }
}

#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

fn owned(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let fd = super::int_result(result)?;
    // SAFETY: the kernel just installed `fd` for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A detached copy of the mount behind `source`, rooted there.
pub(crate) fn clone_tree(source: BorrowedFd<'_>, depth: Depth) -> Result<OwnedFd, Errno> {
    let flags = OPEN_TREE_CLONE
        | libc::O_CLOEXEC as libc::c_uint
        | libc::AT_EMPTY_PATH as libc::c_uint
        | depth.flag();
    // SAFETY: the descriptor is open by `BorrowedFd`; the path is a NUL-terminated literal.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, source.as_raw_fd(), c"".as_ptr(), flags) })
}

fn set_attr(mount: BorrowedFd<'_>, attr: &MountAttr, depth: Depth) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH as libc::c_uint | depth.flag();
    // SAFETY: the descriptor is open by `BorrowedFd`; the path is a NUL-terminated literal; `attr` is a
    // valid `mount_attr` of the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    super::int_result(result).map(drop)
}

/// Adds attributes ([`READ_ONLY`] and so on) to a mount.
pub(crate) fn restrict(mount: BorrowedFd<'_>, attributes: u64, depth: Depth) -> Result<(), Errno> {
    let attr = MountAttr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    set_attr(mount, &attr, depth)
}

/// Maps the ids of a detached mount by a user namespace.
pub(crate) fn map_ids(mount: BorrowedFd<'_>, userns: BorrowedFd<'_>) -> Result<(), Errno> {
    let userns_fd = u64::try_from(userns.as_raw_fd()).map_err(|_negative| Errno::EBADF)?;
    let attr = MountAttr {
        attr_set: IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd,
    };
    set_attr(mount, &attr, Depth::One)
}

/// Cuts every mount of this namespace off from mount events of the host's.
pub(crate) fn make_all_private() -> Result<(), Errno> {
    set_propagation(libc::MS_PRIVATE)
}

/// Lets mounts and unmounts of the host through, and nothing back: a namespace that lives for long must
/// not keep busy what the host unmounts.
pub(crate) fn make_all_slave() -> Result<(), Errno> {
    set_propagation(libc::MS_SLAVE)
}

fn set_propagation(kind: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: NULL source, type and data are allowed when only the propagation changes; the target is a
    // NUL-terminated literal.
    let result = unsafe {
        libc::mount(
            ptr::null(),
            c"/".as_ptr(),
            ptr::null(),
            libc::MS_REC | kind,
            ptr::null(),
        )
    };
    Errno::result(result).map(drop)
}

/// Puts a detached mount onto `target`.
pub(crate) fn attach(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: both descriptors are open by `BorrowedFd`; both paths are NUL-terminated literals.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
        )
    };
    super::int_result(result).map(drop)
}

/// A new, detached file system.
pub(crate) fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> Result<OwnedFd, Errno> {
    // SAFETY: `kind` is NUL-terminated.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    for (key, value) in options {
        // SAFETY: the descriptor is open; `key` and `value` are NUL-terminated.
        let result = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                FSCONFIG_SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            )
        };
        super::int_result(result)?;
    }
    // SAFETY: the descriptor is open; this command takes neither key nor value.
    let result = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            ptr::null::<libc::c_char>(),
            ptr::null::<libc::c_char>(),
            0,
        )
    };
    super::int_result(result)?;
    // SAFETY: the descriptor is open and holds a created context.
    owned(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        )
    })
}

/// Makes `root` (a mount of this namespace) the root directory and detaches the old one.
pub(crate) fn enter_root(root: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: takes a descriptor only.
    Errno::result(unsafe { libc::fchdir(root.as_raw_fd()) })?;
    // The old root is stacked on the new one and then detached, so no directory is needed for it.
    // SAFETY: both paths are NUL-terminated literals.
    let result = unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) };
    super::int_result(result)?;
    // SAFETY: the path is a NUL-terminated literal.
    Errno::result(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) })?;
    // SAFETY: the path is a NUL-terminated literal.
    Errno::result(unsafe { libc::chdir(c"/".as_ptr()) }).map(drop)
}

/// Makes a directory below `root`, which must be a file system that nobody else can write to.
pub(crate) fn make_dir(root: BorrowedFd<'_>, path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; `path` is NUL-terminated.
    let result = unsafe { libc::mkdirat(root.as_raw_fd(), path.as_ptr(), mode) };
    Errno::result(result).map(drop)
}

/// Makes a symbolic link below `root`, which must be a file system that nobody else can write to.
pub(crate) fn make_symlink(root: BorrowedFd<'_>, path: &CStr, target: &CStr) -> Result<(), Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; both strings are NUL-terminated.
    let result = unsafe { libc::symlinkat(target.as_ptr(), root.as_raw_fd(), path.as_ptr()) };
    Errno::result(result).map(drop)
}
