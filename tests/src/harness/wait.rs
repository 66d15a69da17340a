//! Waiting for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

const STEP: Duration = Duration::from_millis(10);

/// Looks until the condition holds; returns false after the deadline. Where looking takes long, as on an emulated
/// machine, it looks less often, so that it is not what the machine is busy with.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        let look = Instant::now();
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(STEP.max(look.elapsed() * 3));
    }
}
