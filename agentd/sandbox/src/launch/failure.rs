//! What a new process says before it becomes the command, in records of eight bytes: a failed step (a
//! stage, an index and an errno), or a notice. The end of the pipe after [`Notice::Executing`] and no
//! failure means that the program was executed; the end without that notice, that it was not.

use nix::errno::Errno;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Mapping the ids of the user namespace.
    UserNamespace = 1,
    /// Entering a namespace of the session; the index says which.
    EnterSession,
    /// Making what a session keeps for its commands.
    SessionRoom,
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
    /// Making the terminal, or making it the controlling one.
    Terminal,
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
    const ALL: [Self; 21] = [
        Self::UserNamespace,
        Self::EnterSession,
        Self::SessionRoom,
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
        Self::Terminal,
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
            Self::EnterSession => "enter-session",
            Self::SessionRoom => "session-room",
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
            Self::Terminal => "terminal",
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

/// Something that is no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Notice {
    /// Every layer is applied; the next call is `execve`.
    Executing = 0x81,
    /// The working directory could not be entered; it is the one to fall back to.
    CwdFellBack,
}

impl Notice {
    const ALL: [Self; 2] = [Self::Executing, Self::CwdFellBack];

    pub(super) fn encode(self) -> [u8; ENCODED] {
        [self as u8, 0, 0, 0, 0, 0, 0, 0]
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// A step failed.
    Failure(Failure),
    /// Something else.
    Notice(Notice),
}

impl Record {
    /// Decodes what a child wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let notice = Notice::ALL
            .into_iter()
            .find(|known| known.encode() == bytes);
        notice
            .map(Self::Notice)
            .or_else(|| Failure::decode(bytes).map(Self::Failure))
    }
}

/// Bytes of an encoded record.
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

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
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
            assert_eq!(
                Record::decode(&failure.encode()),
                Some(Record::Failure(failure))
            );
        }
    }

    #[test]
    fn every_notice_survives_the_crossing() {
        for notice in Notice::ALL {
            assert_eq!(
                Record::decode(&notice.encode()),
                Some(Record::Notice(notice))
            );
        }
    }

    #[test]
    fn anything_else_is_no_record() {
        for bytes in [
            &[][..],
            &[0; 8],
            &[255; 8],
            &[1, 0, 0],
            &[1, 1, 0, 0, 0, 0, 0, 0],
            &[0x81, 0, 0, 0, 0, 0, 0, 1],
            &[0x83, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Record::decode(bytes), None, "{bytes:?}");
        }
    }
}
