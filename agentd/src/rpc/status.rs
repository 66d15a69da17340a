//! Every refusal as a gRPC status with a `google.rpc.ErrorInfo`: one mapping, in one place. A command
//! that ran and failed is not an error and never comes here.

mod sessions;
mod wire;

use agentd_sandbox::policy::Refusal;
use tonic::Code;

use crate::{
    exec::{AdmitError, NotStarted, StdinError, SubmitError},
    launcher_link::{ExplainError, LinkError, ReloadError},
};

/// Why a call is refused, as the client is told. Holds nothing of an internal error's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    code: Code,
    reason: &'static str,
    message: String,
    retry: Retry,
    /// What a program can act on.
    metadata: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    Useless,
    Later,
}

impl Problem {
    fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            retry: Retry::Useless,
            metadata: Vec::new(),
        }
    }

    fn with(mut self, key: &'static str, value: &impl ToString) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    fn retry_later(self) -> Self {
        Self {
            retry: Retry::Later,
            ..self
        }
    }

    /// The request's form is wrong.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, "INVALID_REQUEST", message)
    }

    /// The request asks for what this daemon cannot do.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, "FEATURE_UNSUPPORTED", message)
    }

    /// Not in this release.
    pub(super) fn unimplemented(what: &str) -> Self {
        let message = format!("{what} is not implemented in this release of agentd");
        Self::new(Code::Unimplemented, "NOT_IMPLEMENTED", message)
    }

    /// The caller may not do this.
    pub(super) fn not_authorized(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, "NOT_AUTHORIZED", message)
    }

    /// No such execution of this caller.
    pub(super) fn unknown_exec(id: &str) -> Self {
        let message = format!(
            "there is no execution '{id}' of yours; finished ones are kept for a while, and none \
             survives a restart of the daemon"
        );
        Self::new(Code::NotFound, "EXEC_EXPIRED", message)
    }

    /// An execution of this id was there before the daemon restarted, and is gone.
    pub(super) fn restarted(id: &str, boot_id: &str) -> Self {
        let message = format!(
            "execution '{id}' belongs to an earlier run of the daemon; it ended with that daemon, and \
             its result is lost"
        );
        Self::new(Code::NotFound, "INSTANCE_RESTARTED", message).with("boot_id", &boot_id)
    }

    /// The request was meant for another run of the daemon.
    pub(super) fn other_boot(boot_id: &str) -> Self {
        let message = "'expected_boot_id' names an earlier run of the daemon; what that one had started \
                       ended with it, and nothing was started now: ask again with the boot_id of this one \
                       to run it in any case";
        Self::new(Code::NotFound, "INSTANCE_RESTARTED", message).with("boot_id", &boot_id)
    }

    /// The command has ended.
    pub(super) fn exec_ended(id: &str) -> Self {
        let message = format!("execution '{id}' has ended");
        Self::new(Code::FailedPrecondition, "EXEC_ENDED", message)
    }

    /// The command has no input to write to.
    pub(super) fn no_stdin(id: &str) -> Self {
        let message = format!(
            "execution '{id}' reads from /dev/null; start it with 'io.stdin' or 'io.pty' to write to it"
        );
        Self::new(Code::FailedPrecondition, "NO_STDIN", message)
    }

    /// The command has no terminal.
    pub(super) fn no_terminal(id: &str) -> Self {
        let message = format!("execution '{id}' has no terminal; start it with 'io.pty'");
        Self::new(Code::FailedPrecondition, "NO_TERMINAL", message)
    }

    /// A reader took nothing for too long.
    pub(super) fn slow_consumer(last_seq: u64) -> Self {
        Self::new(
            Code::Aborted,
            "SLOW_CONSUMER",
            "this stream was dropped because its reader took nothing for too long; attach again \
             after the last event that arrived",
        )
        .with("last_seq", &last_seq)
    }

    /// No such tool.
    pub(super) fn unknown_tool(name: &str, known: &str) -> Self {
        let message = format!("there is no tool '{name}'; known tools: {known}");
        Self::new(Code::NotFound, "TOOL_UNKNOWN", message)
    }

    /// The events asked for are gone.
    pub(super) fn cursor_expired() -> Self {
        Self::new(
            Code::OutOfRange,
            "CURSOR_EXPIRED",
            "events after this number are no longer held; attach without 'strict' to get the rest",
        )
    }

    /// The execution was told to end and has not ended yet.
    pub(super) fn still_ending(id: &str) -> Self {
        let message = format!(
            "execution '{id}' was told to end, and nothing says yet that it has; ask again, or Wait for it"
        );
        Self::new(Code::Unavailable, "EXEC_ENDING", message).retry_later()
    }

    /// The execution runs, and the call is for finished ones.
    pub(super) fn still_running(id: &str) -> Self {
        let message =
            format!("execution '{id}' is still running; terminate it first or set 'force'");
        Self::new(Code::FailedPrecondition, "EXEC_RUNNING", message)
    }

    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    #[cfg(test)]
    pub(super) fn kind(&self) -> (Code, &'static str) {
        (self.code, self.reason)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (code, reason) = match &refusal {
            Refusal::UnknownProfile { .. } | Refusal::AbstractProfile { .. } => {
                (Code::InvalidArgument, "PROFILE_UNKNOWN")
            }
            Refusal::TierTooLow { .. } | Refusal::LayerMissing { .. } => {
                (Code::FailedPrecondition, "SANDBOX_UNAVAILABLE")
            }
            Refusal::BadWorkspace { .. } => (Code::InvalidArgument, "WORKSPACE_REFUSED"),
            Refusal::BadCwd { .. } => (Code::InvalidArgument, "CWD_REFUSED"),
            Refusal::NoSession(_) => (Code::NotFound, "SESSION_EXPIRED"),
            Refusal::EnvDenied { .. } => (Code::InvalidArgument, "ENV_REFUSED"),
            Refusal::Malformed(_) => (Code::InvalidArgument, "INVALID_REQUEST"),
        };
        Self::new(code, reason, refusal.to_string())
    }
}

impl From<AdmitError> for Problem {
    fn from(error: AdmitError) -> Self {
        let message = error.to_string();
        match error {
            AdmitError::Conflict(_) => Self::new(Code::AlreadyExists, "EXEC_ID_CONFLICT", message),
            AdmitError::Expired(_) => Self::new(Code::NotFound, "EXEC_EXPIRED", message),
            AdmitError::Full(_) => full(message),
            AdmitError::Draining => draining(message),
        }
    }
}

impl From<NotStarted> for Problem {
    fn from(error: NotStarted) -> Self {
        match error {
            NotStarted::Refused(refusal) => refusal.into(),
            NotStarted::TooLarge(_) => Self::invalid(error.to_string()),
            NotStarted::Resources(_) => Self::new(
                Code::ResourceExhausted,
                "LIMIT_RESOURCES",
                error.to_string(),
            )
            .retry_later(),
            NotStarted::LauncherGone => launcher_gone(),
            NotStarted::Full(_) => full(error.to_string()),
            NotStarted::Draining => draining(error.to_string()),
        }
    }
}

fn full(message: String) -> Problem {
    Problem::new(Code::ResourceExhausted, "LIMIT_EXECS", message).retry_later()
}

fn draining(message: String) -> Problem {
    Problem::new(Code::Unavailable, "DRAINING", message).retry_later()
}

impl From<StdinError> for Problem {
    fn from(error: StdinError) -> Self {
        let message = error.to_string();
        match error {
            StdinError::Hole { expected } => Self::new(Code::OutOfRange, "STDIN_OFFSET", message)
                .with("expected_offset", &expected),
            StdinError::Closed => Self::new(Code::FailedPrecondition, "STDIN_CLOSED", message),
            StdinError::Ended => Self::new(Code::FailedPrecondition, "EXEC_ENDED", message),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Admit(error) => error.into(),
            SubmitError::NotStarted(error) => error.into(),
        }
    }
}

impl From<LinkError> for Problem {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::TooLarge(_) => Self::invalid(error.to_string()),
            LinkError::Gone | LinkError::Watch(_) | LinkError::Channel(_) => launcher_gone(),
        }
    }
}

impl From<ExplainError> for Problem {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Refused(refusal) => refusal.into(),
            ExplainError::Link(error) => error.into(),
        }
    }
}

impl From<ReloadError> for Problem {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Invalid(why) => {
                Self::new(Code::FailedPrecondition, "PROFILES_INVALID", why)
            }
            ReloadError::Link(error) => error.into(),
        }
    }
}

fn launcher_gone() -> Problem {
    Problem::new(
        Code::Unavailable,
        "LAUNCHER_GONE",
        "the launcher is gone and the daemon is going down; restart agentd",
    )
}

#[cfg(test)]
mod tests;
