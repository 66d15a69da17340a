//! What can go wrong with a call, told apart by what may be done about it. Pure.

use std::error::Error as _;

use thiserror::Error;
use tonic::{Code, Status};

use super::error;
use crate::connect;

/// What went wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The connection had ended before, so nothing of the request was sent.
    #[error("the connection had ended")]
    NeverSent,
    /// The connection broke; the request may have arrived.
    #[error("{0}")]
    Transport(String),
    /// Nothing came for longer than the daemon's heartbeats.
    #[error("agentd was silent for too long")]
    Silent,
    /// The stream ended without the end of the command.
    #[error("agentd ended the stream without a result")]
    Ended,
    /// No process listens where the daemon was.
    #[error("nothing listens there any more")]
    NobodyListens,
    /// Another daemon answers than the one that was asked.
    #[error("agentd was restarted")]
    OtherBoot,
    /// This client has hung up.
    #[error("the connection was closed")]
    HungUp,
    /// The command should have ended long ago.
    #[error("the command is long past its time limit")]
    Overdue,
    /// The daemon has answered, with a refusal.
    #[error("{0:?}")]
    Refused(Refusal),
}

/// What a refusal says about the execution that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The daemon does not know it.
    Unknown,
    /// The daemon cannot go on and ends.
    Dying,
    /// The daemon takes nothing new; what it has goes on.
    Busy,
    /// This reader was too slow and may come again.
    SlowReader,
    /// No reason of agentd's: something in between, or a fault of the daemon.
    Unexplained,
    /// Anything else.
    Other,
}

impl Fault {
    /// What a status says.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        match error::reason(status).as_deref() {
            None => Self::without_reason(status),
            Some("SLOW_CONSUMER") => Self::Refused(Refusal::SlowReader),
            Some("LAUNCHER_GONE") => Self::Refused(Refusal::Dying),
            Some("DRAINING" | "LIMIT_EXECS" | "LIMIT_RESOURCES") => Self::Refused(Refusal::Busy),
            Some(_) if status.code() == Code::NotFound => Self::Refused(Refusal::Unknown),
            Some(_) => Self::Refused(Refusal::Other),
        }
    }

    /// agentd names a reason with everything that it refuses; what has none comes from the transport or from
    /// something in between.
    fn without_reason(status: &Status) -> Self {
        let from_transport = status.source();
        if from_transport.is_some_and(connect::never_sent) {
            return Self::NeverSent;
        }
        match status.code() {
            Code::Unavailable | Code::Unknown | Code::Cancelled => {
                Self::Transport(error::describe(status))
            }
            Code::Ok
            | Code::InvalidArgument
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => match from_transport {
                Some(_) => Self::Transport(error::describe(status)),
                None => Self::Refused(Refusal::Unexplained),
            },
        }
    }

    /// Whether a new connection may help.
    #[must_use]
    pub fn is_transport(&self) -> bool {
        match self {
            Self::NeverSent
            | Self::Transport(_)
            | Self::Silent
            | Self::Ended
            | Self::NobodyListens => true,
            Self::OtherBoot | Self::HungUp | Self::Overdue | Self::Refused(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Refusal};
    use crate::daemon::error::tests::refusal;
    use tonic::{Code, Status};

    #[test]
    fn refusals_of_the_daemon_are_told_apart_by_their_reason() {
        for (code, reason, expected) in [
            (Code::Aborted, "SLOW_CONSUMER", Refusal::SlowReader),
            (Code::Unavailable, "LAUNCHER_GONE", Refusal::Dying),
            (Code::Unavailable, "DRAINING", Refusal::Busy),
            (Code::ResourceExhausted, "LIMIT_EXECS", Refusal::Busy),
            (Code::NotFound, "EXEC_EXPIRED", Refusal::Unknown),
            (Code::NotFound, "INSTANCE_RESTARTED", Refusal::Unknown),
            (Code::InvalidArgument, "INVALID_REQUEST", Refusal::Other),
        ] {
            let fault = Fault::of(&refusal(code, "agentd", reason));
            assert_eq!(fault, Fault::Refused(expected), "{reason}");
        }
    }

    #[test]
    fn what_has_no_reason_comes_from_the_way_and_not_from_the_daemon() {
        for status in [
            Status::unavailable("reset"),
            Status::cancelled("stream cancelled"),
            Status::unknown("h2"),
            refusal(Code::Unavailable, "proxy.example", "X"),
        ] {
            assert!(Fault::of(&status).is_transport(), "{status}");
        }
        let of_server = Fault::of(&Status::internal("a bug"));
        assert_eq!(of_server, Fault::Refused(Refusal::Unexplained));
    }
}
