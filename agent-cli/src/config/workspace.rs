//! The workspace: where commands may work. Resolved here, because only a local daemon sees the same paths.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Why a directory cannot be the workspace.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// It cannot be reached.
    #[error("workspace {} cannot be used; name an existing directory with --workspace", path.display())]
    Resolve {
        /// As asked for.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// It is a file.
    #[error("workspace {} is not a directory; name one with --workspace", .0.display())]
    NotADirectory(PathBuf),
}

/// The workspace without symbolic links: the one asked for, or the working directory.
///
/// # Errors
/// It does not exist, cannot be reached, or is not a directory.
pub fn workspace(asked: Option<&Path>, current_dir: &Path) -> Result<PathBuf, WorkspaceError> {
    let path = asked.map_or_else(|| current_dir.to_owned(), |asked| current_dir.join(asked));
    let resolved = path
        .canonicalize()
        .map_err(|source| WorkspaceError::Resolve {
            path: path.clone(),
            source,
        })?;
    if resolved.is_dir() {
        Ok(resolved)
    } else {
        Err(WorkspaceError::NotADirectory(resolved))
    }
}

/// The directory to start in: the current one if it is part of the workspace, else the workspace; a
/// directory that was asked for is taken from there.
#[must_use]
pub fn start_directory(asked: Option<&Path>, current: &Path, workspace: &Path) -> PathBuf {
    let current = current.canonicalize().unwrap_or_default();
    let base = if current.starts_with(workspace) {
        &current
    } else {
        workspace
    };
    match asked {
        Some(directory) => base.join(directory),
        None => base.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{WorkspaceError, start_directory, workspace};
    use std::path::Path;

    #[test]
    fn a_workspace_is_an_existing_directory_and_relative_ones_start_here() {
        let here = Path::new("/");
        assert!(matches!(workspace(None, here), Ok(path) if path == here));
        assert!(matches!(
            workspace(Some(Path::new("no-such-place")), here),
            Err(WorkspaceError::Resolve { .. })
        ));
        let file = std::env::current_exe().unwrap();
        assert!(matches!(
            workspace(Some(&file), here),
            Err(WorkspaceError::NotADirectory(_))
        ));
    }

    #[test]
    fn commands_start_where_the_person_is_if_that_is_in_the_workspace() {
        let tmp = std::env::temp_dir().canonicalize().unwrap();
        let root = Path::new("/");
        for (asked, current, workspace, expected) in [
            (None, tmp.as_path(), root, tmp.clone()),
            (None, root, tmp.as_path(), tmp.clone()),
            (Some("sub"), tmp.as_path(), root, tmp.join("sub")),
            (Some("sub"), root, tmp.as_path(), tmp.join("sub")),
            (Some("/etc"), root, tmp.as_path(), "/etc".into()),
        ] {
            assert_eq!(
                start_directory(asked.map(Path::new), current, workspace),
                expected
            );
        }
    }
}
