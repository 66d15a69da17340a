//! Which directories can be a workspace, and which a working directory. The workspace is the one thing a
//! request chooses, so it must not be able to name anything that matters to others.

use std::path::{Path, PathBuf};

use super::{Exposure, FsPolicy, HostFacts, Refusal, resolve::is_normalised};
use crate::profile::Profile;

/// Directories that belong to the system, with everything below them.
const SYSTEM: [&str; 15] = [
    "/bin", "/boot", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix",
    "/proc", "/run", "/sbin", "/sys", "/usr",
];
/// Directories that others share; a directory below them can be a workspace.
const SHARED: [&str; 11] = [
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/snap",
    "/srv",
    "/tmp",
    "/var/tmp",
    "/var/lib",
    "/lost+found",
];

/// Refuses what cannot be a workspace. `subject_uid` is the user who must own it.
pub(super) fn check(
    path: &Path,
    home: &Path,
    subject_uid: u32,
    facts: &HostFacts,
) -> Result<(), Refusal> {
    match objection(path, home, subject_uid, facts) {
        Some(reason) => Err(Refusal::BadWorkspace {
            path: path.to_path_buf(),
            reason,
        }),
        None => Ok(()),
    }
}

fn objection(path: &Path, home: &Path, subject_uid: u32, facts: &HostFacts) -> Option<String> {
    let text = |reason: &str| Some(reason.to_owned());
    if path.to_str().is_none() {
        return text("its name is not UTF-8; rename it");
    }
    if !is_normalised(path) {
        return text(
            "it is not an absolute path without `.`, `..` and doubled slashes; resolve it",
        );
    }
    if path == Path::new("/") {
        return text("it is the whole file system; use a project directory");
    }
    if path == home {
        return text("it is your home directory; use a project directory below it");
    }
    if home.starts_with(path) {
        return text("it contains your home directory; use a project directory");
    }
    if SYSTEM.iter().any(|system| path.starts_with(system)) {
        return text("it belongs to the system; use a project directory");
    }
    if SHARED.iter().any(|shared| path == Path::new(shared)) {
        return text("it is shared with others; use a project directory below it");
    }
    let below_home = path.starts_with(home);
    if path.starts_with("/var") && !path.starts_with("/var/tmp") && !below_home {
        return text("it belongs to the system; use a project directory");
    }
    let touches = |state: &PathBuf| state.starts_with(path) || path.starts_with(state);
    if let Some(state) = facts.state_dirs.iter().find(|state| touches(state)) {
        let state = state.display();
        return Some(format!(
            "it touches agentd's own directory {state}; use another directory"
        ));
    }
    if subject_uid != 0 && facts.workspace_uid != subject_uid {
        return Some(format!(
            "it belongs to uid {}, you are uid {subject_uid}; use a directory of your own",
            facts.workspace_uid
        ));
    }
    None
}

/// Refuses a working directory that the policy does not let the command read.
pub(super) fn check_cwd(cwd: &Path, fs: &FsPolicy, profile: &Profile) -> Result<(), Refusal> {
    let readable = is_normalised(cwd)
        && match fs.deciding(cwd).map(|rule| rule.exposure) {
            Some(Exposure::Read | Exposure::Write | Exposure::Readonly) => true,
            Some(Exposure::Deny) | None => false,
        };
    if readable {
        return Ok(());
    }
    Err(Refusal::BadCwd {
        path: cwd.to_path_buf(),
        profile: profile.name.clone(),
    })
}
