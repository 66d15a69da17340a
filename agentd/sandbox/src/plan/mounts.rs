//! The root directory of a jail, as a list of steps.

mod step;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

pub use step::{BindMode, MountStep};

use crate::policy::{Exposure, FsRule, Identity, OUTPUT_DIR, Policy, RuleRef};

use super::{Kind, Survey};

/// Where the script of a command is, on tiers with a root of its own. Read-only, and part of what bash
/// prints before its own errors.
pub const SCRIPT: &str = "/run/script";

/// Where bash finds what it runs before a script that reports its state, on the same tiers.
pub const PRELUDE: &str = "/run/prelude";

/// Directory and file behind every mask.
pub const EMPTY_DIR: &str = "/run/empty";
/// See [`EMPTY_DIR`].
pub const EMPTY_FILE: &str = "/run/empty-file";

const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Files of `/proc` that tell about, or act on, the whole machine.
const PROC_MASKS: [&str; 9] = [
    "/proc/acpi",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];

const PROC_SEALS: [&str; 4] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];

/// State of the root while it is being built.
struct Builder {
    steps: Vec<MountStep>,
    made: BTreeSet<PathBuf>,
    /// What is mounted where; the longest prefix tells what a path is on.
    ground: Vec<(PathBuf, Ground)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// A file system of the jail's own: entries can be made.
    Own,
    /// A host path, read-only.
    ReadOnly,
    /// A host path, writable.
    Writable,
    /// Hidden.
    Masked,
}

pub(super) fn compile(policy: &Policy, survey: &Survey) -> Vec<MountStep> {
    let mut builder = Builder {
        steps: Vec::new(),
        made: BTreeSet::from([PathBuf::from("/")]),
        ground: vec![(PathBuf::from("/"), Ground::Own)],
    };
    builder.system(policy);
    let mapped = matches!(policy.identity, Identity::Ephemeral { .. });
    for rule in by_depth(&policy.fs.rules) {
        if !made_by_jail(policy, &rule.path) {
            let mapped = mapped && rule.path.starts_with(&policy.workspace);
            builder.rule(rule, survey.kind(&rule.path), Mapped(mapped));
        }
    }
    builder.steps
}

/// Whether the ids of a bound path are mapped.
#[derive(Clone, Copy)]
struct Mapped(bool);

/// Parents first, so that a longer rule is mounted over a shorter one.
fn by_depth(rules: &[FsRule]) -> Vec<&FsRule> {
    let mut sorted: Vec<&FsRule> = rules.iter().collect();
    sorted.sort_by_key(|rule| (rule.path.components().count(), rule.path.clone()));
    sorted
}

/// Paths that exist only inside; rules about them become Landlock rules alone.
pub(crate) fn made_by_jail(policy: &Policy, path: &Path) -> bool {
    path == policy.tmp
        || path.starts_with("/dev")
        || path.starts_with("/proc")
        || (policy.session.is_some() && path.starts_with(OUTPUT_DIR))
}

/// Names and the rules that protect them.
type Names = Vec<(PathBuf, RuleRef)>;

/// Protected names below the writable part of the workspace: those that do not exist, and those that do.
pub(super) fn protected(policy: &Policy, survey: &Survey) -> (Names, Names) {
    let protected = |rule: &&FsRule| {
        policy.is_protection(rule)
            && rule
                .path
                .parent()
                .and_then(|parent| policy.fs.deciding(parent))
                .is_some_and(|parent| parent.exposure == Exposure::Write)
    };
    policy
        .fs
        .rules
        .iter()
        .filter(protected)
        .map(|rule| (rule.path.clone(), rule.rule.clone()))
        .partition(|(path, _)| *survey.kind(path) == Kind::Missing)
}

impl Builder {
    fn system(&mut self, policy: &Policy) {
        self.own_dir(Path::new("/run"));
        self.steps.push(MountStep::Dir(EMPTY_DIR.into()));
        self.steps.push(MountStep::File(EMPTY_FILE.into()));
        self.steps.push(MountStep::Script(SCRIPT.into()));
        self.steps.push(MountStep::Prelude(PRELUDE.into()));
        self.own_dir(Path::new("/dev"));
        for device in DEVICES {
            self.steps.push(MountStep::File(device.into()));
            self.steps.push(MountStep::Device(device.into()));
        }
        for (path, target) in [
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
            ("/dev/ptmx", "pts/ptmx"),
        ] {
            self.steps.push(MountStep::Symlink {
                path: path.into(),
                target: target.into(),
            });
        }
        self.own_dir(Path::new("/dev/pts"));
        self.steps.push(MountStep::Devpts("/dev/pts".into()));
        self.tmpfs(Path::new("/dev/shm"), policy);
        self.own_dir(Path::new("/proc"));
        self.steps.push(MountStep::Proc("/proc".into()));
        for path in PROC_MASKS {
            self.steps.push(MountStep::Mask {
                path: path.into(),
                optional: true,
            });
        }
        for path in PROC_SEALS {
            self.steps.push(MountStep::Seal {
                path: path.into(),
                optional: true,
            });
        }
        match &policy.session {
            None => self.tmpfs(&policy.tmp, policy),
            Some(dirs) => {
                self.shared(&policy.tmp, (&dirs.tmp, BindMode::Writable));
                self.shared(Path::new(OUTPUT_DIR), (&dirs.output, BindMode::ReadOnly));
            }
        }
    }

    fn shared(&mut self, path: &Path, (source, mode): (&Path, BindMode)) {
        self.own_dir(path);
        self.steps.push(MountStep::Shared {
            path: path.to_owned(),
            source: source.to_owned(),
            mode,
        });
        let ground = match mode {
            BindMode::ReadOnly => Ground::ReadOnly,
            // The session's own, made by the launcher: places for mounts are made on it.
            BindMode::Writable => Ground::Own,
        };
        self.ground.push((path.to_owned(), ground));
    }

    fn tmpfs(&mut self, path: &Path, policy: &Policy) {
        self.own_dir(path);
        self.steps.push(MountStep::Tmpfs {
            path: path.to_owned(),
            size: policy.fs.tmp.size_bytes,
            inodes: policy.fs.tmp.inodes,
        });
        self.ground.push((path.to_owned(), Ground::Own));
    }

    /// Makes a directory and its parents on the jail's own file systems.
    fn own_dir(&mut self, path: &Path) {
        if self.made.contains(path) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.own_dir(parent);
        }
        self.made.insert(path.to_owned());
        self.steps.push(MountStep::Dir(path.to_owned()));
    }

    fn ground_of(&self, path: &Path) -> Ground {
        self.ground
            .iter()
            .filter(|(mounted, _)| path.starts_with(mounted))
            .max_by_key(|(mounted, _)| mounted.components().count())
            .map_or(Ground::Own, |(_, ground)| *ground)
    }

    fn rule(&mut self, rule: &FsRule, kind: &Kind, mapped: Mapped) {
        let ground = self.ground_of(&rule.path);
        match (kind, rule.exposure, ground) {
            (Kind::Symlink(target), Exposure::Read | Exposure::Write, Ground::Own) => {
                self.parents(&rule.path);
                self.steps.push(MountStep::Symlink {
                    path: rule.path.clone(),
                    target: target.clone(),
                });
            }
            (
                Kind::File | Kind::Directory,
                Exposure::Read | Exposure::Readonly,
                Ground::Own | Ground::Writable | Ground::Masked,
            ) => self.bind(rule, kind, (BindMode::ReadOnly, mapped)),
            (
                Kind::File | Kind::Directory,
                Exposure::Write,
                Ground::Own | Ground::ReadOnly | Ground::Masked,
            ) => self.bind(rule, kind, (BindMode::Writable, mapped)),
            (
                Kind::File | Kind::Directory | Kind::Other,
                Exposure::Deny,
                Ground::ReadOnly | Ground::Writable,
            ) => {
                self.pin_ancestors(&rule.path, mapped);
                self.steps.push(MountStep::Mask {
                    path: rule.path.clone(),
                    optional: false,
                });
                self.ground.push((rule.path.clone(), Ground::Masked));
            }
            // Sockets and devices of the host are not shown; a link on a mounted path is already there;
            // the rest is what its ground already makes of it.
            (Kind::Missing | Kind::Symlink(_), _, _)
            | (Kind::Other, Exposure::Read | Exposure::Readonly | Exposure::Write, _)
            | (
                Kind::File | Kind::Directory,
                Exposure::Read | Exposure::Readonly,
                Ground::ReadOnly,
            )
            | (Kind::File | Kind::Directory, Exposure::Write, Ground::Writable)
            | (Kind::File | Kind::Directory | Kind::Other, Exposure::Deny, _) => {}
        }
    }

    /// Mounts every directory between a writable mount and a carve-out of it over itself. A mount point
    /// cannot be renamed or removed: without this, `mv .git x; mkdir -p .git/hooks` would leave the
    /// protected directory behind and make an unprotected one in its place.
    fn pin_ancestors(&mut self, path: &Path, Mapped(mapped): Mapped) {
        let root = self
            .ground
            .iter()
            .filter(|(mounted, _)| path.starts_with(mounted));
        let root = root.max_by_key(|(mounted, _)| mounted.components().count());
        let Some((root, Ground::Writable)) = root.cloned() else {
            return;
        };
        let mut between: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|ancestor| **ancestor != *root)
            .collect();
        between.reverse();
        for ancestor in between {
            self.steps.push(MountStep::Bind {
                path: ancestor.to_owned(),
                mode: BindMode::Writable,
                mapped,
            });
            self.ground.push((ancestor.to_owned(), Ground::Writable));
        }
    }

    fn parents(&mut self, path: &Path) {
        if let Some(parent) = path.parent()
            && self.ground_of(parent) == Ground::Own
        {
            self.own_dir(parent);
        }
    }

    fn bind(&mut self, rule: &FsRule, kind: &Kind, how: (BindMode, Mapped)) {
        let (mode, Mapped(mapped)) = how;
        if mode == BindMode::ReadOnly {
            self.pin_ancestors(&rule.path, Mapped(mapped));
        }
        // On a mounted path the place exists already: it is the same path on the host.
        if self.ground_of(&rule.path) == Ground::Own {
            self.parents(&rule.path);
            if *kind == Kind::Directory {
                self.own_dir(&rule.path);
            } else {
                self.steps.push(MountStep::File(rule.path.clone()));
            }
        }
        self.steps.push(MountStep::Bind {
            path: rule.path.clone(),
            mode,
            mapped,
        });
        let ground = match mode {
            BindMode::ReadOnly => Ground::ReadOnly,
            BindMode::Writable => Ground::Writable,
        };
        self.ground.push((rule.path.clone(), ground));
    }
}
