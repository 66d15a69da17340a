//! Waiting for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

const STEP: Duration = Duration::from_millis(10);

/// Looks until the condition holds; returns false after the deadline.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(STEP);
    }
}
