//! What a daemon can leave behind: processes, zombies, cgroups, mounts, files. Looked for from outside, by
//! the daemon's own marks, so that other daemons on the machine do not disturb.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::{
    sys::{
        prctl,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::{
    survivors::{children_of, state_of},
    world::World,
};

/// Makes this process the parent of everything that loses its own below it: what a killed daemon leaves
/// cannot get lost on the machine.
pub fn adopt_orphans() {
    prctl::set_child_subreaper(true).expect("a subreaper");
}

/// Reaps adopted processes that have ended. Children that the test itself started are not touched.
pub fn bury_orphans(own: &[i32]) {
    for child in children_of(std::process::id().cast_signed()) {
        if state_of(child.pid) == Some('Z') && !own.contains(&child.pid) {
            let ended = waitpid(Pid::from_raw(child.pid), Some(WaitPidFlag::WNOHANG));
            assert!(!matches!(ended, Ok(WaitStatus::StillAlive)), "{child:?}");
        }
    }
}

/// Everything of one launcher and world that should be gone, each as a line.
///
/// `alive` are processes that may be there: the daemon's own, when it still runs.
pub fn residue(world: &World, launcher: i32, alive: &[i32]) -> Vec<String> {
    let mut found = Vec::new();
    for process in world.everything() {
        if !alive.contains(&process.pid) {
            found.push(format!("process {process:?}"));
        }
    }
    for parent in alive {
        for child in children_of(*parent) {
            if state_of(child.pid) == Some('Z') {
                found.push(format!("zombie {child:?} of {parent}"));
            }
        }
    }
    let name = format!("agentd-{launcher}");
    for directory in cgroups_named(&name) {
        found.push(format!("cgroup {}", directory.display()));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    for line in mounts.lines() {
        if line.contains(&world.mark) || line.contains(&name) {
            found.push(format!("mount {line}"));
        }
    }
    for entry in fs::read_dir("/tmp").expect("/tmp").flatten() {
        if is_of(&name, &entry.file_name().to_string_lossy()) {
            found.push(format!("file {}", entry.path().display()));
        }
    }
    found
}

/// Processes that are in cgroups of one launcher's executions.
pub fn members_of_cgroups(launcher: i32) -> Vec<String> {
    let mut members = Vec::new();
    for directory in cgroups_named(&format!("agentd-{launcher}")) {
        let mut open = vec![directory];
        while let Some(directory) = open.pop() {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            for pid in text.lines() {
                members.push(format!("{pid} in {}", directory.display()));
            }
            open.extend(directories(&directory));
        }
    }
    members
}

/// Directories of this name, or of this name with something appended, below every hierarchy.
fn cgroups_named(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = open.pop() {
        for child in directories(&directory) {
            let text = child.file_name().unwrap_or_default().to_string_lossy();
            if is_of(name, &text) {
                found.push(child);
            } else {
                open.push(child);
            }
        }
    }
    found
}

fn is_of(name: &str, text: &str) -> bool {
    text.strip_prefix(name)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn directories(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_name_is_not_taken_for_a_longer_number() {
        assert!(is_of("agentd-12", "agentd-12"));
        assert!(is_of("agentd-12", "agentd-12-7"));
        assert!(!is_of("agentd-12", "agentd-123"));
        assert!(!is_of("agentd-12", "agentd-123-7"));
    }
}
