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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::Bug => 70,
            Exit::NotPermitted => 77,
            Exit::Config => 78,
        })
    }
}
