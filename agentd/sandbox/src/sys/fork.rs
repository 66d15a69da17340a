//! Making processes. Sound because the caller is proved single-threaded first: after a fork of a
//! threaded process only async-signal-safe functions may run, and locks may be held for ever.

use std::{
    fs,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use nix::errno::Errno;

/// Proof of being a freshly forked process with exactly one thread.
#[derive(Debug)]
pub(crate) struct ForkedProcess(());

/// The two sides of a fork.
#[derive(Debug)]
pub(crate) enum Forked {
    /// In the parent: the child's pid, and a descriptor that names it without reuse.
    Parent {
        /// Process id in the parent's pid namespace.
        pid: libc::pid_t,
        /// pidfd, close-on-exec.
        pidfd: OwnedFd,
    },
    /// In the child.
    Child(ForkedProcess),
}

/// The arguments of `clone3`, as the kernel lays them out.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// `CLONE_INTO_CGROUP`: only `clone3` has room for it.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks with namespace flags (`CLONE_NEW*`), into the control group that `group` is the directory of.
/// `EBUSY` when this process has more than one thread; what opening a directory fails with when they cannot
/// be counted. Allocates (to count the threads) in the parent,
/// before the fork.
pub(crate) fn clone_process(
    flags: libc::c_int,
    group: Option<BorrowedFd<'_>>,
) -> Result<Forked, Errno> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    if threads.count() != 1 {
        return Err(Errno::EBUSY);
    }
    clone_with(flags, group)
}

/// Forks a sibling: from inside a forked process, with namespace flags, a child of this process's
/// parent. Its pid is told in this process's pid namespace. Allocates nothing.
pub(crate) fn clone_sibling(_proof: &ForkedProcess, flags: libc::c_int) -> Result<Forked, Errno> {
    clone_with(flags | libc::CLONE_PARENT, None)
}

/// The callers have proved that there is one thread.
fn clone_with(flags: libc::c_int, group: Option<BorrowedFd<'_>>) -> Result<Forked, Errno> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::c_ulong::try_from(flags | libc::CLONE_PIDFD | libc::SIGCHLD)
        .map_err(|_negative| Errno::EINVAL)?;
    let pid = match group {
        Some(group) => clone_into((flags, &raw mut pidfd), group)?,
        None => clone_plain((flags, &raw mut pidfd))?,
    };
    if pid == 0 {
        return Ok(Forked::Child(ForkedProcess(())));
    }
    // SAFETY: CLONE_PIDFD succeeded, so the kernel installed `pidfd` for us and nobody else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent { pid, pidfd })
}

fn clone_plain((flags, pidfd): (libc::c_ulong, *mut libc::c_int)) -> Result<libc::pid_t, Errno> {
    // The raw call, because glibc's `clone` wants a new stack and `clone3` is refused by common
    // container filters. Argument order of x86_64 and aarch64 differs only in the last two, both 0.
    // SAFETY: without CLONE_VM the child gets a copy of this address space and returns here on the same
    // stack; without CLONE_SETTLS and the TID flags the last arguments are ignored; `pidfd` is a valid
    // place for CLONE_PIDFD to write to; this process has one thread, so no lock is held by another.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, pidfd, 0_usize, 0_usize) };
    super::int_result(pid)
}

fn clone_into(
    (flags, pidfd): (libc::c_ulong, *mut libc::c_int),
    group: BorrowedFd<'_>,
) -> Result<libc::pid_t, Errno> {
    let signal = u64::try_from(libc::SIGCHLD).unwrap_or(0);
    let args = CloneArgs {
        // The signal has a place of its own here.
        flags: (flags & !signal) | INTO_CGROUP,
        pidfd: u64::try_from(pidfd.expose_provenance()).map_err(|_wide| Errno::EINVAL)?,
        exit_signal: signal,
        cgroup: u64::try_from(group.as_raw_fd()).map_err(|_negative| Errno::EBADF)?,
        ..CloneArgs::default()
    };
    // SAFETY: as in `clone_plain`; `args` is a valid `clone_args` of the size given, without a stack, so
    // the child returns here on a copy of this one; `group` is open by `BorrowedFd`.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    super::int_result(pid)
}

/// Forks once more inside a forked process. Returns the pid in the parent and 0 in the child.
/// Allocates nothing.
pub(crate) fn fork_again(_proof: &ForkedProcess) -> Result<libc::pid_t, Errno> {
    let flags = libc::c_ulong::try_from(libc::SIGCHLD).unwrap_or(0);
    // SAFETY: as in `clone_process`; `ForkedProcess` proves that there is one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    super::int_result(pid)
}
