//! Every system call that needs `unsafe`. Functions here are safe, take borrowed descriptors and
//! C strings, return `Errno`, allocate nothing unless they say so, and hold no policy.

#![expect(unsafe_code, reason = "the one place where raw system calls are made")]

pub(crate) mod caps;
pub(crate) mod cstrings;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod ids;
pub(crate) mod landlock;
pub(crate) mod mount;
pub(crate) mod namespaces;
pub(crate) mod net;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod terminal;
pub(crate) mod wait;

use nix::errno::Errno;

/// Turns the result of `libc::syscall` into a descriptor or count that fits an `i32`.
fn int_result(value: libc::c_long) -> Result<i32, Errno> {
    let value = Errno::result(value)?;
    i32::try_from(value).map_err(|_out_of_range| Errno::EOVERFLOW)
}
