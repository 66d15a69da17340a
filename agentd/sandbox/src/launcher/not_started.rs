//! Why a command was not started.

use nix::errno::Errno;

use crate::{
    launch::PrepareError,
    monitor::SetupFailure,
    policy::{self, Refusal},
};

/// Why nothing was started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The policy refuses.
    Refused(Refusal),
    /// A step failed.
    Failed(SetupFailure),
}

impl From<Refusal> for NotStarted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A step that failed with an error of the system.
pub(super) fn at(stage: &str, errno: Errno) -> NotStarted {
    NotStarted::Failed(SetupFailure {
        stage: stage.to_owned(),
        errno: errno as i32,
        detail: errno.desc().to_owned(),
    })
}

/// A jail that could not be prepared.
pub(super) fn unprepared(error: &PrepareError) -> NotStarted {
    let errno = match error {
        PrepareError::System(errno) => *errno,
        PrepareError::NoBash => Errno::ENOENT,
        PrepareError::Ruleset(failure) => failure.errno().unwrap_or(Errno::EIO),
        PrepareError::Script { source, .. } => {
            source.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
        }
        PrepareError::Nul(_) => Errno::EIO,
    };
    let stage = error.layer().map_or("prepare", policy::Layer::name);
    let stage = if matches!(error, PrepareError::NoBash) {
        "exec"
    } else {
        stage
    };
    let mut detail = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    NotStarted::Failed(SetupFailure {
        stage: stage.to_owned(),
        errno: errno as i32,
        detail,
    })
}
