//! Token counts as the API reports them. Must not guess: what was not reported is zero.

/// Tokens of one call, or summed over several. Total input is `input + cache_creation + cache_read`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens written to the prefix cache.
    pub cache_creation: u64,
    /// Input tokens read from the prefix cache.
    pub cache_read: u64,
}

impl Usage {
    /// The sum of two counts; saturates.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_creation: self.cache_creation.saturating_add(other.cache_creation),
            cache_read: self.cache_read.saturating_add(other.cache_read),
        }
    }
}
