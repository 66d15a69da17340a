//! Taking whole subtrees of control groups away, with everything that still runs in them: what launchers
//! that were killed left behind, and what this one leaves at its end.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use super::knob;
use crate::{
    claim::{self, Maker},
    sys::wait,
};

/// Rounds of killing and removing, and the pause between two: 2 s together.
const ROUNDS: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);
/// Rounds of removing a group that nobody uses any more.
const LINGER_ROUNDS: u32 = 40;
/// Processes that are held by a descriptor at the same time.
const HELD_AT_ONCE: usize = 32;

/// Kills every process below the roots and removes them. Waits for up to two seconds. Processes that
/// are stuck in the kernel keep their groups; these are found by the next launcher.
pub(crate) fn remove_all(roots: &[PathBuf]) {
    for _ in 0..ROUNDS {
        kill_all(roots);
        let mut left = false;
        for root in roots {
            left |= remove_tree(root).is_err();
        }
        if !left {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The same groups stand in several hierarchies; one that kills at once is enough.
fn kill_all(roots: &[PathBuf]) {
    let mut killed = false;
    for root in roots {
        killed |= knob::write(root, "cgroup.kill", "1").is_ok();
    }
    if !killed {
        for root in roots {
            kill_each(root);
        }
    }
}

/// Kills the processes of a group and of those below it one by one. Where they can be frozen the kernel begins
/// to, so that few fork meanwhile; the killing is repeated until nobody is left.
pub(super) fn kill_each(group: &Path) {
    for below in children(group).unwrap_or_default() {
        kill_each(&below);
    }
    let state = |value: &str| knob::write(group, "freezer.state", value);
    let freezing = state("FROZEN").is_ok();
    kill_members(|| knob::processes(group).unwrap_or_default());
    if freezing && let Err(error) = state("THAWED") {
        crate::launcher::complain(format_args!("thawing {}: {error}", group.display()));
    }
}

/// Kills whoever is a member. By the time that a pid is used it may be another process's: each is held by a
/// descriptor first, and killed only if the pid is a member's still.
fn kill_members(members: impl Fn() -> Vec<i32>) {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let all = members();
    for some in all.chunks(HELD_AT_ONCE) {
        let held: Vec<(i32, OwnedFd)> = some
            .iter()
            .filter(|pid| **pid > 1 && **pid != own)
            // One that has ended, or no room for a descriptor: then the next round.
            .filter_map(|pid| Some((*pid, wait::open_pidfd(*pid).ok()?)))
            .collect();
        // ORDER: after they are held, or it would say nothing about the process that is.
        let still = members();
        for (pid, process) in held {
            if still.contains(&pid) {
                // ESRCH only says that it has ended by itself.
                wait::signal_pidfd(process.as_fd(), libc::SIGKILL).unwrap_or_default();
            }
        }
    }
}

/// Removes a group and those below it. One that is gone already is removed.
pub(super) fn remove_tree(group: &Path) -> io::Result<()> {
    match children(group) {
        Ok(below) => {
            for child in below {
                remove_tree(&child)?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    remove_one(group)
}

/// Removes one group without groups below it.
pub(super) fn remove_one(group: &Path) -> io::Result<()> {
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn children(group: &Path) -> io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push(entry.path());
        }
    }
    Ok(below)
}

/// Name of this launcher's groups: its pid, and the pid namespace in which that means something.
pub(super) fn own_name() -> String {
    name_of(std::process::id(), claim::pid_namespace())
}

fn name_of(pid: u32, namespace: u64) -> String {
    format!("agentd-{pid}-{namespace}")
}

/// Removes the groups of launchers that are gone, below `parent`. A launcher that lives holds a lock on its
/// group, in whatever pid namespace it is. What still runs in the group of one that is gone is killed only
/// where its pid could be checked too.
pub(super) fn remove_stale(parent: &Path) {
    let namespace = claim::pid_namespace();
    let (mut dead, mut claims) = (Vec::new(), Vec::new());
    for group in children(parent).unwrap_or_default() {
        let name = group.file_name().unwrap_or_default().to_string_lossy();
        let Some((pid, of)) = parse(&name) else {
            continue;
        };
        let is_dead = of == namespace && !is_another(pid);
        match claim::maker_of(&group) {
            Maker::Gone(claim) if is_dead => {
                dead.push(group);
                claims.push(claim);
            }
            // Groups with processes stay.
            Maker::Gone(_claim) => remove_unless_used(&group),
            Maker::Unknown if is_dead => dead.push(group),
            Maker::Unknown | Maker::Alive => {}
        }
    }
    if !dead.is_empty() {
        remove_all(&dead);
    }
}

/// Removes groups of another pid namespace. The kernel lets go of the last process of a group a moment after its
/// end.
fn remove_unless_used(group: &Path) {
    for _ in 0..LINGER_ROUNDS {
        if remove_tree(group).is_ok() || is_used(group) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_used(group: &Path) -> bool {
    let below = children(group).unwrap_or_default();
    !knob::processes(group).unwrap_or_default().is_empty()
        || below.iter().any(|group| is_used(group))
}

/// Whether a process of this pid is there. This one is not meant: a group of its name was another's, whose
/// pid came back.
fn is_another(pid: u32) -> bool {
    pid != std::process::id() && Path::new("/proc").join(pid.to_string()).exists()
}

/// The pid and the pid namespace in the name of a launcher's group.
fn parse(name: &str) -> Option<(u32, u64)> {
    let (pid, namespace) = name.strip_prefix("agentd-")?.split_once('-')?;
    Some((pid.parse().ok()?, namespace.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, process::Command};

    use super::*;
    use crate::claim::Claim;

    /// Above the largest pid of any kernel.
    const NOBODY: u32 = 4_194_305;

    #[test]
    fn only_groups_of_launchers_that_are_gone_are_removed() {
        let here = claim::pid_namespace();
        assert_ne!(here, 0);
        let parent = std::env::temp_dir().join(format!("groups-{}", std::process::id()));
        for (name, claimed, stays) in [
            (name_of(NOBODY, here), false, false),
            (name_of(NOBODY, here), true, true),
            (name_of(NOBODY, 1), false, false),
            (name_of(NOBODY, 1), true, true),
            // The pid came back.
            (name_of(1, here), false, false),
            (name_of(1, here), true, true),
            (own_name(), false, false),
            (own_name(), true, true),
            (name_of(NOBODY, 0), false, false),
            (format!("agentd-x-{here}"), false, true),
            (format!("agentd-{NOBODY}"), false, true),
            (format!("agentd-{NOBODY}-x"), false, true),
            (format!("other-{NOBODY}-{here}"), false, true),
        ] {
            let group = parent.join(&name);
            fs::create_dir_all(&parent).unwrap();
            let claim = Claim::make(&group).unwrap();
            fs::create_dir_all(group.join("7/deep")).unwrap();
            let claim = claimed.then_some(claim);
            remove_stale(&parent);
            assert_eq!(group.exists(), stays, "{name} {claimed}");
            assert_eq!(group.join("7/deep").exists(), stays, "{name} {claimed}");
            drop(claim);
            fs::remove_dir_all(&parent).unwrap();
        }
    }

    #[test]
    fn only_who_is_a_member_still_is_killed() {
        for (still, killed) in [(true, true), (false, false)] {
            #[expect(clippy::disallowed_methods, reason = "a test")]
            let mut command = Command::new("sleep");
            let mut process = command.arg("300").spawn().unwrap();
            let pid = i32::try_from(process.id()).unwrap();
            let reads = Cell::new(0);
            kill_members(|| {
                reads.set(reads.get() + 1);
                // Nobody, this process and init are never killed.
                let all = vec![
                    4_194_305,
                    i32::try_from(std::process::id()).unwrap(),
                    1,
                    pid,
                ];
                if still || reads.get() == 1 {
                    all
                } else {
                    vec![1]
                }
            });
            // What lives is ended by a signal that has another name.
            wait::signal_pid(pid, libc::SIGTERM).unwrap_or_default();
            let status = process.wait().unwrap();
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            let expected = if killed { libc::SIGKILL } else { libc::SIGTERM };
            assert_eq!(signal, Some(expected), "still a member: {still}");
        }
    }

    #[test]
    fn a_group_of_another_pid_namespace_that_is_in_use_stays() {
        let parent = std::env::temp_dir().join(format!("busy-{}", std::process::id()));
        let group = parent.join(name_of(1, 1));
        fs::create_dir_all(group.join("1")).unwrap();
        // Stands for a process: the directory cannot be removed.
        fs::write(group.join("1/file"), "").unwrap();
        remove_stale(&parent);
        assert!(group.join("1").exists());
        fs::remove_dir_all(&parent).unwrap();
    }
}
