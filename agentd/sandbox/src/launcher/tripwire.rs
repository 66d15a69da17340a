//! Protected names that did not exist when a command started. If it made one, that is undone: a hook or
//! an editor setting would run later, outside any jail.
//!
//! A name that another command made, and that exists only until that one is over, is watched as well: where
//! it is removed or moved, mounts on it are gone in every jail, and whoever runs then can make it anew.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use nix::{errno::Errno, sys::stat::fstat};

use super::{
    claims::Claims,
    removal::{self, Allowance, Found},
};
use crate::{launch::open_name, monitor::Tripped, plan::Plan, policy::RuleRef};

/// Names watched for one execution.
#[derive(Debug, Default)]
pub(crate) struct Tripwires {
    /// Workspace.
    workspace: PathBuf,
    names: Vec<Wire>,
    /// Tells other executions about the names, until it is dropped here and by the janitor.
    claims: Option<Claims>,
}

/// A watched name.
#[derive(Debug)]
struct Wire {
    path: PathBuf,
    rule: RuleRef,
    /// What was there at the start, made by another execution that was not over. Held open, so that nothing
    /// new can have its number.
    before: Option<Rc<OwnedFd>>,
    /// The command made it.
    tripped: bool,
    /// Why it is still there.
    remains: Option<String>,
}

/// How far a removal has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is left to be done.
    Done,
    /// There was more than could be removed at once.
    Unfinished,
}

impl Tripwires {
    /// Watches what `plan` protects. To be called after the survey and before the command can make anything.
    pub(crate) fn set(workspace: &Path, plan: &Plan) -> Result<Self, Errno> {
        let claims = Claims::on(workspace)?;
        let inside = |path: &Path| path.strip_prefix(workspace).unwrap_or(path).to_owned();
        let mut names = Vec::new();
        for (path, rule) in &plan.tripwires {
            names.push(Wire::new(path, rule, None));
        }
        for (path, rule) in &plan.protected {
            match open_name(path) {
                Ok(before) => {
                    // ORDER: opened, then asked, then compared: who made it is either not over, or has
                    // removed it.
                    if claims.is_claimed(&inside(path))? || !is_still(path, &before) {
                        names.push(Wire::new(path, rule, Some(Rc::new(before))));
                    }
                }
                Err(Errno::ENOENT) => names.push(Wire::new(path, rule, None)),
                Err(errno) => return Err(errno),
            }
        }
        for wire in &names {
            claims.claim(&inside(&wire.path))?;
        }
        Ok(Self {
            workspace: workspace.to_owned(),
            names,
            claims: Some(claims),
        })
    }

    /// Removes what was made, as much as `allowance` permits. To be called when the tree is gone, and again
    /// while it is unfinished.
    pub(crate) fn spring(&mut self, allowance: &Allowance) -> Progress {
        let mut progress = Progress::Done;
        for wire in &mut self.names {
            if wire.is_as_before() {
                continue;
            }
            let removed = remove(&self.workspace, &wire.path, allowance);
            match &removed {
                Err(error) if is_absent(error) => {
                    wire.remains = None;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    progress = Progress::Unfinished;
                    wire.remains = Some("it is still being removed".to_owned());
                }
                Err(error) => wire.remains = Some(error.to_string()),
                Ok(()) => wire.remains = None,
            }
            wire.tripped = true;
        }
        progress
    }

    /// The workspace, and the names in it that are not removed yet.
    pub(crate) fn unfinished(&self) -> (PathBuf, Vec<PathBuf>) {
        let left = self.names.iter().filter(|wire| wire.remains.is_some());
        let left = left.map(|wire| wire.path.clone()).collect();
        (self.workspace.clone(), left)
    }

    /// What the janitor goes on with: the workspace, and what keeps the claims.
    pub(super) fn base(&self) -> Option<(&Path, &Rc<OwnedFd>)> {
        let claims = self.claims.as_ref().filter(|_| !self.names.is_empty())?;
        Some((&self.workspace, claims.kept_by()))
    }

    /// The names, each with what was there at the start and belongs to another execution.
    pub(super) fn names(&self) -> impl Iterator<Item = (&Path, Option<&Rc<OwnedFd>>)> {
        let wires = self.names.iter();
        wires.map(|wire| (wire.path.as_path(), wire.before.as_ref()))
    }

    /// What the command made.
    pub(crate) fn tripped(&self) -> Vec<Tripped> {
        let tripped = self.names.iter().filter(|wire| wire.tripped);
        let tell = |wire: &Wire| Tripped {
            path: wire.path.display().to_string(),
            rule: wire.rule.to_string(),
            remains: wire.remains.clone(),
        };
        tripped.map(tell).collect()
    }
}

impl Wire {
    fn new(path: &Path, rule: &RuleRef, before: Option<Rc<OwnedFd>>) -> Self {
        Self {
            path: path.to_owned(),
            rule: rule.clone(),
            before,
            tripped: false,
            remains: None,
        }
    }

    fn is_as_before(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| is_still(&self.path, before))
    }
}

/// Whether a path names what was opened.
pub(super) fn is_still(path: &Path, opened: &OwnedFd) -> bool {
    let (Ok(now), Ok(before)) = (open_name(path).and_then(fstat), fstat(opened)) else {
        return false;
    };
    (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino)
}

/// Removes one name below a workspace, following no link; an error of kind `NotFound` when it does not exist.
pub(super) fn remove(workspace: &Path, path: &Path, allowance: &Allowance) -> io::Result<()> {
    let inside = path
        .strip_prefix(workspace)
        .map_err(|_outside| io::Error::from(io::ErrorKind::NotFound))?;
    let mut parent: OwnedFd = open_name(workspace)?;
    let mut parts = inside.components().peekable();
    while let Some(Component::Normal(name)) = parts.next() {
        if parts.peek().is_none() {
            return removal::remove(parent.as_fd(), name, allowance);
        }
        match removal::look(parent.as_fd(), name)? {
            Found::Directory(next) => parent = next,
            // When the command started no link led here, or it would have been refused: the command
            // made one, to reach the protected name by another way.
            Found::Link => return removal::remove(parent.as_fd(), name, allowance),
            Found::Other => return Err(io::ErrorKind::NotFound.into()),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

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
            names: names.map(|name| Wire::new(&name, &rule, None)).into(),
            claims: None,
        }
    }

    /// All at once; what was made.
    fn spring(mut wires: Tripwires) -> Vec<Tripped> {
        assert_eq!(wires.spring(&Allowance::unlimited()), Progress::Done);
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
            wire.before = opened(name);
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
    fn what_is_too_much_at_once_is_removed_bit_by_bit() {
        let dir = scratch("much");
        for name in [".git/hooks", ".envrc"] {
            for number in 0..100 {
                fs::create_dir_all(dir.join(name).join(format!("{number}/deep"))).unwrap();
            }
        }
        let mut watched = wires(&dir);
        let mut turns = 0;
        while watched.spring(&Allowance::of(50)) == Progress::Unfinished {
            assert!(!watched.unfinished().1.is_empty());
            turns += 1;
        }
        assert!((8..20).contains(&turns), "{turns}");
        assert_eq!(watched.tripped().len(), 2);
        assert!(watched.tripped().iter().all(|made| made.remains.is_none()));
        assert!(!dir.join(".git/hooks").exists() && !dir.join(".envrc").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
