//! Directories of commands and sessions on the host, and what launchers before this one left of them: a
//! launcher that is killed cannot clean up. Its janitor does; this is for the case that the janitor was
//! killed too. Directories of commands exist on the nested tier only; elsewhere they end with their mount
//! namespace.
//!
//! A name holds the launcher's pid and the pid namespace in which that means something, since `/tmp` is often
//! shared between namespaces. Whether the launcher lives is told by its lock.

use std::{
    fs, io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::removal::{self, Allowance};
use crate::{
    claim::{self, Claim, Maker},
    launch::open_name,
};

/// Where private directories are made.
pub(crate) const PARENT: &str = "/tmp";

/// Names tried before giving up: anybody may make directories in the shared parent.
const TRIES: u64 = 16;
/// Distance between the names tried, far above any number of executions.
const STRIDE: u64 = 1 << 48;

/// A launcher in the pid namespace of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Launcher {
    pid: u32,
    namespace: u64,
}

/// A directory that this launcher made, and the sign that it lives.
#[derive(Debug)]
pub(crate) struct OwnDir {
    path: PathBuf,
    _claim: Claim,
}

impl OwnDir {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it.
    pub(super) fn make(path: PathBuf) -> io::Result<Self> {
        let claim = Claim::make(&path)?;
        Ok(Self {
            path,
            _claim: claim,
        })
    }

    /// Removes it, whatever a command made of it; `WouldBlock` when that is more than `allowance` permits.
    pub(crate) fn remove(&self, allowance: &Allowance) -> io::Result<()> {
        remove(&self.path, allowance)
    }
}

/// Makes the private directory of an execution. Its name says whose it is.
pub(crate) fn make_private_dir(launcher: u32, exec: u64) -> io::Result<OwnDir> {
    make(&prefix(launcher), exec)
}

/// Makes the directory of a session. Its name says whose it is.
pub(crate) fn make_session_dir(launcher: u32, session: u64) -> io::Result<OwnDir> {
    make(&format!("{}s", prefix(launcher)), session)
}

/// How the names of all directories of a launcher of this pid namespace begin.
fn prefix(launcher: u32) -> String {
    format!("agentd-{launcher}-{}-", claim::pid_namespace())
}

fn make(prefix: &str, number: u64) -> io::Result<OwnDir> {
    let mut result = Err(io::ErrorKind::AlreadyExists.into());
    for attempt in 0..TRIES {
        let number = number.wrapping_add(attempt.wrapping_mul(STRIDE));
        let path = Path::new(PARENT).join(format!("{prefix}{number}"));
        result = OwnDir::make(path);
        match &result {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(_) | Err(_) => break,
        }
    }
    result
}

fn remove(directory: &Path, allowance: &Allowance) -> io::Result<()> {
    let parent = open_name(directory.parent().unwrap_or_else(|| Path::new(PARENT)))?;
    let name = directory.file_name().unwrap_or_default();
    removal::remove(parent.as_fd(), name, allowance)
}

/// The directories of this user's launchers that are gone, claimed.
pub(crate) fn left_behind(parent: &Path, uid: u32) -> io::Result<Vec<OwnDir>> {
    let here = claim::pid_namespace();
    // Without `/proc`, which has no namespace to tell either, every launcher seems to be gone.
    let gone = |launcher: Launcher| {
        here != 0
            && launcher.namespace == here
            && !Path::new("/proc").join(launcher.pid.to_string()).exists()
    };
    let mut left = Vec::new();
    for (launcher, path) in all(parent, uid)? {
        let claim = match claim::maker_of(&path) {
            Maker::Gone(claim) => claim,
            // A closed directory on a file system without locks: all there is to go by is the pid.
            Maker::Unknown if gone(launcher) => Claim::default(),
            Maker::Alive | Maker::Unknown => continue,
        };
        left.push(OwnDir {
            path,
            _claim: claim,
        });
    }
    Ok(left)
}

/// Removes the directories of one launcher of this pid namespace that is gone. Goes on after an error and
/// returns the first: `WouldBlock` while somebody who lives has one of them, such as a process that was forked
/// in the moment of the launcher's death.
pub(crate) fn remove_all_of(launcher: u32, uid: u32) -> io::Result<()> {
    let launcher = Launcher {
        pid: launcher,
        namespace: claim::pid_namespace(),
    };
    let mut result = Ok(());
    for (other, path) in all(Path::new(PARENT), uid)? {
        if other != launcher {
            continue;
        }
        let removed = match claim::maker_of(&path) {
            // ORDER: the claim is held until it is gone, so that nobody else takes it away at the same time.
            Maker::Gone(_claim) => remove(&path, &Allowance::unlimited()),
            Maker::Unknown => remove(&path, &Allowance::unlimited()),
            Maker::Alive => Err(io::ErrorKind::WouldBlock.into()),
        };
        result = result.and(removed);
    }
    result
}

/// A user's directories of all launchers.
fn all(parent: &Path, uid: u32) -> io::Result<Vec<(Launcher, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(launcher) = name.to_str().and_then(launcher_of) else {
            continue;
        };
        // Not following links: somebody else may have made one of this name in a shared directory.
        let ours = entry
            .metadata()
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
        if ours {
            found.push((launcher, entry.path()));
        }
    }
    Ok(found)
}

/// Whose a directory is, by its name.
fn launcher_of(name: &str) -> Option<Launcher> {
    let (pid, rest) = name.strip_prefix("agentd-")?.split_once('-')?;
    let (namespace, owner) = rest.split_once('-')?;
    let number = owner.strip_prefix('s').unwrap_or(owner);
    number.parse::<u64>().ok()?;
    Some(Launcher {
        pid: pid.parse().ok()?,
        namespace: namespace.parse().ok()?,
    })
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
        let here = claim::pid_namespace();
        assert_ne!(here, 0);
        let parent = std::env::temp_dir().join(format!("stale-{own}"));
        let names = [
            (format!("agentd-{NOBODY}-{here}-1"), false),
            (
                format!("agentd-{NOBODY}-{here}-s18446744073709551615"),
                false,
            ),
            // The pid came back.
            (format!("agentd-{own}-{here}-s1"), false),
            (format!("agentd-{own}-{here}-1"), false),
            // Of another pid namespace.
            (format!("agentd-{own}-{}-1", here.wrapping_add(1)), false),
            (
                format!("agentd-{NOBODY}-{}-s1", here.wrapping_sub(1)),
                false,
            ),
            (format!("agentd-{NOBODY}-{here}-ss1"), true),
            (format!("agentd-{NOBODY}-1"), true),
            (format!("agentd-{NOBODY}-s1"), true),
            (format!("agentd-demo-{NOBODY}"), true),
            (format!("agentd-{NOBODY}-{here}-x"), true),
            (format!("other-{NOBODY}-{here}-1"), true),
        ];
        for (name, _) in &names {
            fs::create_dir_all(parent.join(name).join("deep/er")).unwrap();
        }
        // Those of launchers that live, wherever their pids mean something.
        let living = [(own, here), (NOBODY, here), (NOBODY, here.wrapping_add(1))]
            .map(|(pid, namespace)| parent.join(format!("agentd-{pid}-{namespace}-7")));
        let claims = living.each_ref().map(|path| Claim::make(path).unwrap());
        let closed = parent.join(&names[0].0).join("deep");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        let parent = parent.canonicalize().unwrap();
        let uid = fs::metadata(&parent).unwrap().uid();
        let of_another = left_behind(&parent, uid.wrapping_add(1)).unwrap();
        assert!(of_another.is_empty(), "they belong to this user");
        let remove_all = || {
            for directory in left_behind(&parent, uid).unwrap() {
                directory.remove(&Allowance::unlimited()).unwrap();
            }
        };
        remove_all();
        for (name, stays) in &names {
            assert_eq!(parent.join(name).exists(), *stays, "{name}");
        }
        assert!(living.iter().all(|path| path.exists()));
        drop(claims);
        remove_all();
        assert!(!living.iter().any(|path| path.exists()));
        fs::remove_dir_all(parent).unwrap();
    }
}
