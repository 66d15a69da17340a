//! Signal dispositions, masks and signalfd.

use std::{
    os::fd::{FromRawFd, OwnedFd},
    ptr,
};

use nix::errno::Errno;

const KERNEL_SIGSET_BYTES: usize = 8;

/// Sets every signal's disposition to the default, since an ignored one survives `execve` (a command
/// that inherits an ignored SIGPIPE never ends), and empties the mask.
pub(crate) fn reset_all() -> Result<(), Errno> {
    for signal in 1..=64 {
        set_default(signal);
    }
    set_mask(0)
}

fn set_default(signal: libc::c_int) {
    // All zero on every architecture: SIG_DFL, no flags, no restorer, an empty mask.
    let default = [0_u64; 4];
    // Not by the C library, which refuses the two numbers that it reserves: they may be ignored too.
    // SAFETY: `default` is at least as large as the kernel's `sigaction` and valid as one; a NULL old
    // action is allowed. The call fails without effect for KILL and STOP.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            default.as_ptr(),
            ptr::null::<u64>(),
            KERNEL_SIGSET_BYTES,
        )
    };
}

/// Sets every signal's disposition to the default but that of SIGPIPE, which the runtime ignores so that a write
/// fails instead. An inherited one that is ignored means for SIGCHLD that children end unseen.
pub(crate) fn forget_inherited() {
    for signal in (1..=64).filter(|signal| *signal != libc::SIGPIPE) {
        set_default(signal);
    }
}

/// Blocks exactly the signals of `mask` (bit n-1 is signal n).
pub(crate) fn set_mask(mask: u64) -> Result<(), Errno> {
    // SAFETY: `mask` is a kernel signal set of 8 bytes, as the last argument says; a NULL old set is
    // allowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            ptr::null::<u64>(),
            KERNEL_SIGSET_BYTES,
        )
    };
    super::int_result(result).map(drop)
}

/// The bit of one signal in a mask.
pub(crate) fn bit(signal: libc::c_int) -> u64 {
    1_u64
        .checked_shl(u32::try_from(signal).unwrap_or(1).saturating_sub(1))
        .unwrap_or(0)
}

/// A descriptor that becomes readable when a blocked signal of `mask` arrives. Non-blocking.
pub(crate) fn signalfd(mask: u64) -> Result<OwnedFd, Errno> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: `mask` is a kernel signal set of 8 bytes, as the size argument says.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_signalfd4,
            -1,
            &raw const mask,
            KERNEL_SIGSET_BYTES,
            flags,
        )
    };
    let fd = super::int_result(fd)?;
    // SAFETY: the kernel just installed `fd` for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits until one of the descriptors has an event, or until the time is up (`-1`: never). `EINTR` counts
/// as no event. Returns the number of descriptors with events.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> Result<usize, Errno> {
    let count = libc::nfds_t::try_from(fds.len()).map_err(|_too_many| Errno::EINVAL)?;
    // SAFETY: `fds` is a valid array of `count` entries for the kernel to read and write.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, timeout_ms) };
    match Errno::result(ready) {
        Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
        Err(Errno::EINTR) => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// An all-zero `pollfd` for `fd` that waits for readability.
pub(crate) fn readable(fd: libc::c_int) -> libc::pollfd {
    debug_assert_eq!(size_of::<libc::pollfd>(), 8);
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}
