//! What the control groups of a host do for a command, as found out by trying (`cgroup`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// What limits and kills a command's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupKind {
    /// The unified hierarchy does everything.
    V2,
    /// Version 1 hierarchies limit, the unified one kills.
    Hybrid,
    /// Version 1 hierarchies alone.
    V1,
    /// Nothing: resource limits of single processes are all there is.
    None,
}

impl CgroupKind {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "cgroup-v2",
            Self::Hybrid => "cgroup-hybrid",
            Self::V1 => "cgroup-v1",
            Self::None => "none",
        }
    }
}

impl fmt::Display for CgroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What control groups give on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that are independent of each other"
)]
pub struct CgroupFacts {
    /// Which ones are used.
    pub kind: CgroupKind,
    /// They limit and count memory.
    pub memory: bool,
    /// They limit and count processes and threads.
    pub pids: bool,
    /// They count CPU time of the tree, which then is limited.
    pub cpu: bool,
    /// What is missing, and the remedy; empty when nothing is.
    pub remedy: String,
}

impl CgroupFacts {
    /// No control groups, for this reason and with this remedy.
    #[must_use]
    pub fn none(remedy: &str) -> Self {
        Self {
            kind: CgroupKind::None,
            memory: false,
            pids: false,
            cpu: false,
            remedy: remedy.to_owned(),
        }
    }
}
