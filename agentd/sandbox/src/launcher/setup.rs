//! How far a new command has come.

/// How far the new processes have come, by what they say on the error pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// They build the jail.
    Building,
    /// `execve` is the next call.
    Executing,
    /// The pipe is closed.
    Over,
}

/// Whether the program was executed, for however short a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It was not.
    Never,
    /// Nobody knows that it was not.
    Perhaps,
}
