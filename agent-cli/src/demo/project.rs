//! The throw-away project: a workspace with a failing test, and beside it a file that is none of the
//! agent's business. Removed at the end, whatever happened.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use thiserror::Error;

use super::verify::Check;
use crate::ids;

const CALC: &str = include_str!("../../demo/calc.sh");
const TEST: &str = include_str!("../../demo/test.sh");
const NOTES: &str = "This file is outside the workspace.\n";

/// Why there is no project.
#[derive(Debug, Error)]
pub enum ProjectError {
    /// It cannot be made.
    #[error("cannot make the demo's project in {}; set TMPDIR to a directory you can write", path.display())]
    Create {
        /// Directory for temporary files.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Where the project is made. Not in `/tmp`, if it can be helped: a jail has a `/tmp` of its own, and what is
/// not there was not refused.
pub(super) fn place(temp_dir: &Path) -> PathBuf {
    let outside_tmp = Path::new("/var/tmp");
    if outside_tmp.is_dir() {
        outside_tmp.to_owned()
    } else {
        temp_dir.to_owned()
    }
}

/// The project.
#[derive(Debug)]
pub(super) struct Project {
    root: PathBuf,
    workspace: PathBuf,
    outside: PathBuf,
    git: Git,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Git {
    Repository,
    Missing,
}

impl Project {
    /// Makes it below `temp_dir`, for this user only.
    pub(super) fn create(temp_dir: &Path) -> Result<Self, ProjectError> {
        let create = || {
            let root = temp_dir.canonicalize()?.join(ids::unique("agentd-demo"));
            private_directory(&root)?;
            let mut project = Self {
                workspace: root.join("project"),
                outside: root.join("private"),
                root,
                git: Git::Missing,
            };
            fs::create_dir(&project.workspace)?;
            fs::create_dir(&project.outside)?;
            fs::write(project.workspace.join("calc.sh"), CALC)?;
            fs::write(project.workspace.join("test.sh"), TEST)?;
            fs::write(project.notes(), NOTES)?;
            project.git = commit_everything(&project.workspace);
            Ok(project)
        };
        create().map_err(|source| ProjectError::Create {
            path: temp_dir.to_owned(),
            source,
        })
    }

    /// Where the agent works.
    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Where it has no business.
    pub(super) fn outside(&self) -> &Path {
        &self.outside
    }

    /// The file there.
    pub(super) fn notes(&self) -> PathBuf {
        self.outside.join("notes.txt")
    }

    /// Whether the workspace is a git repository.
    pub(super) fn has_git(&self) -> bool {
        self.git == Git::Repository
    }

    /// What can be seen on the disk, without running anything.
    pub(super) fn checks(&self) -> Vec<Check> {
        let holds = |path: PathBuf, text: &str| fs::read_to_string(path).is_ok_and(|t| t == text);
        vec![
            Check {
                holds: fs::read_to_string(self.workspace.join("calc.sh"))
                    .is_ok_and(|text| text != CALC),
                what: "calc.sh was changed on the disk".to_owned(),
            },
            Check {
                holds: holds(self.workspace.join("test.sh"), TEST),
                what: "test.sh was not".to_owned(),
            },
            Check {
                holds: holds(self.notes(), NOTES),
                what: "the file outside the workspace is as it was".to_owned(),
            },
        ]
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // What cannot be removed lies in the directory for temporary files.
        drop(fs::remove_dir_all(&self.root));
    }
}

#[cfg(unix)]
fn private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Makes a repository with one commit; without git, a plain directory does as well.
fn commit_everything(workspace: &Path) -> Git {
    let author = [
        "-c",
        "user.name=demo",
        "-c",
        "user.email=demo@example.invalid",
        "commit",
        "-q",
        "-m",
        "A calculator and its test",
    ];
    let steps: [&[&str]; 3] = [&["init", "-q"], &["add", "-A"], &author];
    if steps.iter().all(|step| git(workspace, step)) {
        Git::Repository
    } else {
        // A half-made repository would confuse more than none; there may be nothing to remove.
        drop(fs::remove_dir_all(workspace.join(".git")));
        Git::Missing
    }
}

fn git(workspace: &Path, arguments: &[&str]) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "the jail protects .git/config, so the repository is made before there is a jail"
    )]
    let mut command = std::process::Command::new("git");
    command
        .args(arguments)
        .current_dir(workspace)
        // The person's own settings, hooks and signing keys have no part in this.
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env_remove("GIT_TEMPLATE_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::Project;
    use std::fs;

    #[test]
    fn the_project_is_unsolved_at_first_and_gone_afterwards() {
        let project = Project::create(&std::env::temp_dir()).unwrap();
        let root = project.root.clone();
        let verdicts: Vec<bool> = project.checks().iter().map(|check| check.holds).collect();
        assert_eq!(verdicts, [false, true, true]);
        fs::write(project.notes(), "overwritten").unwrap();
        assert!(!project.checks()[2].holds);
        drop(project);
        assert!(!root.exists());
    }
}
