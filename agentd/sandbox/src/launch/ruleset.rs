//! The Landlock ruleset of a plan, built before the fork with the `landlock` crate. A hard requirement:
//! what the kernel's ABI offers is used whole, or there is no jail.

use std::{
    error::Error,
    io, iter,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::{
    errno::Errno,
    sys::stat::{SFlag, fstat},
};

use super::survey::open_name;
use crate::plan::{LandlockPlan, PathRule, Rights};

/// Why a ruleset could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesetFailure {
    /// The kernel refused it.
    #[error("the kernel refused the Landlock ruleset")]
    Kernel(#[from] RulesetError),
    /// A path of a rule could not be opened.
    #[error("the path of a Landlock rule could not be opened: {}", path.display())]
    OpenRule {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The kernel has no Landlock.
    #[error("this kernel has no Landlock")]
    Absent,
}

impl RulesetFailure {
    /// The errno behind it, where it is one.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::OpenRule { source, .. } => Some(*source),
            Self::Kernel(refusal) => errno_of(refusal),
            Self::Absent => None,
        }
    }
}

/// What the kernel said, which the crate keeps at the end of its chain of causes.
fn errno_of(refusal: &RulesetError) -> Option<Errno> {
    let first: &(dyn Error + 'static) = refusal;
    iter::successors(Some(first), |&error| error.source())
        .find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error())
        .map(Errno::from_raw)
}

/// Builds the ruleset with its rules about host paths.
pub(super) fn build(plan: &LandlockPlan) -> Result<OwnedFd, RulesetFailure> {
    let abi = abi(plan.abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    }
    if plan.refuse_tcp && abi >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    let mut created = ruleset.create()?;
    for rule in &plan.outer {
        if let Some(beneath) = host_rule(rule, abi)? {
            created = created.add_rule(beneath)?;
        }
    }
    Option::<OwnedFd>::from(created).ok_or(RulesetFailure::Absent)
}

/// A rule about a host path; `None` when the path vanished since the survey.
fn host_rule(rule: &PathRule, abi: ABI) -> Result<Option<PathBeneath<OwnedFd>>, RulesetFailure> {
    let opened = |source| RulesetFailure::OpenRule {
        path: rule.path.clone(),
        source,
    };
    let fd = match open_name(&rule.path) {
        Ok(fd) => fd,
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(opened(errno)),
    };
    let stat = fstat(fd.as_fd()).map_err(opened)?;
    let is_dir = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR;
    // The kernel refuses directory rights on a file: the rights are cut to the inode's type.
    let all = access(rule.rights, abi);
    let fitting = if is_dir {
        all
    } else {
        all & AccessFs::from_file(abi)
    };
    Ok((!fitting.is_empty()).then(|| PathBeneath::new(fd, fitting)))
}

/// The access bits of a rule about a directory, for the calls made after the fork.
pub(super) fn access_bits(rights: Rights, kernel_abi: u32) -> u64 {
    access(rights, abi(kernel_abi)).bits()
}

fn abi(kernel: u32) -> ABI {
    ABI::from(i32::try_from(kernel).unwrap_or(i32::MAX))
}

fn access(rights: Rights, abi: ABI) -> BitFlags<AccessFs> {
    let mut access = BitFlags::empty();
    if rights.has(Rights::LIST) {
        access |= AccessFs::ReadDir;
    }
    if rights.has(Rights::READ) {
        access |= AccessFs::ReadFile;
    }
    if rights.has(Rights::EXEC) {
        access |= AccessFs::Execute;
    }
    if rights.has(Rights::WRITE) {
        // Device nodes are never made, and device files never commanded, by a right to write.
        access |= AccessFs::from_write(abi)
            & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    }
    if rights.has(Rights::DEVICE) {
        access |= AccessFs::IoctlDev;
    }
    access & AccessFs::from_all(abi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_said_is_found_below_what_the_crate_says() {
        let (pipe, _other) = nix::unistd::pipe().unwrap();
        let refused = Ruleset::default()
            .handle_access(AccessFs::ReadFile)
            .and_then(Ruleset::create)
            .and_then(|created| created.add_rule(PathBeneath::new(pipe, AccessFs::ReadFile)));
        // A pipe is no file of any directory: `landlock_add_rule(2)`, EBADFD.
        let failure = RulesetFailure::from(refused.unwrap_err());
        assert_eq!(failure.errno(), Some(Errno::EBADFD));
    }
}
