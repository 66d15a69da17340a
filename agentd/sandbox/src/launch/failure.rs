//! How a failed set-up crosses the fork: a stage, an index and an errno, in eight bytes.

use nix::errno::Errno;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Mapping the ids of the user namespace.
    UserNamespace = 1,
    /// Bringing the loopback interface up.
    Loopback,
    /// Setting the host name.
    Hostname,
    /// A mount step; the index says which.
    Mount,
    /// Making the new root the root.
    EnterRoot,
    /// A Landlock rule about the jail's own file systems; the index says which.
    LandlockRule,
    /// Dropping capabilities.
    Capabilities,
    /// Changing the user.
    Identity,
    /// Setting `no_new_privs` and the like.
    Attributes,
    /// Forking the command.
    Fork,
    /// Making a session of its own.
    Session,
    /// Setting standard input, output and error.
    Stdio,
    /// Entering the working directory.
    Cwd,
    /// A resource limit; the index says which.
    Rlimit,
    /// Entering the Landlock domain.
    Landlock,
    /// Installing the filter.
    Seccomp,
    /// Executing the program.
    Exec,
    /// Entering the control group.
    Cgroup,
}

impl Stage {
    const ALL: [Self; 18] = [
        Self::UserNamespace,
        Self::Loopback,
        Self::Hostname,
        Self::Mount,
        Self::EnterRoot,
        Self::LandlockRule,
        Self::Capabilities,
        Self::Identity,
        Self::Attributes,
        Self::Fork,
        Self::Session,
        Self::Stdio,
        Self::Cwd,
        Self::Rlimit,
        Self::Landlock,
        Self::Seccomp,
        Self::Exec,
        Self::Cgroup,
    ];

    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "user-namespace",
            Self::Loopback => "loopback",
            Self::Hostname => "hostname",
            Self::Mount => "mount",
            Self::EnterRoot => "enter-root",
            Self::LandlockRule => "landlock-rule",
            Self::Capabilities => "capabilities",
            Self::Identity => "identity",
            Self::Attributes => "attributes",
            Self::Fork => "fork",
            Self::Session => "session",
            Self::Stdio => "stdio",
            Self::Cwd => "cwd",
            Self::Rlimit => "rlimit",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Exec => "exec",
            Self::Cgroup => "cgroup",
        }
    }
}

/// A failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Stage.
    pub(crate) stage: Stage,
    /// Which step of the stage.
    pub(crate) index: u16,
    /// Why.
    pub(crate) errno: Errno,
}

/// Bytes of an encoded failure.
pub(crate) const ENCODED: usize = 8;

impl Failure {
    pub(super) fn at(stage: Stage) -> impl Fn(Errno) -> Self {
        move |errno| Self {
            stage,
            index: 0,
            errno,
        }
    }

    pub(super) fn at_index(stage: Stage, index: usize) -> impl Fn(Errno) -> Self {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        move |errno| Self {
            stage,
            index,
            errno,
        }
    }

    pub(super) fn encode(self) -> [u8; ENCODED] {
        let [i0, i1] = self.index.to_le_bytes();
        let [e0, e1, e2, e3] = (self.errno as i32).to_le_bytes();
        [self.stage as u8, 0, i0, i1, e0, e1, e2, e3]
    }

    /// Decodes what a child wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let [stage, 0, i0, i1, e0, e1, e2, e3] = *bytes else {
            return None;
        };
        Some(Self {
            stage: Stage::ALL.into_iter().find(|known| *known as u8 == stage)?,
            index: u16::from_le_bytes([i0, i1]),
            errno: Errno::from_raw(i32::from_le_bytes([e0, e1, e2, e3])),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_survives_the_crossing() {
        for stage in Stage::ALL {
            let failure = Failure {
                stage,
                index: 515,
                errno: Errno::EACCES,
            };
            assert_eq!(Failure::decode(&failure.encode()), Some(failure));
        }
    }

    #[test]
    fn anything_else_is_no_failure() {
        for bytes in [
            &[][..],
            &[0; 8],
            &[255; 8],
            &[1, 0, 0],
            &[1, 1, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Failure::decode(bytes), None, "{bytes:?}");
        }
    }
}
