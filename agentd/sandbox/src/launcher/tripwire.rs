//! Protected names that did not exist when a command started. If it made one, that is undone: a hook or
//! an editor setting would run later, outside any jail.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use super::removal::{self, Found};
use crate::{launch::open_name, monitor::Tripped, policy::RuleRef};

/// Names watched for one execution.
#[derive(Debug, Default)]
pub(crate) struct Tripwires {
    /// Workspace.
    pub(crate) workspace: PathBuf,
    /// Paths below it, and their rules.
    pub(crate) names: Vec<(PathBuf, RuleRef)>,
}

impl Tripwires {
    /// Removes what was made, and tells about each. To be called when the tree is gone.
    pub(crate) fn spring(&self) -> Vec<Tripped> {
        let mut tripped = Vec::new();
        for (path, rule) in &self.names {
            let remains = match remove(&self.workspace, path) {
                Err(error) if is_absent(&error) => continue,
                Err(error) => Some(error.to_string()),
                Ok(()) => None,
            };
            tripped.push(Tripped {
                path: path.display().to_string(),
                rule: rule.to_string(),
                remains,
            });
        }
        tripped
    }
}

/// Removes one name below a workspace, following no link; an error of kind `NotFound` when it does not exist.
pub(super) fn remove(workspace: &Path, path: &Path) -> io::Result<()> {
    let inside = path
        .strip_prefix(workspace)
        .map_err(|_outside| io::Error::from(io::ErrorKind::NotFound))?;
    let mut parent: OwnedFd = open_name(workspace)?;
    let mut parts = inside.components().peekable();
    while let Some(Component::Normal(name)) = parts.next() {
        if parts.peek().is_none() {
            return removal::remove(parent.as_fd(), name);
        }
        match removal::look(parent.as_fd(), name)? {
            Found::Directory(next) => parent = next,
            // When the command started no link led here, or it would have been refused: the command
            // made one, to reach the protected name by another way.
            Found::Link => return removal::remove(parent.as_fd(), name),
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
        let names = [".git/hooks", ".envrc"].map(|name| (workspace.join(name), rule.clone()));
        Tripwires {
            workspace: workspace.to_owned(),
            names: names.to_vec(),
        }
    }

    #[test]
    fn what_was_made_is_removed_and_named() {
        let dir = scratch("made");
        fs::create_dir_all(dir.join(".git/hooks/deep")).unwrap();
        fs::write(dir.join(".git/hooks/pre-commit"), "x").unwrap();
        let sprung = wires(&dir).spring();
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
        assert_eq!(wires(&dir).spring().len(), 1);
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
        assert_eq!(wires(&dir).spring().len(), 1);
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
        assert_eq!(wires(&dir).spring(), []);
        fs::remove_dir_all(dir).unwrap();
    }
}
