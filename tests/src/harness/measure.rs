//! What a process takes of the machine, as the kernel counts it.

use std::fs;

/// A process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

impl Footprint {
    /// Of a living process.
    pub fn of(pid: i32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
        let number = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key));
            let word = line.and_then(|line| line.split_whitespace().nth(1));
            word.and_then(|word| word.parse().ok())
                .unwrap_or_else(|| panic!("{key} of {pid}"))
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
        Self {
            rss_kib: number("VmRSS:"),
            descriptors: descriptors.count() as u64,
            threads: number("Threads:"),
        }
    }
}
