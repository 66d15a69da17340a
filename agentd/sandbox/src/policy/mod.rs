//! What a command may do, decided: `Profile + Invocation + HostFacts → Policy`.
//!
//! Pure: nothing here opens, reads or asks. A `Policy` is complete (every variable substituted, every
//! limit clamped) and inert; `plan` compiles it, `explain` answers questions about it.

mod availability;
mod cgroup;
mod degrade;
mod env;
mod environment;
mod exposure;
mod fs;
mod identity;
mod invocation;
mod limits;
mod refusal;
mod report;
mod resolve;
mod session;
mod words;
mod workspace;

#[cfg(test)]
pub(crate) mod tests;

pub use availability::unavailable;
pub use cgroup::{CgroupFacts, CgroupKind};
pub use env::EnvPolicy;
pub use environment::may_be_passed;
pub(crate) use environment::{is_variable_name, never_allowed};
pub use fs::{Exposure, FsPolicy, FsRule, PathAccess, TmpPolicy};
pub use invocation::{
    Caller, Carried, InSession, Invocation, Lifetime, LimitRequest, OUTPUT_DIR, Program,
    SessionKey, Stdin, TerminalSize,
};
pub use limits::{Limits, NO_TIMEOUT};
pub use refusal::Refusal;
pub use report::{Degradation, HostFacts, Layer, Tier};
pub use resolve::resolve;
pub use session::SessionDirs;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Where a rule stands: a profile file and a line in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRef {
    /// File name of the profile, such as `workspace.toml`.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What the network looks like from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetMode {
    /// Nothing but an own loopback interface (none at all on the nested tier).
    None,
    /// The host's network, unfiltered.
    Host,
}

/// Under which user a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Identity {
    /// As the caller: the same uid and gid, without any capability.
    Caller {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
    /// A throw-away uid; the workspace is mounted with its owner mapped to it.
    Ephemeral {
        /// User and group id inside the jail, from the pool.
        uid: u32,
        /// Owner of the workspace on disk.
        owner_uid: u32,
        /// Group of the workspace on disk.
        owner_gid: u32,
    },
    /// Root without a single capability: the host cannot map the workspace to another uid.
    RootWithoutCapabilities,
}

/// How system calls are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyscallBase {
    /// Allows what developer tools need and refuses what attacks a kernel or leaves the jail.
    Dev,
    /// `Dev`, and also refuses what only debuggers and unusual programs need.
    Strict,
}

/// A decision about one execution. Complete and inert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Profile name.
    pub profile: String,
    /// SHA-256 over the canonical JSON of the resolved profile, in hex.
    pub digest: String,
    /// Tier that will be used.
    pub tier: Tier,
    /// Guarantees that are absent on this tier, all of them accepted by the profile.
    pub degraded: Vec<Degradation>,
    /// What control groups do for the command.
    pub cgroup: CgroupFacts,
    /// Workspace, absolute and without symbolic links.
    pub workspace: PathBuf,
    /// First working directory, absolute.
    pub cwd: PathBuf,
    /// Home directory of the caller, absolute; it need not exist.
    pub home: PathBuf,
    /// Private temporary directory as the command sees it: `/tmp`, or on the nested tier a directory
    /// of its own below the host's `/tmp` (then `HostFacts::nested_tmp`).
    pub tmp: PathBuf,
    /// File system rules.
    pub fs: FsPolicy,
    /// User.
    pub identity: Identity,
    /// File mode creation mask.
    pub umask: u32,
    /// Host name inside, where there is a UTS namespace.
    pub hostname: String,
    /// Network.
    pub net: NetMode,
    /// System calls.
    pub syscalls: SyscallBase,
    /// Effective limits.
    pub limits: Limits,
    /// What the command shares with others of its session, if it is in one.
    #[serde(skip)]
    pub session: Option<SessionDirs>,
    /// Complete environment.
    pub env: BTreeMap<String, String>,
    /// Where single values stand, by key such as `net.mode` or `limits.wall`. Lists carry their own.
    pub sources: BTreeMap<String, RuleRef>,
}

impl Policy {
    /// Whether a rule takes something away from commands in the part of the file system that they can change.
    pub(crate) fn is_protection(&self, rule: &FsRule) -> bool {
        matches!(rule.exposure, Exposure::Readonly | Exposure::Deny)
            && rule.path.starts_with(&self.workspace)
    }
}
