//! A profile as the engine uses it: checked, its parents merged in, its variables not yet filled.

use std::collections::BTreeMap;

use super::{CommandRules, PathTemplate};
use crate::policy::{
    EnvPolicy, Exposure, Layer, Limits, NetMode, RuleRef, SyscallBase, Tier, TmpPolicy,
};

/// A resolved profile. Made only by a [`super::Catalogue`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Name; the same as the file's without `.toml`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// File name.
    pub file: String,
    /// Names of the parents, the nearest first.
    pub parents: Vec<String>,
    /// It only serves as a parent.
    pub is_abstract: bool,
    /// Labels for people and the log; in the digest, without effect.
    pub meta: BTreeMap<String, String>,
    /// What the host must give.
    pub require: Require,
    /// User, umask and host name.
    pub identity: IdentityRules,
    /// File system.
    pub fs: FsRules,
    /// Environment.
    pub env: EnvPolicy,
    /// Network.
    pub net: NetMode,
    /// System calls.
    pub syscalls: SyscallBase,
    /// Limits.
    pub limits: LimitRules,
    /// Command blacklist; advisory.
    pub commands: CommandRules,
    /// Where single values stand, by key such as `net.mode`.
    pub sources: BTreeMap<String, RuleRef>,
    /// SHA-256 over the canonical JSON, in hex.
    pub digest: String,
}

/// What the host must give, or the profile is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Require {
    /// Lowest tier.
    pub tier: Tier,
    /// Lowest Landlock ABI, at least 1.
    pub landlock_abi: u32,
    /// Layers that must be in force; sorted.
    pub layers: Vec<Layer>,
}

/// Which user a profile asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserRule {
    /// The caller; when that is root, a throw-away uid or root without capabilities.
    Caller,
    /// Always a throw-away uid; refused where there is none.
    Ephemeral,
}

/// User, umask and host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityRules {
    /// User.
    pub user: UserRule,
    /// File mode creation mask.
    pub umask: u32,
    /// Host name inside.
    pub hostname: String,
}

/// An exposure rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    /// Path.
    pub path: PathTemplate,
    /// What is exposed.
    pub exposure: Exposure,
    /// Where it stands.
    pub rule: RuleRef,
}

/// File system rules of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsRules {
    /// Exposure rules, one per path, sorted by path; the workspace is one of them.
    pub rules: Vec<PathRule>,
    /// Paths below which files may be executed, sorted. The exposure is `Read` and means nothing.
    pub exec: Vec<PathRule>,
    /// Private temporary directories.
    pub tmp: TmpPolicy,
}

/// Limits of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRules {
    /// Limits when a request asks for none. All but the two below are also the largest.
    pub defaults: Limits,
    /// Largest wall clock that a request gets, in milliseconds.
    pub max_timeout_ms: u64,
    /// Largest time between TERM and KILL that a request gets, in milliseconds.
    pub max_grace_ms: u64,
}
