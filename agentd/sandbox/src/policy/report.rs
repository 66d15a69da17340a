//! Tiers, layers, and what a host gives.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{CgroupFacts, SessionDirs};

/// How much isolation a host offers. Ordered: higher includes lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// T1: Landlock, seccomp, rlimits, a subreaper; no namespaces.
    Nested,
    /// T2: everything, inside an unprivileged user namespace.
    Rootless,
    /// T3: everything, without a user namespace.
    HostRoot,
}

impl Tier {
    /// The short name used in reports: `T1`, `T2`, `T3`.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Self::Nested => "T1",
            Self::Rootless => "T2",
            Self::HostRoot => "T3",
        }
    }

    /// The name used in profiles: `nested`, `rootless`, `host-root`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nested => "nested",
            Self::Rootless => "rootless",
            Self::HostRoot => "host-root",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.short(), self.name())
    }
}

/// A layer of the jail. The order is that in which layers are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// A user namespace of its own (tier T2).
    UserNamespace,
    /// A pid namespace whose init ends everything in it.
    PidNamespace,
    /// A mount namespace.
    MountNamespace,
    /// An IPC namespace.
    IpcNamespace,
    /// A UTS namespace.
    UtsNamespace,
    /// A cgroup namespace.
    CgroupNamespace,
    /// A network namespace with only a loopback interface.
    NetNamespace,
    /// A root of its own that holds only what is granted.
    OwnRoot,
    /// A throw-away user id.
    EphemeralUid,
    /// A cgroup with limits.
    Cgroup,
    /// Resource limits.
    Rlimits,
    /// No capability in any set.
    NoCapabilities,
    /// `no_new_privs`.
    NoNewPrivs,
    /// A Landlock domain.
    Landlock,
    /// A system call filter.
    Seccomp,
    /// A subreaper that sweeps the tree (tier T1; best effort).
    Subreaper,
    /// Protected names that did not exist before are removed again afterwards.
    Tripwire,
}

impl Layer {
    /// The name used in reports and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "user-namespace",
            Self::PidNamespace => "pid-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::IpcNamespace => "ipc-namespace",
            Self::UtsNamespace => "uts-namespace",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::NetNamespace => "net-namespace",
            Self::OwnRoot => "own-root",
            Self::EphemeralUid => "ephemeral-uid",
            Self::Cgroup => "cgroup",
            Self::Rlimits => "rlimits",
            Self::NoCapabilities => "no-capabilities",
            Self::NoNewPrivs => "no-new-privs",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Subreaper => "subreaper",
            Self::Tripwire => "tripwire",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A guarantee that is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degradation {
    /// The missing layer.
    pub layer: Layer,
    /// What is not guaranteed without it.
    pub guarantee: String,
    /// Why it is missing and how to get it.
    pub reason: String,
}

/// Everything about the host and the request's paths that a decision depends on, gathered beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// Best tier, as tried.
    pub tier: Tier,
    /// Landlock ABI, as tried; 0 when the kernel has none.
    pub landlock_abi: u32,
    /// Why the tier is not higher, and the remedy.
    pub tier_reason: String,
    /// What control groups do here, as tried.
    pub cgroup: CgroupFacts,
    /// User id of the launcher.
    pub launcher_uid: u32,
    /// Group id of the launcher; the group of commands when it cannot change identity.
    pub launcher_gid: u32,
    /// The daemon's own environment at its start, for what profiles `pass`.
    pub environment: BTreeMap<String, String>,
    /// The kernel and the workspace's file system support an idmapped mount of the workspace.
    pub idmap: bool,
    /// Throw-away uid reserved for this execution; used when the identity is ephemeral.
    pub ephemeral_uid: u32,
    /// Owner of the workspace on disk.
    pub workspace_uid: u32,
    /// Group of the workspace on disk.
    pub workspace_gid: u32,
    /// Home directory of the caller.
    pub home: PathBuf,
    /// Directory for private temporary files on the nested tier.
    pub nested_tmp: PathBuf,
    /// Directories of the session that the command is in.
    pub session: Option<SessionDirs>,
    /// Directories that hold the daemon's own state; no workspace may contain them.
    pub state_dirs: Vec<PathBuf>,
}
