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
mod tests;
