//! Capabilities and process attributes.

use std::ffi::CStr;

use nix::errno::Errno;

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
/// More than any kernel has; the end is found by EINVAL.
const HIGHEST_CAPABILITY: libc::c_ulong = 63;
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_FOWNER: u32 = 3;
const PR_CAP_AMBIENT: libc::c_int = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: libc::c_ulong = 4;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn prctl(option: libc::c_int, first: libc::c_ulong, second: libc::c_ulong) -> Result<i32, Errno> {
    // SAFETY: the options used in this file take integers only.
    let result = unsafe { libc::prctl(option, first, second, 0_u64, 0_u64) };
    Errno::result(result)
}

/// Drops every capability from the bounding set. `EPERM` without `CAP_SETPCAP`.
pub(crate) fn drop_bounding_set() -> Result<(), Errno> {
    for capability in 0..=HIGHEST_CAPABILITY {
        match prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            Err(Errno::EINVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Empties the effective, permitted, inheritable and ambient sets.
pub(crate) fn drop_all() -> Result<(), Errno> {
    set(Data::default())
}

/// Keeps the rights to change directories whatever their mode and owner say, and no other capability.
pub(crate) fn keep_only_for_removal() -> Result<(), Errno> {
    let both = 1 << CAP_DAC_OVERRIDE | 1 << CAP_FOWNER;
    set(Data {
        effective: both,
        permitted: both,
        inheritable: 0,
    })
}

/// Sets the first 32 capabilities and clears all others.
fn set(low: Data) -> Result<(), Errno> {
    let header = Header {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let data = [low, Data::default()];
    // SAFETY: `header` and the two `data` entries that version 3 wants are valid for the kernel to
    // read.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    super::int_result(result)?;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0).map(drop)
}

/// The effective capability set of this process.
pub(crate) fn effective() -> Result<u64, Errno> {
    let header = Header {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let mut data = [Data::default(); 2];
    // SAFETY: `header` is valid to read and the two `data` entries that version 3 fills are valid to
    // write.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    super::int_result(result)?;
    let [low, high] = data;
    Ok(u64::from(low.effective) | u64::from(high.effective) << 32)
}

/// No `execve` of this process or its descendants gains privilege any more. Cannot be undone.
pub(crate) fn set_no_new_privs() -> Result<(), Errno> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map(drop)
}

/// This process cannot be traced, and its `/proc` entries belong to root.
pub(crate) fn set_undumpable() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 0, 0).map(drop)
}

/// Undoes [`set_undumpable`]: the `/proc` entries belong to the process's user again.
pub(crate) fn set_dumpable() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 1, 0).map(drop)
}

/// This process dies when its parent's thread dies. A change of user id clears it.
pub(crate) fn set_parent_death_signal() -> Result<(), Errno> {
    let signal = libc::c_ulong::try_from(libc::SIGKILL).unwrap_or(9);
    prctl(libc::PR_SET_PDEATHSIG, signal, 0).map(drop)
}

/// This process dies when `parent` does. `EPIPE` when that is not its parent any more: then it died before the
/// kernel was told, and would be waited for in vain.
pub(crate) fn die_with(parent: nix::unistd::Pid) -> Result<(), Errno> {
    set_parent_death_signal()?;
    // ORDER: after the call, which says nothing about a parent that is gone already.
    if nix::unistd::getppid() == parent {
        Ok(())
    } else {
        Err(Errno::EPIPE)
    }
}

/// Names this process in `ps` and for `pkill`.
pub(crate) fn set_name(name: &CStr) -> Result<(), Errno> {
    // SAFETY: `name` is NUL-terminated; the kernel copies at most 16 bytes of it.
    let result = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0_u64, 0_u64, 0_u64) };
    Errno::result(result).map(drop)
}

/// Orphans among the descendants become children of this process.
pub(crate) fn set_subreaper() -> Result<(), Errno> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0).map(drop)
}

#[cfg(test)]
mod tests {
    use nix::unistd::{Pid, getpid, getppid};

    use super::*;

    #[test]
    fn a_parent_that_is_gone_already_is_noticed() {
        // As after its death: somebody else is the parent.
        let other = die_with(getpid());
        let own = die_with(getppid());
        let never = die_with(Pid::from_raw(4_194_305));
        // This process is not to die with its parent's thread.
        prctl(libc::PR_SET_PDEATHSIG, 0, 0).unwrap();
        assert_eq!((other, never), (Err(Errno::EPIPE), Err(Errno::EPIPE)));
        assert_eq!(own, Ok(()));
    }
}
