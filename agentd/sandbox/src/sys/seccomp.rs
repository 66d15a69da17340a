//! Installing a filter.

use nix::errno::Errno;

use crate::seccomp::Instruction;

const SET_MODE_FILTER: u32 = 1;

#[repr(C)]
struct Program {
    length: u16,
    filter: *const Instruction,
}

/// Filters every later system call of this thread and its descendants. Needs `no_new_privs`. Cannot be
/// undone. `EINVAL` for an empty program: an empty filter is a mistake, not a permission.
pub(crate) fn install(filter: &[Instruction]) -> Result<(), Errno> {
    let length = u16::try_from(filter.len()).map_err(|_too_long| Errno::E2BIG)?;
    if length == 0 {
        return Err(Errno::EINVAL);
    }
    let program = Program {
        length,
        filter: filter.as_ptr(),
    };
    // SAFETY: `program` describes `filter`, whose elements have the layout of `sock_filter` (checked
    // where the type is defined); the kernel copies and verifies it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            0_u32,
            &raw const program,
        )
    };
    super::int_result(result).map(drop)
}
