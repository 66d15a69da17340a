//! The loopback interface of a new network namespace, and the host name.

use std::{
    mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use nix::errno::Errno;

/// Brings `lo` up in the current network namespace. Needs `CAP_NET_ADMIN` over it.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    // SAFETY: takes integers only.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let socket = Errno::result(socket)?;
    // SAFETY: the kernel just installed `socket` for us and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: `ifreq` is a C struct of integers for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = libc::c_char::try_from(*byte).unwrap_or(0);
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(flags).map_err(|_out_of_range| Errno::EINVAL)?;
    // SAFETY: SIOCSIFFLAGS reads a valid `ifreq`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    Errno::result(result).map(drop)
}

/// Sets the host name of the current UTS namespace.
pub(crate) fn set_hostname(name: &[u8]) -> Result<(), Errno> {
    // SAFETY: `name` is valid to read for its length.
    let result = unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) };
    Errno::result(result).map(drop)
}
