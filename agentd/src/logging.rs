//! The log on stderr. It holds what the daemon did, never what a command said, was given or printed.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// What is logged unless asked otherwise: trouble, and nothing of libraries below it.
const DEFAULT_FILTER: &str = "warn,agentd=info";

/// The default of an embedded daemon, whose stderr is a person's terminal.
const QUIET_FILTER: &str = "warn";

/// How much is logged when the environment says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Starts and stops too.
    Service,
    /// Only trouble.
    Quiet,
}

/// Starts logging. A filter that does not parse is said and replaced by the default.
pub(crate) fn start(format: LogFormat, filter: Option<&str>, verbosity: Verbosity) {
    let default = match verbosity {
        Verbosity::Service => DEFAULT_FILTER,
        Verbosity::Quiet => QUIET_FILTER,
    };
    let (parsed, problem) = match filter.map(EnvFilter::try_new) {
        Some(Ok(parsed)) => (parsed, None),
        Some(Err(error)) => (EnvFilter::new(default), Some(error)),
        None => (EnvFilter::new(default), None),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(io::stderr)
        .with_target(false);
    // An error means that a log is there already, which is all that is wanted.
    drop(match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    });
    if let Some(error) = problem {
        tracing::warn!(%error, "AGENTD_LOG is not a filter; using '{default}'");
    }
}
