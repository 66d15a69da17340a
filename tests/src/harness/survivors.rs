//! Processes found from outside, by a word that only a test's own processes carry.

use std::{fs, path::Path};

/// A process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Process id on the host.
    pub pid: i32,
    /// Short name.
    pub name: String,
    /// Arguments.
    pub arguments: Vec<String>,
}

/// Processes whose arguments, environment or working directory hold this word. The client does not
/// count: it has scripts in its arguments.
pub fn processes_with(word: &str) -> Vec<Process> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    all()
        .filter(|process| process.pid != own && process.name != "agent-cli")
        .filter(|process| {
            let environment = read(process.pid, "environ");
            // A shell that starts nothing has only its directory to tell it by.
            let directory = fs::read_link(format!("/proc/{}/cwd", process.pid));
            let directory = directory.unwrap_or_default();
            process
                .arguments
                .iter()
                .any(|argument| argument.contains(word))
                || environment.contains(word)
                || directory.to_string_lossy().contains(word)
        })
        .collect()
}

/// Whether a process runs; one that only waits to be reaped by its parent does not.
pub fn is_running(pid: i32) -> bool {
    state_of(pid).is_some_and(|letter| !matches!(letter, 'Z' | 'X'))
}

/// State of a process as `ps` shows it; `Z` is a zombie. `None`: there is none.
pub fn state_of(pid: i32) -> Option<char> {
    let stat = read(pid, "stat");
    stat.rsplit_once(") ")
        .and_then(|(_, after)| after.chars().next())
}

/// Children of a process.
pub fn children_of(parent: i32) -> Vec<Process> {
    all()
        .filter(|process| parent_of(process.pid) == Some(parent))
        .collect()
}

/// Everything that a process started, its children's children included. Unlike the search for a word it also
/// finds what hides its environment from other processes of its user.
pub fn below(ancestor: i32) -> Vec<Process> {
    let parents: Vec<(Process, Option<i32>)> = all()
        .map(|process| {
            let parent = parent_of(process.pid);
            (process, parent)
        })
        .collect();
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        let children = parents.iter().filter(|(_, of)| *of == Some(parent));
        family.extend(children.map(|(child, _)| child.pid));
    }
    let processes = parents.into_iter().map(|(process, _)| process);
    processes
        .filter(|process| process.pid != ancestor && family.contains(&process.pid))
        .collect()
}

/// Zombies among everything that a process started.
pub fn zombies_below(ancestor: i32) -> Vec<Process> {
    let mut zombies = below(ancestor);
    zombies.retain(|process| state_of(process.pid) == Some('Z'));
    zombies
}

/// Processes of this short name.
pub fn processes_named(name: &str) -> Vec<Process> {
    all().filter(|process| process.name == name).collect()
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_string_lossy().parse().ok()?;
        let arguments = read(pid, "cmdline");
        Some(Process {
            pid,
            name: read(pid, "comm").trim_end().to_owned(),
            arguments: arguments
                .split_terminator('\0')
                .map(str::to_owned)
                .collect(),
        })
    })
}

/// Parent of a process.
pub fn parent_of(pid: i32) -> Option<i32> {
    let stat = read(pid, "stat");
    // The name in parentheses may hold anything; the fields after it are numbers.
    let after = stat.rsplit_once(')')?.1;
    after.split_whitespace().nth(1)?.parse().ok()
}

fn read(pid: i32, file: &str) -> String {
    let bytes = fs::read(Path::new("/proc").join(pid.to_string()).join(file));
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}
