//! What goes wrong between this client and a daemon, in words that name the remedy.

use std::{error::Error as _, time::Duration};

use agentd_proto::ERROR_DOMAIN;
use prost::Message;
use thiserror::Error;
use tonic::{Code, Status};

use crate::connect::{ConnectError, Connection};

/// Why the daemon could not be used.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// Not reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Reached, but silent.
    #[error("agentd accepted the connection but said nothing for {} s; restart it", .0.as_secs())]
    Silent(Duration),
    /// Too old.
    #[error("agentd {version} is older than this client; update agentd")]
    TooOld {
        /// Its version.
        version: String,
    },
    /// It refused the request; nothing was started. The text is the daemon's and names the remedy.
    #[error("{message}")]
    Refused {
        /// Reason of the `ErrorInfo`, such as `PROFILE_UNKNOWN`; empty when there is none.
        reason: String,
        /// The daemon's sentence.
        message: String,
    },
    /// It does not know the call.
    #[error("this agentd does not offer {what}; update agentd")]
    Unimplemented {
        /// The call.
        what: &'static str,
    },
    /// The connection broke.
    #[error("the connection to agentd broke: {0}; what ran is ended by agentd, start again")]
    Broken(String),
    /// The connection broke before the request was sent.
    #[error(
        "the connection to agentd broke and could not be made again ({0}); nothing was started"
    )]
    NotStarted(String),
    /// What ran has an end that nobody can tell.
    #[error("unknown: {0}; what the command did until then stays done")]
    Lost(Lost),
    /// The session that was named is another one.
    #[error(
        "session {session_id} has the {what} {has}; name it with --{what}, or choose another session"
    )]
    OtherSession {
        /// Its id.
        session_id: String,
        /// What differs.
        what: &'static str,
        /// What it is there.
        has: String,
    },
    /// The stream ended without a result.
    #[error("agentd ended the stream without a result, so how the command ended is unknown")]
    NoResult,
    /// A path that cannot be sent.
    #[error("{} is not valid UTF-8, which agentd's paths must be; rename it", .0.display())]
    Path(std::path::PathBuf),
    /// An answer that breaks the protocol.
    #[error("agentd sent an answer without {0}; client and daemon do not fit, update both")]
    Malformed(&'static str),
}

/// Why the end of a command is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Lost {
    /// Another daemon answers now.
    #[error("the daemon restarted")]
    Restarted,
    /// It cannot be reached any more.
    #[error("the daemon cannot be reached any more")]
    Unreachable,
    /// The daemon does not know it any more.
    #[error("the daemon does not know the command any more")]
    Forgotten,
    /// It should have ended long ago.
    #[error("the daemon sent no end although the time limit is long past")]
    Overdue,
}

impl DaemonError {
    /// Whether the session that was named is gone: expired, ended, or of a daemon that was restarted.
    #[must_use]
    pub fn is_session_gone(&self) -> bool {
        matches!(self, Self::Refused { reason, .. }
            if matches!(reason.as_str(), "SESSION_EXPIRED" | "SESSION_UNKNOWN" | "INSTANCE_RESTARTED"))
    }

    /// Whether the person can put it right on the command line.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Connect(ConnectError::Address(_)))
    }
}

/// The error of a call named `what`.
pub(super) fn call(status: &Status, what: &'static str) -> DaemonError {
    match status.code() {
        Code::Unimplemented => DaemonError::Unimplemented { what },
        // With a reason it is the daemon that answers, such as one that is about to end.
        Code::Unavailable | Code::Unknown | Code::Cancelled if reason(status).is_none() => {
            DaemonError::Broken(describe(status))
        }
        Code::Ok
        | Code::Unavailable
        | Code::Unknown
        | Code::Cancelled
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => DaemonError::Refused {
            reason: reason(status).unwrap_or_default(),
            message: status.message().to_owned(),
        },
    }
}

/// The error of the very first call: a private daemon that could not start has ended by now, and a shared
/// one has closed the connection of a user that it does not admit.
pub(super) async fn hello(status: Status, connection: Connection) -> DaemonError {
    #[cfg(unix)]
    if let Some(mut embedded) = connection.embedded
        && let Some(status) = embedded.early_end().await
    {
        return ConnectError::ended(status).into();
    }
    match (call(&status, "InfoService"), connection.connector.path()) {
        // Only the transport's own errors have a cause: this one is no answer of the daemon.
        (DaemonError::Broken(_), Some(path)) if status.source().is_some() => {
            let path = path.clone();
            ConnectError::Closed { path }.into()
        }
        (error, _) => error,
    }
}

pub(super) fn describe(status: &Status) -> String {
    if status.message().is_empty() {
        status.code().description().to_owned()
    } else {
        status.message().to_owned()
    }
}

/// `google.rpc.Status`, as far as it is read here.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`, as far as it is read here.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// The reason of agentd's `ErrorInfo`.
pub(super) fn reason(status: &Status) -> Option<String> {
    let details = RpcStatus::decode(status.details()).ok()?.details;
    details
        .iter()
        .filter(|any| any.type_url.ends_with("/google.rpc.ErrorInfo"))
        .filter_map(|any| ErrorInfo::decode(any.value.as_slice()).ok())
        .find(|info| info.domain == ERROR_DOMAIN)
        .map(|info| info.reason)
}

#[cfg(test)]
pub(super) mod tests {
    use super::{DaemonError, ErrorInfo, RpcStatus, call};
    use prost::Message;
    use tonic::{Code, Status};

    /// A refusal as agentd sends it.
    pub(in crate::daemon) fn refusal(code: Code, domain: &str, reason: &str) -> Status {
        let info = ErrorInfo {
            reason: reason.into(),
            domain: domain.into(),
        };
        let details = RpcStatus {
            details: vec![prost_types::Any {
                type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
                value: info.encode_to_vec(),
            }],
        };
        Status::with_details(
            code,
            "there is no profile 'x'",
            details.encode_to_vec().into(),
        )
    }

    #[test]
    fn a_refusal_keeps_the_daemons_sentence_and_reason() {
        for (domain, expected) in [("agentd", "PROFILE_UNKNOWN"), ("other", "")] {
            let error = call(&refusal(Code::NotFound, domain, "PROFILE_UNKNOWN"), "exec");
            let DaemonError::Refused { reason, message } = &error else {
                panic!("{error}");
            };
            assert_eq!(reason, expected);
            assert_eq!(message, "there is no profile 'x'");
        }
    }

    #[test]
    fn a_broken_connection_and_an_unknown_call_are_told_apart_from_refusals() {
        assert!(matches!(
            call(&Status::unavailable("gone"), "exec"),
            DaemonError::Broken(_)
        ));
        assert!(matches!(
            call(&Status::unimplemented(""), "exec"),
            DaemonError::Unimplemented { what: "exec" }
        ));
    }
}
