//! Directories of commands and sessions on the host, and what launchers before this one left of them: a
//! launcher that is killed cannot clean up. Its janitor does; this is for the case that the janitor was
//! killed too. Directories of commands exist on the nested tier only; elsewhere they end with their mount
//! namespace.
//!
//! A name holds the launcher's pid and the pid namespace in which that means something: `/tmp` is often shared
//! between namespaces, and whoever sees no process of that number in its own knows nothing about others.

use std::{
    fs::{self, DirBuilder},
    io,
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use super::removal::{self, Allowance};
use crate::launch::open_name;

/// Where private directories are made.
pub(crate) const PARENT: &str = "/tmp";

/// Names tried before giving up: anybody may make directories in the shared parent.
const TRIES: u64 = 16;
/// Distance between the names tried, far above any number of executions.
const STRIDE: u64 = 1 << 48;

/// Makes the private directory of an execution. Its name says whose it is.
pub(crate) fn make_private_dir(launcher: u32, exec: u64) -> io::Result<PathBuf> {
    make(&prefix(launcher), exec)
}

/// Makes the directory of a session. Its name says whose it is.
pub(crate) fn make_session_dir(launcher: u32, session: u64) -> io::Result<PathBuf> {
    make(&format!("{}s", prefix(launcher)), session)
}

/// How the names of all directories of a launcher of this pid namespace begin.
fn prefix(launcher: u32) -> String {
    format!("agentd-{launcher}-{}-", pid_namespace())
}

/// The number of the pid namespace; 0, which is none, when `/proc` does not tell it.
pub(crate) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

fn make(prefix: &str, number: u64) -> io::Result<PathBuf> {
    let mut result = Err(io::ErrorKind::AlreadyExists.into());
    for attempt in 0..TRIES {
        let number = number.wrapping_add(attempt.wrapping_mul(STRIDE));
        let path = Path::new(PARENT).join(format!("{prefix}{number}"));
        result = DirBuilder::new().mode(0o700).create(&path).map(|()| path);
        match &result {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(_) | Err(_) => break,
        }
    }
    result
}

/// Removes a private directory, whatever its command made of it; `WouldBlock` when that is more than
/// `allowance` permits.
pub(crate) fn remove(directory: &Path, allowance: &Allowance) -> io::Result<()> {
    let parent = open_name(directory.parent().unwrap_or_else(|| Path::new(PARENT)))?;
    let name = directory.file_name().unwrap_or_default();
    removal::remove(parent.as_fd(), name, allowance)
}

/// The directories of this user's launchers that are gone.
pub(crate) fn left_behind(parent: &Path, uid: u32) -> io::Result<Vec<PathBuf>> {
    // Without `/proc` every launcher seems to be gone.
    if pid_namespace() == 0 {
        return Ok(Vec::new());
    }
    let gone = |launcher: u32| !Path::new("/proc").join(launcher.to_string()).exists();
    those(parent, uid, gone)
}

/// Removes the directories of one launcher of this pid namespace. Goes on after an error and returns the
/// first.
pub(crate) fn remove_all_of(launcher: u32, uid: u32) -> io::Result<()> {
    let mut result = Ok(());
    for directory in those(Path::new(PARENT), uid, |other| other == launcher)? {
        let removed = remove(&directory, &Allowance::unlimited());
        result = result.and(removed);
    }
    result
}

/// A user's directories of launchers of this pid namespace.
fn those(parent: &Path, uid: u32, which: impl Fn(u32) -> bool) -> io::Result<Vec<PathBuf>> {
    let namespace = pid_namespace();
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((launcher, of)) = name.to_str().and_then(launcher_of) else {
            continue;
        };
        // Not following links: somebody else may have made one of this name in a shared directory.
        let ours = || {
            entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
        };
        if of == namespace && which(launcher) && ours() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The pid in the name of a directory, and its namespace.
fn launcher_of(name: &str) -> Option<(u32, u64)> {
    let (launcher, rest) = name.strip_prefix("agentd-")?.split_once('-')?;
    let (namespace, owner) = rest.split_once('-')?;
    let number = owner.strip_prefix('s').unwrap_or(owner);
    number.parse::<u64>().ok()?;
    Some((launcher.parse().ok()?, namespace.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Above the largest pid of any kernel.
    const NOBODY: u32 = 4_194_305;

    #[test]
    fn only_directories_of_launchers_that_are_gone_are_removed() {
        let own = std::process::id();
        let here = pid_namespace();
        assert_ne!(here, 0);
        let parent = std::env::temp_dir().join(format!("stale-{own}"));
        let names = [
            (format!("agentd-{NOBODY}-{here}-1"), false),
            (
                format!("agentd-{NOBODY}-{here}-s18446744073709551615"),
                false,
            ),
            (format!("agentd-{own}-{here}-s1"), true),
            (format!("agentd-{NOBODY}-{here}-ss1"), true),
            (format!("agentd-{own}-{here}-1"), true),
            // A launcher of another pid namespace, which may well be there.
            (format!("agentd-{NOBODY}-{}-1", here.wrapping_add(1)), true),
            (format!("agentd-{NOBODY}-{}-s1", here.wrapping_sub(1)), true),
            (format!("agentd-{NOBODY}-1"), true),
            (format!("agentd-{NOBODY}-s1"), true),
            (format!("agentd-demo-{NOBODY}"), true),
            (format!("agentd-{NOBODY}-{here}-x"), true),
            (format!("other-{NOBODY}-{here}-1"), true),
        ];
        for (name, _) in &names {
            fs::create_dir_all(parent.join(name).join("deep/er")).unwrap();
        }
        let closed = parent.join(&names[0].0).join("deep");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        let parent = parent.canonicalize().unwrap();
        let uid = fs::metadata(&parent).unwrap().uid();
        let of_another = left_behind(&parent, uid.wrapping_add(1)).unwrap();
        assert!(of_another.is_empty(), "they belong to this user");
        for directory in left_behind(&parent, uid).unwrap() {
            remove(&directory, &Allowance::unlimited()).unwrap();
        }
        for (name, stays) in &names {
            assert_eq!(parent.join(name).exists(), *stays, "{name}");
        }
        fs::remove_dir_all(parent).unwrap();
    }
}
