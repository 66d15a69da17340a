//! Protected names that did not exist when a command started. If it made one, that is undone: a hook or
//! an editor setting would run later, outside any jail.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use crate::{
    launch::open_name,
    policy::RuleRef,
    sys::files::{self, Resolve},
};

/// Names watched for one execution.
#[derive(Debug, Default)]
pub(crate) struct Tripwires {
    /// Workspace.
    pub(crate) workspace: PathBuf,
    /// Paths below it, and their rules.
    pub(crate) names: Vec<(PathBuf, RuleRef)>,
}

impl Tripwires {
    /// Removes what was made; returns path and rule of each. To be called when the tree is gone.
    pub(crate) fn spring(&self) -> Vec<(String, String)> {
        self.names
            .iter()
            .filter(|(path, _)| self.remove(path).is_ok())
            .map(|(path, rule)| (path.display().to_string(), rule.to_string()))
            .collect()
    }

    /// Removes one name; an error when it does not exist.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        let parent = path
            .parent()
            .and_then(|parent| parent.strip_prefix(&self.workspace).ok());
        let parent = match parent {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let workspace = open_name(&self.workspace)?;
        // The command could have replaced any directory by a link to somewhere else; what is removed
        // here is removed with the launcher's rights, so no link is followed.
        let parent = CString::new(parent.as_os_str().as_bytes())?;
        let parent = files::open(
            Some(workspace.as_fd()),
            &parent,
            libc::O_PATH | libc::O_DIRECTORY,
            Resolve::Beneath,
        )?;
        let entry = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name);
        if fs::symlink_metadata(&entry)?.is_dir() {
            fs::remove_dir_all(&entry)
        } else {
            fs::remove_file(&entry)
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(sprung[0].1, "t.toml:3");
        assert!(!dir.join(".git/hooks").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_parent_that_became_a_link_is_not_followed() {
        let (dir, outside) = (scratch("link"), scratch("outside"));
        fs::create_dir_all(outside.join("hooks")).unwrap();
        fs::remove_dir(dir.join(".git")).unwrap();
        std::os::unix::fs::symlink(&outside, dir.join(".git")).unwrap();
        assert_eq!(wires(&dir).spring(), []);
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
