//! User and group ids, by raw calls: the C library's wrappers synchronise threads, and a forked copy of
//! a process has none to answer.

use nix::errno::Errno;

/// Gives up every supplementary group.
pub(crate) fn clear_groups() -> Result<(), Errno> {
    // SAFETY: a count of 0 makes the kernel ignore the pointer.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, 0_usize, 0_usize) };
    super::int_result(result).map(drop)
}

/// Sets real, effective and saved group id.
pub(crate) fn set_gid(gid: u32) -> Result<(), Errno> {
    refuse_no_change(gid)?;
    // SAFETY: takes integers only.
    let result = unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) };
    super::int_result(result).map(drop)
}

/// Sets real, effective and saved user id.
pub(crate) fn set_uid(uid: u32) -> Result<(), Errno> {
    refuse_no_change(uid)?;
    // SAFETY: takes integers only.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
    super::int_result(result).map(drop)
}

/// To the kernel this value means "leave it as it is".
fn refuse_no_change(id: u32) -> Result<(), Errno> {
    if id == u32::MAX {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}
