//! What the kernel counted for a group.

use std::path::Path;

use super::knob;

/// The kernel charges memory in lots of this many bytes: a limit is reached when less is left.
const CHARGED_AT_ONCE: u64 = 64 * 4096;

/// Counters of one group. `None` and 0 where nothing counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Processes that were killed for want of memory.
    pub(crate) oom_kills: u64,
    /// How often the group's own memory limit was reached.
    pub(crate) memory_limit_reached: u64,
    /// Most memory at once, in bytes.
    pub(crate) peak_memory_bytes: u64,
    /// How often a fork was refused by the limit of processes.
    pub(crate) refused_forks: u64,
    /// The group's own limit of processes was reached; `None` where the kernel does not tell (it counts a
    /// fork that a group around refused as this one's, and keeps no peak).
    pub(crate) pids_limit_reached: Option<bool>,
    /// Most processes and threads at once.
    pub(crate) peak_pids: u64,
    /// CPU time of the tree in microseconds.
    pub(crate) cpu_us: Option<u64>,
    /// The file in which killed processes are counted.
    pub(crate) oom_file: &'static str,
    /// The file in which CPU time is counted.
    pub(crate) cpu_file: &'static str,
}

/// A unified group with its controllers.
pub(super) fn read_v2(group: &Path, all: &mut Counters) {
    all.oom_kills = oom_kills_v2(group).unwrap_or(0);
    // `max` also counts page cache that was given back in time.
    all.memory_limit_reached = knob::entry(group, "memory.events", "oom").unwrap_or(0);
    all.oom_file = "memory.events";
    all.peak_memory_bytes = knob::number(group, "memory.peak").unwrap_or(0);
    read_pids(group, all);
    read_cpu_v2(group, all);
}

/// CPU time in a unified group.
pub(super) fn read_cpu_v2(group: &Path, all: &mut Counters) {
    all.cpu_us = cpu_v2(group);
    all.cpu_file = "cpu.stat";
}

/// CPU time in the accounting hierarchy of version 1.
pub(super) fn read_cpu_v1(group: &Path, all: &mut Counters) {
    all.cpu_us = cpu_v1(group);
    all.cpu_file = "cpuacct.usage";
}

/// The memory hierarchy of version 1.
pub(super) fn read_v1_memory(group: &Path, all: &mut Counters) {
    all.oom_kills = oom_kills_v1(group).unwrap_or(0);
    all.oom_file = "memory.oom_control";
    all.peak_memory_bytes = knob::number(group, "memory.max_usage_in_bytes").unwrap_or(0);
    // Newer kernels no longer count failures (`memory.failcnt`), but the peak tells.
    let limit = knob::number(group, "memory.limit_in_bytes").unwrap_or(u64::MAX);
    all.memory_limit_reached =
        u64::from(all.peak_memory_bytes.saturating_add(CHARGED_AT_ONCE) > limit);
}

/// The limit of processes, which both versions count in the same files.
pub(super) fn read_pids(group: &Path, all: &mut Counters) {
    all.refused_forks = knob::entry(group, "pids.events", "max").unwrap_or(0);
    let peak = knob::number(group, "pids.peak");
    all.peak_pids = peak.unwrap_or(0);
    all.pids_limit_reached = match (peak, knob::number(group, "pids.max")) {
        (Some(peak), Some(most)) => Some(peak >= most),
        (None, Some(_)) => None,
        // It has none.
        (_, None) => Some(false),
    };
}

/// Victims in a unified group.
pub(super) fn oom_kills_v2(group: &Path) -> Option<u64> {
    knob::entry(group, "memory.events", "oom_kill")
}

/// Victims in the memory hierarchy of version 1.
pub(super) fn oom_kills_v1(group: &Path) -> Option<u64> {
    knob::entry(group, "memory.oom_control", "oom_kill")
}

/// CPU time of a unified group, which is counted without any controller.
pub(super) fn cpu_v2(group: &Path) -> Option<u64> {
    knob::entry(group, "cpu.stat", "usage_usec")
}

/// CPU time in the accounting hierarchy of version 1.
pub(super) fn cpu_v1(group: &Path) -> Option<u64> {
    Some(knob::number(group, "cpuacct.usage")? / 1_000)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A directory that looks like a group.
    fn fake(files: &[(&str, &str)]) -> std::path::PathBuf {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("agentd-cg-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        for (name, content) in files {
            fs::write(dir.join(name), content).unwrap();
        }
        dir
    }

    #[test]
    fn both_versions_are_read() {
        let v2 = fake(&[
            (
                "memory.events",
                "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n",
            ),
            ("memory.peak", "4096\n"),
            ("pids.events", "max 7\n"),
            ("pids.peak", "12\n"),
            ("pids.max", "12\n"),
            (
                "cpu.stat",
                "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n",
            ),
        ]);
        let mut all = Counters::default();
        read_v2(&v2, &mut all);
        assert_eq!((all.oom_kills, all.memory_limit_reached), (1, 2));
        assert_eq!((all.peak_memory_bytes, all.peak_pids), (4096, 12));
        assert_eq!((all.refused_forks, all.cpu_us), (7, Some(1_500_000)));
        assert_eq!(all.pids_limit_reached, Some(true));
        fs::remove_dir_all(v2).unwrap();

        let v1 = fake(&[
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            ),
            ("memory.limit_in_bytes", "1048576\n"),
            ("memory.max_usage_in_bytes", "1044480\n"),
            ("cpuacct.usage", "1999999\n"),
        ]);
        let mut all = Counters::default();
        read_v1_memory(&v1, &mut all);
        assert_eq!((all.oom_kills, all.memory_limit_reached), (3, 1));
        assert_eq!(all.peak_memory_bytes, 1_044_480);
        assert_eq!(cpu_v1(&v1), Some(1_999));
        fs::remove_dir_all(v1).unwrap();
    }

    #[test]
    fn a_fork_that_a_group_around_refused_is_told_from_the_own_limit() {
        for (peak, most, own) in [
            (Some("12\n"), "12\n", Some(true)),
            (Some("11\n"), "12\n", Some(false)),
            (Some("11\n"), "max\n", Some(false)),
            (None, "max\n", Some(false)),
            (None, "12\n", None),
        ] {
            let mut files = vec![("pids.events", "max 3\n"), ("pids.max", most)];
            files.extend(peak.map(|peak| ("pids.peak", peak)));
            let group = fake(&files);
            let mut all = Counters::default();
            read_pids(&group, &mut all);
            assert_eq!(
                (all.refused_forks, all.pids_limit_reached),
                (3, own),
                "{files:?}"
            );
            fs::remove_dir_all(group).unwrap();
        }
    }

    #[test]
    fn older_kernels_lack_files_and_nothing_is_made_up() {
        let bare = fake(&[("memory.events", "low 0\nmax 1\n")]);
        let mut all = Counters::default();
        read_v2(&bare, &mut all);
        assert_eq!((all.oom_kills, all.peak_memory_bytes), (0, 0));
        assert_eq!((all.peak_pids, all.cpu_us), (0, None));
        fs::remove_dir_all(bare).unwrap();
    }
}
