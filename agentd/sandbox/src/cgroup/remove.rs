//! Taking whole subtrees of control groups away, with everything that still runs in them: what launchers
//! that were killed left behind, and what this one leaves at its end.

use std::{fs, io, path::Path, path::PathBuf, time::Duration};

use super::knob;
use crate::sys::wait;

/// Rounds of killing and removing, and the pause between two: 2 s together.
const ROUNDS: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

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

/// Kills the processes of a group and of those below it one by one. Where they can be frozen they are,
/// so that none forks meanwhile and no pid is given to another process.
pub(super) fn kill_each(group: &Path) {
    for below in children(group).unwrap_or_default() {
        kill_each(&below);
    }
    let state = |value: &str| knob::write(group, "freezer.state", value);
    // No freezer here: the killing is repeated until nobody is left.
    let frozen = state("FROZEN").is_ok();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    for pid in knob::processes(group).unwrap_or_default() {
        if pid > 1 && pid != own {
            // ESRCH only says that it has ended by itself.
            wait::signal_pid(pid, libc::SIGKILL).unwrap_or_default();
        }
    }
    if frozen && let Err(error) = state("THAWED") {
        crate::launcher::complain(format_args!("thawing {}: {error}", group.display()));
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
    name_of(std::process::id(), &pid_namespace())
}

fn name_of(pid: u32, namespace: &str) -> String {
    format!("agentd-{pid}-{namespace}")
}

/// The number of the pid namespace; empty when `/proc` does not tell it.
fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = link.to_string_lossy();
    text.chars().filter(char::is_ascii_digit).collect()
}

/// Removes the groups of launchers of this pid namespace that are gone, below `parent`. Also one with
/// this launcher's own name, which can only be another's whose pid came back.
pub(super) fn remove_stale(parent: &Path) {
    let namespace = pid_namespace();
    let own = own_name();
    let stale: Vec<PathBuf> = children(parent)
        .unwrap_or_default()
        .into_iter()
        .filter(|group| {
            let name = group.file_name().unwrap_or_default().to_string_lossy();
            name == own.as_str() || is_stale(&name, &namespace)
        })
        .collect();
    if !stale.is_empty() {
        remove_all(&stale);
    }
}

fn is_stale(name: &str, namespace: &str) -> bool {
    let pid = name
        .strip_prefix("agentd-")
        .and_then(|rest| rest.strip_suffix(namespace))
        .and_then(|rest| rest.strip_suffix('-'))
        .and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_launchers_of_this_namespace_that_are_gone_are_stale() {
        let namespace = pid_namespace();
        assert!(!namespace.is_empty());
        // Above the largest pid of any kernel.
        let nobody = 4_194_305;
        for (name, stale) in [
            (name_of(nobody, &namespace), true),
            (own_name(), false),
            (name_of(1, &namespace), false),
            (name_of(nobody, "1"), false),
            (format!("agentd-x-{namespace}"), false),
            (format!("agentd-{nobody}"), false),
            (format!("other-{nobody}-{namespace}"), false),
        ] {
            assert_eq!(is_stale(&name, &namespace), stale, "{name}");
        }
    }
}
