//! Landlock rules of a policy.
//!
//! Landlock only ever adds: a rule cannot take back what a rule on a parent gives. `Readonly` and `Deny`
//! are therefore no rules here; the mounts carry them.

use std::path::{Path, PathBuf};

use crate::policy::{Exposure, NetMode, OUTPUT_DIR, Policy, Tier};

use super::{
    Kind, Survey,
    mounts::{PRELUDE, SCRIPT, made_by_jail},
};

/// What a rule grants; a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rights(u8);

impl Rights {
    /// List directories.
    pub const LIST: Self = Self(1);
    /// Read files.
    pub const READ: Self = Self(2);
    /// Write, make, remove and rename files and directories.
    pub const WRITE: Self = Self(4);
    /// Execute files.
    pub const EXEC: Self = Self(8);
    /// Use device files.
    pub const DEVICE: Self = Self(16);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    /// Path.
    pub path: PathBuf,
    /// What it and everything below it may be used for.
    pub rights: Rights,
}

/// Everything Landlock is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockPlan {
    /// Kernel ABI the rules are made for.
    pub abi: u32,
    /// Rules about host paths, opened before the fork.
    pub outer: Vec<PathRule>,
    /// Rules about paths that exist only inside, opened once the root is built.
    pub inner: Vec<PathRule>,
    /// TCP is refused altogether.
    pub refuse_tcp: bool,
}

const LOOK: Rights = Rights::LIST.and(Rights::READ);

pub(super) fn compile(policy: &Policy, survey: &Survey) -> LandlockPlan {
    let own_root = policy.tier > Tier::Nested;
    let mut outer = Vec::new();
    let mut inner = Vec::new();
    let granted = policy.fs.rules.iter().filter_map(|rule| {
        let rights = match rule.exposure {
            Exposure::Read => LOOK,
            Exposure::Write => LOOK.and(Rights::WRITE),
            Exposure::Readonly | Exposure::Deny => return None,
        };
        Some((&rule.path, rights))
    });
    let exec = policy.fs.exec.iter().map(|rule| (&rule.path, Rights::EXEC));
    for (path, rights) in granted.chain(exec) {
        let device = path.starts_with("/dev") && rights.has(Rights::WRITE);
        let rights = if device {
            rights.and(Rights::DEVICE)
        } else {
            rights
        };
        let rule = PathRule {
            path: path.clone(),
            rights,
        };
        if own_root && made_by_jail(policy, path) {
            inner.push(rule);
        } else if !matches!(survey.kind(path), Kind::Missing | Kind::Symlink(_)) {
            outer.push(rule);
        }
    }
    if own_root {
        inner = inside(policy, inner);
    }
    LandlockPlan {
        abi: survey.landlock_abi,
        outer,
        inner,
        // With a network namespace of its own the loopback interface stays usable for tests; without
        // one TCP has to be refused here (and every socket in the filter).
        refuse_tcp: policy.net == NetMode::None && !own_root,
    }
}

/// Rules about the jail's own file systems. One on `/dev` stands for its entries: what is there was put
/// there by the jail.
fn inside(policy: &Policy, from_rules: Vec<PathRule>) -> Vec<PathRule> {
    let mut inner = vec![
        PathRule {
            path: "/".into(),
            rights: Rights::LIST,
        },
        PathRule {
            path: SCRIPT.into(),
            rights: Rights::READ,
        },
        PathRule {
            path: PRELUDE.into(),
            rights: Rights::READ,
        },
        PathRule {
            path: "/dev".into(),
            rights: LOOK.and(Rights::WRITE).and(Rights::DEVICE),
        },
        PathRule {
            path: "/proc".into(),
            rights: LOOK,
        },
    ];
    let own = [&policy.tmp, Path::new("/dev/shm"), Path::new(OUTPUT_DIR)];
    inner.extend(
        from_rules
            .into_iter()
            .filter(|rule| own.iter().any(|path| rule.path == **path)),
    );
    inner
}
