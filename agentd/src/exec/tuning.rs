//! Times that readers and streams go by.

use std::time::Duration;

/// The times. Configuration and tests may shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Silence on a stream after which a sign of life is sent, so that a client can tell a quiet
    /// command from a dead connection.
    pub heartbeat: Duration,
    /// A stream whose client takes nothing for this long is dropped.
    pub stall: Duration,
    /// A call that ends a command waits this long for the end, beside the grace.
    pub end: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(15),
            stall: Duration::from_secs(60),
            // The kernel's kill, what is left in the pipes, and a launcher that has much to do.
            end: Duration::from_secs(30),
        }
    }
}
