//! Opening without following links, copying, duplicating.

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use nix::errno::Errno;

/// How a path is resolved by [`open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// No component may be a symbolic link.
    NoSymlinks,
    /// No component may be a symbolic link, and the path stays below the directory.
    Beneath,
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
const RESOLVE_BENEATH: u64 = 0x08;

/// `openat2` with close-on-exec. `dir` of `None` is for absolute paths.
pub(crate) fn open(
    dir: Option<BorrowedFd<'_>>,
    path: &CStr,
    flags: libc::c_int,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    open_mode(dir, path, (flags, 0), resolve)
}

/// As [`open`], with permission bits for `O_CREAT` beside the flags.
pub(crate) fn open_mode(
    dir: Option<BorrowedFd<'_>>,
    path: &CStr,
    flags_and_mode: (libc::c_int, u32),
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    let beneath = if resolve == Resolve::Beneath {
        RESOLVE_BENEATH
    } else {
        0
    };
    let how = OpenHow {
        flags: u64::try_from(flags_and_mode.0 | libc::O_CLOEXEC)
            .map_err(|_negative| Errno::EINVAL)?,
        mode: u64::from(flags_and_mode.1),
        resolve: RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | beneath,
    };
    let dir = dir.map_or(libc::AT_FDCWD, |dir| dir.as_raw_fd());
    // SAFETY: `path` is NUL-terminated; `how` is a valid `open_how` of the size given.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir,
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>(),
        )
    };
    let fd = super::int_result(fd)?;
    // SAFETY: the kernel just installed `fd` for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Copies a whole file from its start, at most 2 GiB, without moving its offset.
pub(crate) fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut offset: libc::off_t = 0;
    loop {
        // SAFETY: both descriptors are open by `BorrowedFd`; `offset` is valid to read and write.
        let count = unsafe {
            libc::sendfile(
                to.as_raw_fd(),
                from.as_raw_fd(),
                &raw mut offset,
                0x7fff_f000,
            )
        };
        if Errno::result(count)? == 0 {
            return Ok(());
        }
    }
}

/// Writes all bytes to a file of the kernel (a map or a setting), in one call.
pub(crate) fn write_once(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; `bytes` is valid to read for its length.
    let count = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    let count = Errno::result(count)?;
    if usize::try_from(count) == Ok(bytes.len()) {
        Ok(())
    } else {
        Err(Errno::EIO)
    }
}

/// Reads at most `buffer.len()` bytes.
pub(crate) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; `buffer` is valid to write for its length.
    let count = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    Errno::result(count).map(|count| usize::try_from(count).unwrap_or(0))
}

/// Reads the next entries of an open directory, as many as fit; none at its end. Their names are in
/// [`entry_names`].
pub(crate) fn read_entries(directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; `buffer` is valid to write for its length.
    let count = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            directory.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    super::int_result(count).map(|count| usize::try_from(count).unwrap_or(0))
}

/// The names in what [`read_entries`] read.
pub(crate) fn entry_names(mut entries: &[u8]) -> impl Iterator<Item = &[u8]> {
    // Of `struct linux_dirent64`: two words of 64 bits, the length of the record, a type.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    std::iter::from_fn(move || {
        let length = entries.get(LENGTH..)?.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let (entry, rest) = entries.split_at_checked(length)?;
        entries = rest;
        entry.get(NAME..)?.split(|byte| *byte == 0).next()
    })
}

/// Makes `target` a copy of `fd` that survives `execve`; `target` need not be open.
pub(crate) fn duplicate_to(fd: BorrowedFd<'_>, target: RawFd) -> Result<(), Errno> {
    if fd.as_raw_fd() == target {
        // dup2 of a descriptor onto itself would keep close-on-exec.
        // SAFETY: takes integers only; the descriptor is open by `BorrowedFd`.
        let result = unsafe { libc::fcntl(target, libc::F_SETFD, 0) };
        return Errno::result(result).map(drop);
    }
    // SAFETY: takes integers only. Whatever `target` was is closed; callers pass a number that no
    // value owns, or one of 0, 1 and 2 in a process that is about to call `execve`.
    let result = unsafe { libc::dup2(fd.as_raw_fd(), target) };
    Errno::result(result).map(drop)
}

/// Occupies the number `target` with a copy of `fd`, close-on-exec. Only for a number that is not in use:
/// whatever it was is closed.
pub(crate) fn reserve(fd: BorrowedFd<'_>, target: RawFd) -> Result<(), Errno> {
    // SAFETY: takes integers only; by contract no value owns `target`.
    let result = unsafe { libc::dup3(fd.as_raw_fd(), target, libc::O_CLOEXEC) };
    Errno::result(result).map(drop)
}

/// Marks every descriptor from `first` on close-on-exec.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Closes every descriptor except the given ones, which must be sorted. For a process that only lives
/// on in a loop over exactly these: values that own other descriptors must never be dropped after it.
pub(crate) fn close_all_but(keep: &[RawFd]) -> Result<(), Errno> {
    let mut first = 0_u32;
    for fd in keep {
        let fd = u32::try_from(*fd).map_err(|_negative| Errno::EBADF)?;
        if fd > first {
            close_range(first, fd.saturating_sub(1), 0)?;
        }
        first = fd.saturating_add(1);
    }
    close_range(first, u32::MAX, 0)
}

/// Closes one descriptor by number. For a forked process that never drops the value that owns it.
pub(crate) fn close_number(fd: RawFd) -> Result<(), Errno> {
    let fd = u32::try_from(fd).map_err(|_negative| Errno::EBADF)?;
    close_range(fd, fd, 0)
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: takes integers only; the callers' contracts say who may own the numbers.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    super::int_result(result).map(drop)
}

/// Takes over standard input as an owned descriptor. To be called once, first thing in `main`.
pub(crate) fn take_stdin() -> Result<OwnedFd, Errno> {
    // SAFETY: takes integers only.
    let moved = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
    let moved = Errno::result(moved)?;
    // SAFETY: the kernel just installed `moved` for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}
