//! File system rules of a policy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RuleRef;

/// What a rule exposes of a path and everything below it. Ordered by strength: on the same path the
/// greater one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// Readable.
    Read,
    /// Readable and writable.
    Write,
    /// Readable. In a policy it stands exactly below writable directories, as a carve-out.
    Readonly,
    /// Hidden.
    Deny,
}

/// One rule about a path and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FsRule {
    /// Absolute path, normalised, variables substituted.
    pub path: PathBuf,
    /// What is exposed.
    pub exposure: Exposure,
    /// Where the rule stands.
    pub rule: RuleRef,
}

/// A private, size-limited temporary file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmpPolicy {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Number of inodes.
    pub inodes: u64,
}

/// All file system rules. What no rule names is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FsPolicy {
    /// Exposure rules, sorted by path; at most one per path. The longest matching path wins.
    pub rules: Vec<FsRule>,
    /// Paths below which files may be executed, sorted; they must also be exposed.
    pub exec: Vec<FsRule>,
    /// Private `/tmp` (also the size of `/dev/shm`).
    pub tmp: TmpPolicy,
}

/// What someone wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathAccess {
    /// Read a file, list a directory.
    Read,
    /// Change an existing file.
    Write,
    /// Execute a file.
    Exec,
    /// Make, remove or rename a directory entry.
    Create,
}

impl PathAccess {
    /// The word used on command lines and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exec => "exec",
            Self::Create => "create",
        }
    }
}

impl FsPolicy {
    /// The rule that decides the exposure of `path`: the longest one whose path is `path` itself or an
    /// ancestor of it. `None`: nothing grants it.
    #[must_use]
    pub fn deciding(&self, path: &Path) -> Option<&FsRule> {
        longest_prefix(&self.rules, path)
    }

    /// The rule takes back what a rule above it grants. Landlock alone cannot enforce that.
    #[must_use]
    pub fn is_carve_out(&self, rule: &FsRule) -> bool {
        match rule.exposure {
            Exposure::Read | Exposure::Write => false,
            Exposure::Readonly => true,
            Exposure::Deny => self.rules.iter().any(|other| {
                other.exposure != Exposure::Deny && rule.path.starts_with(&other.path)
            }),
        }
    }

    /// The exec rule that covers `path`.
    #[must_use]
    pub fn exec_rule(&self, path: &Path) -> Option<&FsRule> {
        longest_prefix(&self.exec, path)
    }
}

fn longest_prefix<'r>(rules: &'r [FsRule], path: &Path) -> Option<&'r FsRule> {
    rules
        .iter()
        .filter(|rule| path.starts_with(&rule.path))
        .max_by_key(|rule| (rule.path.components().count(), rule.exposure))
}
