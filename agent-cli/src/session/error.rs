//! Why there is no session, and the exit code that says so.

use std::io;

use thiserror::Error;

use crate::{
    agent::ExitCode,
    config::{ConfigError, WorkspaceError},
    daemon::DaemonError,
    provider::{ProviderError, scripted::ScriptError},
    stdout,
};

/// Why there is no session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Model, key or address.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The recorded conversation.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The model's client.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The daemon failed or refused.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// No command could run in this workspace.
    #[error(transparent)]
    Place(DaemonError),
    /// No such profile.
    #[error("there is no profile '{name}'; known profiles: {known}")]
    UnknownProfile {
        /// Asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The host is too weak for it.
    #[error("profile '{name}' cannot be enforced here: {reason}")]
    ProfileUnavailable {
        /// Profile.
        name: String,
        /// Why, and the remedy.
        reason: String,
    },
    /// The result cannot be written.
    #[error("the result cannot be written to standard output; check where it is redirected to")]
    Write(#[source] io::Error),
    /// Signals cannot be watched.
    #[error("{what}")]
    Io {
        /// What failed, and the remedy.
        what: &'static str,
        /// Cause.
        source: io::Error,
    },
}

impl SessionError {
    /// 2 for what the person can put right on the command line or in the configuration, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Workspace(_)
            | Self::Script(_)
            | Self::UnknownProfile { .. }
            | Self::Place(DaemonError::Refused { .. }) => ExitCode::Usage.code(),
            Self::Daemon(error) if error.is_usage() => ExitCode::Usage.code(),
            Self::Write(error) => stdout::exit_code(error, ExitCode::Error.code()),
            Self::Provider(_)
            | Self::Daemon(_)
            | Self::Place(_)
            | Self::ProfileUnavailable { .. }
            | Self::Io { .. } => ExitCode::Error.code(),
        }
    }
}
