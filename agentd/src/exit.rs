//! How the program `agentd` itself ends: one enum, one conversion. The ends of commands it runs are
//! `exec::ExitResult`.

use std::process::ExitCode;

/// Exit code of `agentd`. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or the answer is yes.
    Ok,
    /// Ran, and the answer is no (such as `profile explain` of something denied).
    Failed,
    /// The command line is wrong.
    Usage,
    /// Something that is needed does not answer: the launcher, a listener.
    Unavailable,
    /// A bug in agentd.
    Bug,
    /// The user may not do this.
    NotPermitted,
    /// A configuration file or profile is wrong, or this kernel cannot do what they ask for.
    Config,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Bug => 70,
            Self::NotPermitted => 77,
            Self::Config => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
