//! Counters since start. They only grow, and nothing decides anything by them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters.
#[derive(Debug, Default)]
pub struct Stats {
    /// Executions that started.
    pub started: AtomicU64,
    /// Executions that the blacklist refused.
    pub blocked: AtomicU64,
    /// Bytes read from commands.
    pub output_bytes: AtomicU64,
    /// Bytes no longer held when their execution ended.
    pub dropped_bytes: AtomicU64,
    /// Processes killed after their leader had ended.
    pub leftover: AtomicU64,
    /// Readers dropped because they took nothing for too long.
    pub slow_readers: AtomicU64,
}

impl Stats {
    /// Adds to one of the counters.
    pub fn add(counter: &AtomicU64, by: u64) {
        // Relaxed: a counter orders nothing. It wraps after more bytes than a disk farm holds.
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// Reads one of the counters.
    #[must_use]
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
