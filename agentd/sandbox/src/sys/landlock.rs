//! The Landlock calls that are made after a fork, where the `landlock` crate promises nothing.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;
/// Denials of programs started later are logged too (ABI 7); without it nothing is logged after `execve`.
pub(crate) const LOG_NEW_EXEC: u32 = 1 << 1;

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The kernel's Landlock ABI. `ENOSYS` or `EOPNOTSUPP` when there is none.
pub(crate) fn abi() -> Result<u32, Errno> {
    // SAFETY: a NULL attribute of size 0 with this flag only asks for the version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            0_usize,
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    super::int_result(version).map(|version| u32::try_from(version).unwrap_or(0))
}

/// Adds a rule about what `parent` names to a ruleset.
pub(crate) fn add_path_rule(
    ruleset: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    access: u64,
) -> Result<(), Errno> {
    let rule = PathBeneath {
        allowed_access: access,
        parent_fd: parent.as_raw_fd(),
    };
    debug_assert_eq!(size_of::<PathBeneath>(), 12);
    // SAFETY: both descriptors are open by `BorrowedFd`; `rule` is a valid attribute of this rule type.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0_u32,
        )
    };
    super::int_result(result).map(drop)
}

/// Puts this process into a new domain. Needs `no_new_privs`. Cannot be undone.
pub(crate) fn restrict_self(ruleset: BorrowedFd<'_>, flags: u32) -> Result<(), Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags) };
    super::int_result(result).map(drop)
}
