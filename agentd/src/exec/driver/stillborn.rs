//! The ends of executions that never came to run.

use agentd_sandbox::monitor::{Cause, Event, LeaderStatus, SetupFailure, StopReason, Tripped};

use super::{
    super::{ExitReason, ExitResult, NotStarted, conclude},
    Job,
};
use crate::launcher_link::LinkError;

/// Why there is nothing to drive.
pub(super) enum Stillborn {
    NotStarted(NotStarted),
    Setup(SetupFailure),
    /// It may have run, and nothing more is known.
    Lost,
    /// Somebody ended it before it ran.
    Stopped(Stopped),
}

/// The end of a command that did not run.
pub(super) struct Stopped {
    pub(super) reason: StopReason,
    /// Nothing is left of what was to run it.
    pub(super) proven: bool,
    /// What it made all the same.
    pub(super) tripped: Vec<Tripped>,
}

impl Stopped {
    /// Before anybody was asked to start it.
    pub(super) fn unasked(reason: StopReason) -> Self {
        Self {
            reason,
            proven: true,
            tripped: Vec::new(),
        }
    }
}

impl Stillborn {
    /// What the launcher's first word says when it is not that the command runs.
    pub(super) fn told_by(event: Event) -> Self {
        match event {
            Event::Refused { refusal, .. } => Self::NotStarted(refusal.into()),
            Event::SetupFailed { failure, .. } => Self::Setup(failure),
            Event::Ended {
                cause: Cause::Stopped(reason),
                tripped,
                proven,
                ..
            } => Self::Stopped(Stopped {
                reason,
                proven,
                tripped,
            }),
            Event::Started { .. }
            | Event::Ready { .. }
            | Event::Profile(_)
            | Event::Reloaded { .. }
            | Event::LeaderExited { .. }
            | Event::Ended { .. }
            | Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::Explained { .. } => Self::Lost,
        }
    }

    /// Records the end.
    pub(super) fn record(self, job: &Job) {
        match self {
            Self::NotStarted(why) => job.exec.record_not_started(why),
            Self::Setup(failure) => job.exec.record_end(ExitResult {
                setup: Some(failure),
                ..ExitResult::without_run(ExitReason::SetupFailed)
            }),
            Self::Lost => job.exec.record_end(ExitResult {
                proven: false,
                output_complete: false,
                notes: vec![LOST_IN_START.to_owned()],
                ..ExitResult::without_run(ExitReason::Lost)
            }),
            Self::Stopped(stopped) => {
                let cause = Cause::Stopped(stopped.reason);
                let reason = ExitReason::decide(cause, LeaderStatus::Unknown, &[]);
                let in_time = stopped.tripped.is_empty();
                let note = if in_time { NOTHING_RAN } else { HARDLY_RAN };
                job.exec.record_end(ExitResult {
                    notes: vec![note.to_owned()],
                    proven: stopped.proven,
                    denials: stopped.tripped.iter().map(conclude::tripwire).collect(),
                    ..ExitResult::without_run(reason)
                });
            }
        }
    }
}

/// The remark on a command that was stopped in time.
const NOTHING_RAN: &str = "it was ended before it was started; nothing ran";
/// The same where that is not certain.
const HARDLY_RAN: &str = "it was ended while it was being started; it may have run for a moment, and what it did stays done";
/// The remark on a command whose start nobody reported.
const LOST_IN_START: &str = "the launcher died while it started the command; it may have run for a moment, and what it did stays done";

impl From<Stopped> for Stillborn {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<LinkError> for Stillborn {
    fn from(error: LinkError) -> Self {
        Self::NotStarted(match error {
            LinkError::TooLarge(bytes) => NotStarted::TooLarge(bytes),
            LinkError::Gone | LinkError::Watch(_) | LinkError::Channel(_) => {
                NotStarted::LauncherGone
            }
        })
    }
}
