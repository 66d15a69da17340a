//! `Policy + Survey → Plan`: what will be done, step by step. Pure and printable.
//!
//! A plan names paths; it holds no descriptors and nothing in it was opened. `launch` carries it out.

mod landlock;
mod mounts;
mod rlimits;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    policy::{CgroupKind, Identity, Layer, NetMode, Policy, RuleRef, Tier},
    seccomp::{self, Instruction},
};

pub use landlock::{LandlockPlan, PathRule, Rights};
pub(crate) use mounts::made_by_jail;
pub use mounts::{BindMode, EMPTY_DIR, EMPTY_FILE, MountStep, PRELUDE, SCRIPT};
pub use rlimits::Rlimit;
pub(crate) use rlimits::counted_user;

/// What a path was when the host was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Nothing there.
    Missing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(PathBuf),
    /// A device, socket or FIFO.
    Other,
}

/// What the paths of a policy's rules are on the host, and how many tasks count against its user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Kind of each path; absent means missing.
    pub kinds: BTreeMap<PathBuf, Kind>,
    /// Landlock ABI of the kernel.
    pub landlock_abi: u32,
    /// Tasks that already count against the limit of processes of the command's user.
    pub tasks_of_user: u64,
}

impl Survey {
    pub(crate) fn kind(&self, path: &Path) -> &Kind {
        self.kinds.get(path).unwrap_or(&Kind::Missing)
    }
}

/// Everything that will be done. Inert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Tier.
    pub tier: Tier,
    /// Layers in order of application.
    pub layers: Vec<Layer>,
    /// Network of the jail.
    pub net: NetMode,
    /// Mounts, in order; empty on the nested tier.
    pub mounts: Vec<MountStep>,
    /// Landlock rules.
    pub landlock: LandlockPlan,
    /// Filter program.
    pub seccomp: Vec<Instruction>,
    /// Resource limits.
    pub rlimits: Vec<Rlimit>,
    /// User and group to switch to; `None` to keep the launcher's.
    pub switch_to: Option<(u32, u32)>,
    /// Owner of the workspace on disk and the throw-away id that it is mapped to.
    pub idmap: Option<IdMap>,
    /// Protected names that do not exist: removed again if the command creates them.
    pub tripwires: Vec<(PathBuf, RuleRef)>,
    /// Protected names that exist. One that is there only since another command made it is watched too.
    pub protected: Vec<(PathBuf, RuleRef)>,
    /// Host name.
    pub hostname: String,
    /// File mode creation mask.
    pub umask: u32,
}

/// The ids of a mapped workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdMap {
    /// Owner on disk.
    pub owner_uid: u32,
    /// Group on disk.
    pub owner_gid: u32,
    /// Both ids inside.
    pub inside: u32,
}

impl Plan {
    /// Compiles a policy for the host that was surveyed.
    #[must_use]
    pub fn compile(policy: &Policy, survey: &Survey) -> Self {
        let namespaces = policy.tier > Tier::Nested;
        let mounts = if namespaces {
            mounts::compile(policy, survey)
        } else {
            Vec::new()
        };
        let context = seccomp::Context {
            base: policy.syscalls,
            tier: policy.tier,
            net: policy.net,
        };
        let (switch_to, idmap) = identity(policy);
        let (tripwires, protected) = mounts::protected(policy, survey);
        Self {
            tier: policy.tier,
            layers: layers(policy),
            net: policy.net,
            mounts,
            landlock: landlock::compile(policy, survey),
            seccomp: seccomp::compile(context),
            rlimits: rlimits::compile(policy, survey.tasks_of_user),
            switch_to,
            idmap,
            tripwires,
            protected,
            hostname: policy.hostname.clone(),
            umask: policy.umask,
        }
    }
}

fn identity(policy: &Policy) -> (Option<(u32, u32)>, Option<IdMap>) {
    match policy.identity {
        // Only root can become somebody else; an unprivileged launcher is the caller already.
        Identity::Caller { uid, gid } if policy.tier == Tier::HostRoot => (Some((uid, gid)), None),
        Identity::Caller { .. } | Identity::RootWithoutCapabilities => (None, None),
        Identity::Ephemeral {
            uid,
            owner_uid,
            owner_gid,
        } => (
            Some((uid, uid)),
            Some(IdMap {
                owner_uid,
                owner_gid,
                inside: uid,
            }),
        ),
    }
}

fn layers(policy: &Policy) -> Vec<Layer> {
    let mut layers = Vec::new();
    if policy.tier == Tier::Rootless {
        layers.push(Layer::UserNamespace);
    }
    if policy.tier > Tier::Nested {
        layers.extend([
            Layer::PidNamespace,
            Layer::MountNamespace,
            Layer::IpcNamespace,
            Layer::UtsNamespace,
            Layer::CgroupNamespace,
        ]);
        if policy.net == NetMode::None {
            layers.push(Layer::NetNamespace);
        }
        layers.push(Layer::OwnRoot);
    } else {
        layers.push(Layer::Subreaper);
    }
    if matches!(policy.identity, Identity::Ephemeral { .. }) {
        layers.push(Layer::EphemeralUid);
    }
    if policy.cgroup.kind != CgroupKind::None {
        layers.push(Layer::Cgroup);
    }
    layers.extend([
        Layer::NoCapabilities,
        Layer::NoNewPrivs,
        Layer::Rlimits,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Tripwire,
    ]);
    layers
}
