//! Monotonic time for the state machines.

use std::time::Instant;

use super::lifecycle::Millis;

/// Counts from its creation.
#[derive(Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Now.
    pub(crate) fn now(&self) -> Millis {
        Millis(u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
