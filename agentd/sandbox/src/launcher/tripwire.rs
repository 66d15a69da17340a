//! Protected names that did not exist when a command started. If it made one, that is undone: a hook or
//! an editor setting would run later, outside any jail.
//!
//! A name that another command made, and that exists only until that one is over, is watched as well: where
//! it is removed or moved, mounts on it are gone in every jail, and whoever runs then can make it anew.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use nix::{errno::Errno, sys::stat::fstat};

use super::{
    claims::Claims,
    removal::{self, Allowance, Found},
};
use crate::{
    launch::open_name,
    monitor::Tripped,
    plan::Plan,
    policy::{RuleRef, Tier},
};

/// Names watched for one execution.
#[derive(Debug, Default)]
pub(crate) struct Tripwires {
    /// Workspace.
    workspace: PathBuf,
    /// Whose the command's files are on disk, where this process has rights on those of others as well.
    owner: Option<u32>,
    names: Vec<Wire>,
    /// Tells other executions about the names, until it is dropped here.
    claims: Option<Claims>,
}

/// A watched name.
#[derive(Debug)]
struct Wire {
    name: Name,
    rule: RuleRef,
    state: State,
}

/// A name, and what may stay under it.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) path: PathBuf,
    /// What was there at the start, made by another execution that was not over. Held open, so that nothing
    /// new can have its number.
    pub(super) before: Option<Rc<OwnedFd>>,
}

/// What is known of a watched name. Whatever is known for good is not looked at again: from then on the name
/// is the person's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Not looked at yet.
    Watched,
    /// The command made it, and not all of it is removed.
    Going,
    /// The command made nothing.
    Untouched,
    /// The command made it.
    Tripped { remains: Option<String> },
}

/// How far a removal has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is left to be done.
    Done,
    /// There was more than could be removed at once.
    Unfinished,
}

/// Why names cannot be watched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unset {
    /// Something changed since the survey.
    Changed,
    /// A name cannot be looked at, so nobody knows whether it exists.
    Unclear(PathBuf, Errno),
    /// An error of the system.
    System(Errno),
}

/// What became of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// It is what it was.
    AsBefore,
    /// There is nothing.
    Absent,
    /// There was something, and it is removed.
    Removed,
}

impl Tripwires {
    /// Watches what `plan` protects. To be called after the survey and before the command can make anything.
    pub(crate) fn set(workspace: &Path, plan: &Plan) -> Result<Self, Unset> {
        let claims = Claims::on(workspace).map_err(Unset::System)?;
        let inside = |path: &Path| path.strip_prefix(workspace).unwrap_or(path).to_owned();
        let mut names = Vec::new();
        for (path, rule) in &plan.tripwires {
            match open_name(path) {
                Err(Errno::ENOENT | Errno::ENOTDIR) => names.push(Wire::new(path, rule, None)),
                // It is reached through a link of the person's. Only on this tier it is not refused, where
                // nothing that exists is protected.
                Err(Errno::ELOOP) if plan.tier == Tier::Nested => {}
                Err(Errno::ELOOP) | Ok(_) => return Err(Unset::Changed),
                Err(errno) => return Err(Unset::Unclear(path.clone(), errno)),
            }
        }
        for (path, rule) in &plan.protected {
            match open_name(path) {
                Ok(before) => {
                    // ORDER: opened, then asked, then compared: who made it is either not over, or has
                    // removed it.
                    if claims.is_claimed(&inside(path)).map_err(Unset::System)? {
                        names.push(Wire::new(path, rule, Some(Rc::new(before))));
                    } else if !is_still(path, &before) {
                        return Err(Unset::Changed);
                    }
                }
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Err(Unset::Changed),
                Err(errno) => return Err(Unset::Unclear(path.clone(), errno)),
            }
        }
        for wire in &names {
            let claimed = claims.claim(&inside(&wire.name.path));
            claimed.map_err(Unset::System)?;
        }
        Ok(Self {
            workspace: workspace.to_owned(),
            owner: owner(plan),
            names,
            claims: Some(claims),
        })
    }

    /// Removes what was made, as much as `allowance` permits. To be called when the tree is gone, and again
    /// while it is unfinished.
    pub(crate) fn spring(&mut self, allowance: Allowance) -> Progress {
        let allowance = allowance.only_of(self.owner);
        let mut progress = Progress::Done;
        for wire in &mut self.names {
            if !matches!(wire.state, State::Watched | State::Going) {
                continue;
            }
            let undone = wire.name.undo(&self.workspace, &allowance);
            wire.state = match (undone, &wire.state) {
                (Ok(Undone::AsBefore | Undone::Absent), State::Watched) => State::Untouched,
                (Ok(_), _) => State::Tripped { remains: None },
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => {
                    progress = Progress::Unfinished;
                    State::Going
                }
                (Err(error), _) => State::Tripped {
                    remains: Some(error.to_string()),
                },
            };
        }
        progress
    }

    /// Nobody goes on with what is not removed yet.
    pub(crate) fn give_up(&mut self) {
        for wire in &mut self.names {
            if wire.state == State::Going {
                wire.state = State::Tripped {
                    remains: Some("it grew while it was removed".to_owned()),
                };
            }
        }
    }

    /// Removes all that is not removed yet, however long that takes, and notes nothing: for a process that
    /// does nothing else.
    pub(crate) fn remove_rest(&self) {
        let all = Allowance::unlimited().only_of(self.owner);
        for name in self.unfinished() {
            // Who goes on afterwards meets the same error, and tells it.
            drop(name.undo(&self.workspace, &all));
        }
    }

    fn unfinished(&self) -> impl Iterator<Item = &Name> {
        let left = self.names.iter().filter(|wire| wire.state == State::Going);
        left.map(|wire| &wire.name)
    }

    /// What the janitor goes on with: the workspace, whose the command's files are, and what keeps the claims.
    pub(super) fn base(&self) -> Option<(&Path, Option<u32>, &Rc<OwnedFd>)> {
        let claims = self.claims.as_ref().filter(|_| !self.names.is_empty())?;
        Some((&self.workspace, self.owner, claims.kept_by()))
    }

    /// The names, each with what was there at the start and belongs to another execution.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.names.iter().map(|wire| &wire.name)
    }

    /// What the command made.
    pub(crate) fn tripped(&self) -> Vec<Tripped> {
        let tell = |wire: &Wire| {
            let remains = match &wire.state {
                State::Watched | State::Untouched => return None,
                State::Going => Some("it is still being removed".to_owned()),
                State::Tripped { remains } => remains.clone(),
            };
            Some(Tripped {
                path: wire.name.path.display().to_string(),
                rule: wire.rule.to_string(),
                remains,
            })
        };
        self.names.iter().filter_map(tell).collect()
    }
}

impl Wire {
    fn new(path: &Path, rule: &RuleRef, before: Option<Rc<OwnedFd>>) -> Self {
        Self {
            name: Name {
                path: path.to_owned(),
                before,
            },
            rule: rule.clone(),
            state: State::Watched,
        }
    }
}

impl Name {
    /// Removes what is there and was not before, following no link. What cannot be looked at stays, and is an
    /// error.
    pub(super) fn undo(&self, workspace: &Path, allowance: &Allowance) -> io::Result<Undone> {
        match self.remove(workspace, allowance) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Undone::Absent),
            result => result,
        }
    }

    /// An error of kind `NotFound` when there is nothing.
    fn remove(&self, workspace: &Path, allowance: &Allowance) -> io::Result<Undone> {
        let inside = self
            .path
            .strip_prefix(workspace)
            .map_err(|_outside| io::Error::from(io::ErrorKind::NotFound))?;
        let mut parent: OwnedFd =
            open_name(workspace).map_err(|errno| removal::postponed(errno.into()))?;
        let mut parts = inside.components().peekable();
        while let Some(Component::Normal(name)) = parts.next() {
            let last = parts.peek().is_none();
            if last && self.is_before(parent.as_fd(), name)? {
                return Ok(Undone::AsBefore);
            }
            if last {
                removal::remove(parent.as_fd(), name, allowance)?;
                return Ok(Undone::Removed);
            }
            match removal::look(parent.as_fd(), name)? {
                Found::Directory(next) => parent = next,
                // When the command started no link led here: the command made one, to reach the protected
                // name by another way.
                Found::Link => {
                    removal::remove(parent.as_fd(), name, allowance)?;
                    return Ok(Undone::Removed);
                }
                Found::Other => break,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn is_before(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
        let Some(before) = &self.before else {
            return Ok(false);
        };
        Ok(is_same(&removal::open(parent, name)?, before)?)
    }
}

/// Who owns on disk what a command makes, if it is not this process's user and that is not root.
fn owner(plan: &Plan) -> Option<u32> {
    let mapped = plan.idmap.map(|map| map.owner_uid);
    let switched = plan.switch_to.map(|(uid, _)| uid);
    // Root without capabilities has no rights on the files of others.
    let root = (plan.tier == Tier::HostRoot).then_some(0);
    mapped.or(switched).or(root)
}

/// Whether a path names what was opened.
fn is_still(path: &Path, opened: &OwnedFd) -> bool {
    open_name(path).is_ok_and(|now| is_same(&now, opened) == Ok(true))
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Errno> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, slice::from_ref};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tripwire-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join(".git")).unwrap();
        dir.canonicalize().unwrap()
    }

    fn wires(workspace: &Path) -> Tripwires {
        let rule = RuleRef {
            file: "t.toml".into(),
            line: 3,
        };
        let names = [".git/hooks", ".envrc"].map(|name| workspace.join(name));
        Tripwires {
            workspace: workspace.to_owned(),
            owner: None,
            names: names.map(|name| Wire::new(&name, &rule, None)).into(),
            claims: None,
        }
    }

    /// All at once; what was made.
    fn spring(mut wires: Tripwires) -> Vec<Tripped> {
        assert_eq!(wires.spring(Allowance::unlimited()), Progress::Done);
        wires.tripped()
    }

    #[test]
    fn what_was_made_is_removed_and_named() {
        let dir = scratch("made");
        fs::create_dir_all(dir.join(".git/hooks/deep")).unwrap();
        fs::write(dir.join(".git/hooks/pre-commit"), "x").unwrap();
        let sprung = spring(wires(&dir));
        assert_eq!(sprung.len(), 1);
        assert_eq!(
            (sprung[0].rule.as_str(), &sprung[0].remains),
            ("t.toml:3", &None)
        );
        assert!(!dir.join(".git/hooks").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_closed_directory_is_removed_all_the_same() {
        let dir = scratch("closed");
        fs::create_dir_all(dir.join(".git/hooks")).unwrap();
        fs::write(dir.join(".git/hooks/pre-commit"), "x").unwrap();
        for closed in [".git/hooks", ".git"] {
            fs::set_permissions(dir.join(closed), fs::Permissions::from_mode(0o555)).unwrap();
        }
        assert_eq!(spring(wires(&dir)).len(), 1);
        assert!(!dir.join(".git/hooks").exists());
        let mode = fs::metadata(dir.join(".git")).unwrap().permissions().mode();
        fs::set_permissions(dir.join(".git"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_dir_all(dir).unwrap();
        assert!([0o555, 0o755].contains(&(mode & 0o777)), "{mode:o}");
    }

    #[test]
    fn a_parent_that_became_a_link_is_removed_itself_and_not_followed() {
        let (dir, outside) = (scratch("link"), scratch("outside"));
        fs::create_dir_all(outside.join("hooks")).unwrap();
        fs::remove_dir(dir.join(".git")).unwrap();
        std::os::unix::fs::symlink(&outside, dir.join(".git")).unwrap();
        assert_eq!(spring(wires(&dir)).len(), 1);
        assert!(
            fs::symlink_metadata(dir.join(".git")).is_err(),
            "the link is gone"
        );
        assert!(outside.join("hooks").exists());
        fs::remove_dir_all(dir).unwrap();
        fs::remove_dir_all(outside).unwrap();
    }

    #[test]
    fn nothing_made_is_nothing_removed() {
        let dir = scratch("clean");
        assert_eq!(spring(wires(&dir)), []);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_was_there_stays_and_what_took_its_place_is_removed() {
        let dir = scratch("before");
        let opened = |name: &str| {
            fs::create_dir_all(dir.join(name)).unwrap();
            Some(Rc::new(open_name(&dir.join(name)).unwrap()))
        };
        let mut watched = wires(&dir);
        for (wire, name) in watched.names.iter_mut().zip([".git/hooks", ".envrc"]) {
            wire.name.before = opened(name);
        }
        // The number of what is removed is free for what comes next, if nobody holds it.
        fs::remove_dir(dir.join(".envrc")).unwrap();
        fs::create_dir(dir.join(".envrc")).unwrap();
        let sprung = spring(watched);
        assert_eq!(sprung.len(), 1);
        assert_eq!(Path::new(&sprung[0].path), dir.join(".envrc"));
        assert!(dir.join(".git/hooks").exists() && !dir.join(".envrc").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_what_was_replaced() {
        let dir = scratch("unclear");
        fs::create_dir(dir.join(".git/hooks")).unwrap();
        let mut watched = wires(&dir);
        let hooks = &mut watched.names[0].name;
        hooks.before = Some(Rc::new(open_name(&hooks.path).unwrap()));
        // A name longer than any file system takes stands for all that fail in the looking.
        hooks.path = dir.join(".git").join("x".repeat(300));
        assert_eq!(watched.spring(Allowance::unlimited()), Progress::Done);
        let tripped = watched.tripped();
        assert_eq!(tripped.len(), 1);
        assert!(tripped[0].remains.is_some());
        assert!(watched.unfinished().count() == 0, "nobody goes on with it");
        assert!(dir.join(".git/hooks").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_name_that_was_dealt_with_is_the_persons() {
        let dir = scratch("dealt");
        fs::create_dir(dir.join(".git/hooks")).unwrap();
        for number in 0..100 {
            fs::write(dir.join(format!(".git/hooks/{number}")), "x").unwrap();
        }
        let mut watched = wires(&dir);
        assert_eq!(watched.spring(Allowance::of(50)), Progress::Unfinished);
        fs::write(dir.join(".envrc"), "the person's").unwrap();
        while watched.spring(Allowance::of(50)) == Progress::Unfinished {}
        assert!(dir.join(".envrc").exists() && !dir.join(".git/hooks").exists());
        fs::create_dir(dir.join(".git/hooks")).unwrap();
        assert_eq!(watched.spring(Allowance::unlimited()), Progress::Done);
        assert!(dir.join(".git/hooks").exists());
        assert_eq!(watched.tripped().len(), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    /// A plan that protects these names: those that a survey found missing, and those that exist.
    fn plan(tier: Tier, missing: &[PathBuf], existing: &[PathBuf]) -> Plan {
        let rule = RuleRef {
            file: "t.toml".into(),
            line: 3,
        };
        let names = |paths: &[PathBuf]| paths.iter().map(|p| (p.clone(), rule.clone())).collect();
        let mut plan = crate::plan::tests::any(tier);
        (plan.tripwires, plan.protected) = (names(missing), names(existing));
        plan
    }

    #[test]
    fn names_that_changed_since_the_survey_are_surveyed_again() {
        let dir = scratch("changed");
        fs::create_dir(dir.join(".git/hooks")).unwrap();
        std::os::unix::fs::symlink(".git", dir.join("link")).unwrap();
        let name = |name: &str| dir.join(name);
        let (there, gone, through) = (name(".git/hooks"), name(".envrc"), name("link/config"));
        for (missing, existing, expected) in [
            (&gone, &there, Ok(1)),
            (&there, &there, Err(Unset::Changed)),
            (&gone, &gone, Err(Unset::Changed)),
            (&through, &there, Err(Unset::Changed)),
            (&gone, &through, Err(Unset::Changed)),
        ] {
            let plan = plan(Tier::Rootless, from_ref(missing), from_ref(existing));
            let set = Tripwires::set(&dir, &plan).map(|wires| wires.names.len());
            assert_eq!(set, expected, "{missing:?} {existing:?}");
        }
        // The person's own link is nothing that a command made.
        let nested = plan(Tier::Nested, &[through, gone], &[]);
        let mut set = Tripwires::set(&dir, &nested).unwrap();
        assert_eq!(set.names.len(), 1);
        assert_eq!(set.spring(Allowance::unlimited()), Progress::Done);
        fs::symlink_metadata(dir.join("link")).unwrap();
        let unclear = dir.join("x".repeat(300));
        assert_eq!(
            Tripwires::set(&dir, &plan(Tier::Nested, from_ref(&unclear), &[])).map(drop),
            Err(Unset::Unclear(unclear, Errno::ENAMETOOLONG))
        );
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_too_much_at_once_is_removed_bit_by_bit() {
        let dir = scratch("much");
        for name in [".git/hooks", ".envrc"] {
            for number in 0..100 {
                fs::create_dir_all(dir.join(name).join(format!("{number}/deep"))).unwrap();
            }
        }
        let mut watched = wires(&dir);
        let mut turns = 0;
        while watched.spring(Allowance::of(50)) == Progress::Unfinished {
            assert!(watched.unfinished().count() > 0);
            turns += 1;
        }
        assert!((8..20).contains(&turns), "{turns}");
        assert_eq!(watched.tripped().len(), 2);
        assert!(watched.tripped().iter().all(|made| made.remains.is_none()));
        assert!(!dir.join(".git/hooks").exists() && !dir.join(".envrc").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
