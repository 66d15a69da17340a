//! `execve` and `_exit`.

use std::ffi::CStr;

use nix::errno::Errno;

use super::cstrings::CStringArray;

/// Replaces the process. Returns only the reason why it could not.
pub(crate) fn execve(path: &CStr, argv: &CStringArray, envp: &CStringArray) -> Errno {
    // SAFETY: `path` is NUL-terminated; both arrays are NULL-terminated and point to NUL-terminated
    // strings that live as long as the borrowed arrays.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    Errno::last()
}

/// Ends the process without running anything of this program: no destructors, no flushing of buffers
/// that belong to the parent.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any code and does not return.
    unsafe { libc::_exit(code) }
}
