//! Paths. Two models side by side: the policy's (the longest path wins), which a root of its own
//! enforces by mounts, and Landlock's (rights add up on the way down), which is all there is on the
//! nested tier.

use std::path::{Component, Path, PathBuf};

use super::{DEFAULT, Verdict};
use crate::{
    plan::{EMPTY_DIR, EMPTY_FILE, PRELUDE, SCRIPT},
    policy::{Exposure, FsRule, Layer, PathAccess, Policy, Tier},
};

pub(super) fn verdict(policy: &Policy, path: &Path, access: PathAccess) -> Verdict {
    let path = absolute(&policy.cwd, path);
    let wanted = longest_prefix(policy, &path, access);
    let landlock = rights_add_up(policy, &path, access);
    match policy.tier {
        Tier::Nested => nested(policy, &path, access, (wanted, landlock)),
        Tier::Rootless | Tier::HostRoot => own_root(policy, &path, access, (wanted, landlock)),
    }
}

/// A model's answer, and the rule that gave it.
#[derive(Debug, Clone, Copy)]
struct Decision<'p> {
    allowed: bool,
    rule: Option<&'p FsRule>,
}

/// The policy's own model.
fn longest_prefix<'p>(policy: &'p Policy, path: &Path, access: PathAccess) -> Decision<'p> {
    let rule = policy.fs.deciding(path);
    let exposure = rule.map(|rule| rule.exposure);
    let writable = exposure == Some(Exposure::Write);
    let readable = exposure.is_some_and(|exposure| exposure != Exposure::Deny);
    match access {
        PathAccess::Read => Decision {
            allowed: readable,
            rule,
        },
        PathAccess::Write => Decision {
            allowed: writable,
            rule,
        },
        PathAccess::Create => {
            // An entry is changed by writing to its directory: a granted file or directory itself can
            // be neither made nor removed.
            let above = path.parent().and_then(|parent| policy.fs.deciding(parent));
            let above_writable = above.is_some_and(|rule| rule.exposure == Exposure::Write);
            let rule = if writable { above } else { rule };
            Decision {
                allowed: writable && above_writable,
                rule,
            }
        }
        PathAccess::Exec => match policy.fs.exec_rule(path) {
            Some(exec) if readable => Decision {
                allowed: true,
                rule: Some(exec),
            },
            Some(_) | None => Decision {
                allowed: false,
                rule,
            },
        },
    }
}

/// Landlock's model.
fn rights_add_up<'p>(policy: &'p Policy, path: &Path, access: PathAccess) -> Decision<'p> {
    let granted = |path: &Path, enough: fn(Exposure) -> bool| {
        let mut covering = policy
            .fs
            .rules
            .iter()
            .filter(|rule| path.starts_with(&rule.path));
        covering.rfind(|rule| enough(rule.exposure))
    };
    let readable = |exposure: Exposure| exposure != Exposure::Deny;
    let writable = |exposure: Exposure| exposure == Exposure::Write;
    let rule = match access {
        PathAccess::Read => granted(path, readable),
        PathAccess::Write => granted(path, writable),
        PathAccess::Create => path.parent().and_then(|parent| granted(parent, writable)),
        PathAccess::Exec => granted(path, readable).and_then(|_| policy.fs.exec_rule(path)),
    };
    match rule {
        Some(_) => Decision {
            allowed: true,
            rule,
        },
        None => Decision {
            allowed: false,
            rule: granted(path, readable),
        },
    }
}

fn own_root(
    policy: &Policy,
    path: &Path,
    access: PathAccess,
    (wanted, landlock): (Decision<'_>, Decision<'_>),
) -> Verdict {
    let mut layers = vec![Layer::OwnRoot, Layer::Landlock];
    if access == PathAccess::Read && is_made_by_jail(path) {
        return Verdict {
            allowed: true,
            rule: DEFAULT.to_owned(),
            layers,
            text: format!("{} is the jail's own and can be read", path.display()),
        };
    }
    if access == PathAccess::Read && wanted.rule.is_none() {
        let below = policy
            .fs
            .rules
            .iter()
            .find(|rule| rule.path.starts_with(path));
        if let Some(below) = below {
            // The directory is one of the jail's own, made to hold what is granted below it.
            return Verdict {
                allowed: true,
                rule: below.rule.to_string(),
                layers,
                text: format!(
                    "listing {} shows only what rules expose below it",
                    path.display()
                ),
            };
        }
    }
    if !wanted.allowed {
        let readable_without_exec = access == PathAccess::Exec
            && wanted
                .rule
                .is_some_and(|rule| rule.exposure != Exposure::Deny);
        // /proc is the jail's own and cannot be mounted read-only; nor do mounts restrict exec.
        if readable_without_exec || path.starts_with("/proc") {
            layers.retain(|layer| *layer != Layer::OwnRoot);
        }
        if landlock.allowed {
            layers = vec![Layer::OwnRoot];
        }
        // One that does not exist cannot be mounted over; if it is made, it is removed again.
        let protected = wanted.rule.is_some_and(|rule| policy.fs.is_carve_out(rule));
        if access == PathAccess::Create && protected {
            layers.push(Layer::Tripwire);
        }
    }
    Verdict {
        allowed: wanted.allowed,
        rule: place(wanted),
        layers,
        text: text(policy, path, access, wanted),
    }
}

/// The script of the command and the empty things behind masks.
fn is_made_by_jail(path: &Path) -> bool {
    ["/run", SCRIPT, PRELUDE, EMPTY_DIR, EMPTY_FILE]
        .iter()
        .any(|made| path == Path::new(made))
}

fn nested(
    policy: &Policy,
    path: &Path,
    access: PathAccess,
    (wanted, landlock): (Decision<'_>, Decision<'_>),
) -> Verdict {
    if landlock.allowed && !wanted.allowed {
        let (layers, afterwards) = match access {
            PathAccess::Create => (
                vec![Layer::Tripwire],
                "; one that did not exist before is removed after the command",
            ),
            PathAccess::Read | PathAccess::Write | PathAccess::Exec => (Vec::new(), ""),
        };
        return Verdict {
            allowed: true,
            rule: place(landlock),
            layers,
            text: format!(
                "{} {} is possible although {} protects it: tier {} cannot take back what {} \
                 grants{afterwards}",
                access.as_str(),
                path.display(),
                place(wanted),
                policy.tier,
                place(landlock),
            ),
        };
    }
    Verdict {
        allowed: landlock.allowed,
        rule: place(landlock),
        layers: vec![Layer::Landlock],
        text: text(policy, path, access, landlock),
    }
}

fn place(decision: Decision<'_>) -> String {
    decision
        .rule
        .map_or_else(|| DEFAULT.to_owned(), |rule| rule.rule.to_string())
}

/// One sentence: what, why, and for a refusal what would be possible.
fn text(policy: &Policy, path: &Path, access: PathAccess, decision: Decision<'_>) -> String {
    let act = format!("{} {}", access.as_str(), path.display());
    let rule = place(decision);
    if decision.allowed {
        return format!("{act} is allowed by {rule}, as far as file permissions go");
    }
    let why = match decision.rule.map(|rule| rule.exposure) {
        None => "no rule exposes it".to_owned(),
        Some(Exposure::Deny) => format!("{rule} hides it"),
        Some(Exposure::Read | Exposure::Readonly | Exposure::Write)
            if access == PathAccess::Exec =>
        {
            format!("{rule} exposes it, but no exec rule covers it")
        }
        Some(Exposure::Readonly) => format!("{rule} protects it, it can be read"),
        Some(Exposure::Read) => format!("{rule} lets it be read only"),
        Some(Exposure::Write) => format!("it is what {rule} grants, and the grant ends there"),
    };
    format!("{act} is denied: {why}; {}", possible(policy, access))
}

fn possible(policy: &Policy, access: PathAccess) -> String {
    let workspace = policy.workspace.display();
    // On the nested tier the directory has another name for every command.
    let tmp = match policy.tier {
        Tier::Nested => "$TMPDIR".to_owned(),
        Tier::Rootless | Tier::HostRoot => policy.tmp.display().to_string(),
    };
    let writable = policy
        .fs
        .deciding(&policy.workspace)
        .is_some_and(|rule| rule.exposure == Exposure::Write);
    match access {
        PathAccess::Write | PathAccess::Create if writable => {
            format!("writable are the workspace {workspace} and {tmp}")
        }
        PathAccess::Write | PathAccess::Create => {
            format!("writable is {tmp}, the profile lets the workspace be read only")
        }
        PathAccess::Read => {
            format!("readable are the workspace {workspace}, {tmp} and system directories")
        }
        PathAccess::Exec => format!("programs run from system directories, {workspace} and {tmp}"),
    }
}

/// The path without `.` and `..`, in the text only; a relative one from the working directory.
fn absolute(cwd: &Path, path: &Path) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    for component in cwd.join(path).components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => {
                absolute.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    absolute
}
