//! The front end's own confinement, put on before it serves anybody: from then on it opens no file and
//! no TCP connection, starts no program and gains no privilege, whoever takes it over.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    Scope,
};
use nix::errno::Errno;
use thiserror::Error;

use crate::{seccomp, sys};

/// Why the front end could not be confined. It must not serve then.
#[derive(Debug, Error)]
pub enum ConfineError {
    /// A process attribute.
    #[error("process attributes: {0}")]
    Attributes(Errno),
    /// Landlock.
    #[error("Landlock")]
    Landlock(#[from] RulesetError),
    /// The filter.
    #[error("seccomp: {0}")]
    Seccomp(Errno),
}

/// Confines the calling process. To be called by its only thread; threads made later inherit it all.
pub fn front_end() -> Result<(), ConfineError> {
    sys::caps::set_undumpable().map_err(ConfineError::Attributes)?;
    sys::caps::set_no_new_privs().map_err(ConfineError::Attributes)?;
    // ORDER: Landlock before the filter, which refuses the Landlock calls.
    forbid_files(sys::landlock::abi().unwrap_or(0))?;
    let program = seccomp::compile_rules(&seccomp::front_end_rules());
    sys::seccomp::install(&program).map_err(ConfineError::Seccomp)
}

/// A ruleset without any rule: no path can be opened any more. Descriptors that are open stay usable.
fn forbid_files(abi: u32) -> Result<(), RulesetError> {
    let abi = ABI::from(i32::try_from(abi).unwrap_or(i32::MAX));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    }
    ruleset.create()?.restrict_self().map(drop)
}
