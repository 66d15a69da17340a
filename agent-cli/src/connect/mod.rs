//! How a daemon is reached: an address that was given, one that is already running, or a private one.
//! Knows sockets and processes; knows nothing of what is asked of the daemon.

mod address;
mod connector;
#[cfg(unix)]
mod embedded;
#[cfg(unix)]
mod socket;

use std::{io, path::PathBuf, process::ExitStatus};

use thiserror::Error;
use tonic::transport::Channel;

use crate::{complaint::AlreadyTold, config::Environment};

pub use address::{Address, AddressError};
pub use connector::{Connector, DialFailure};
#[cfg(unix)]
pub use embedded::Embedded;
#[cfg(unix)]
pub use socket::never_sent;

/// A private daemon; there are none where there are no Unix sockets.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum Embedded {}

/// Why no daemon was reached. Each text names the remedy.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The address is of no use.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody answers at an address that was asked for.
    #[error(
        "no agentd answers at {}; start one with `agentd serve`, or leave out --connect and AGENTD_SOCKET to get a private one",
        path.display()
    )]
    Unreachable {
        /// Socket.
        path: PathBuf,
        /// Cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A daemon accepted the connection and closed it without a word, as agentd does with users that it
    /// does not admit.
    #[error(
        "agentd at {} closed the connection: it probably does not admit this user; its operator sets allow-uids or allow-gids",
        path.display()
    )]
    Closed {
        /// Socket.
        path: PathBuf,
    },
    /// There is no daemon program.
    #[error(
        "agentd is neither next to agent-cli nor in PATH; build it with `cargo build --workspace`, or connect to a running one with --connect"
    )]
    NoProgram,
    /// The daemon program cannot be started.
    #[error("cannot start {}; check that it is an executable for this machine", path.display())]
    Start {
        /// Program.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The private daemon ended before it answered.
    #[error(
        "the private agentd ended before it answered ({status}); its message stands above, `agentd doctor` explains what this host lacks"
    )]
    Ended {
        /// How.
        status: ExitStatus,
    },
    /// The private daemon ended and has said why.
    #[error("the private agentd refused to start")]
    Refused(#[source] AlreadyTold),
    /// The transport failed.
    #[error("the connection to the private agentd failed; run `agentd doctor`")]
    Transport {
        /// Cause.
        source: tonic::transport::Error,
    },
    /// No private daemon on this system.
    #[error("there is no private agentd on this system; name one with --connect")]
    NoEmbedded,
}

/// Exit codes with which agentd has told its one line: wrong usage, not permitted, wrong configuration or
/// a host that cannot enforce it.
const TOLD_CODES: [i32; 3] = [64, 77, 78];

impl ConnectError {
    /// The private daemon ended before it answered.
    #[must_use]
    pub fn ended(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) if TOLD_CODES.contains(&code) => Self::Refused(AlreadyTold),
            Some(_) | None => Self::Ended { status },
        }
    }

    /// Nothing came of dialling `path`.
    #[cfg(unix)]
    fn of_dialling(path: PathBuf, source: socket::DialError) -> Self {
        if socket::hung_up(&source) {
            Self::Closed { path }
        } else {
            let source = Box::new(source);
            Self::Unreachable { path, source }
        }
    }
}

/// A connection, and the daemon process when it is ours.
#[derive(Debug)]
pub struct Connection {
    /// gRPC channel.
    pub channel: Channel,
    /// The private daemon; it lives as long as the channel.
    pub embedded: Option<Embedded>,
    /// How to reach the daemon again.
    pub connector: Connector,
}

/// Whether a call failed before any of it was sent; not known where there are no sockets.
#[cfg(not(unix))]
#[must_use]
pub fn never_sent(_error: &(dyn std::error::Error + 'static)) -> bool {
    false
}

/// Reaches a daemon: `asked` (from `--connect`), else `AGENTD_SOCKET`, else one that runs, else a private one.
///
/// # Errors
/// An address that was asked for does not answer, or no private daemon can be started.
#[cfg(unix)]
pub async fn connect(
    asked: Option<&str>,
    environment: &Environment,
) -> Result<Connection, ConnectError> {
    let named = match asked {
        Some(text) => Some(Address::parse(text)?),
        None => match &environment.agentd_socket {
            Some(value) => Some(Address::from_variable(value)?),
            None => None,
        },
    };
    if let Some(Address::Unix(path)) = named {
        return match socket::connect(&path).await {
            Ok(channel) => Ok(Connection {
                channel,
                embedded: None,
                connector: Connector::Unix(path),
            }),
            Err(source) => Err(ConnectError::of_dialling(path, source)),
        };
    }
    for path in address::usual_places(environment.runtime_dir.as_deref()) {
        if !path.exists() {
            continue;
        }
        match socket::connect(&path).await {
            Ok(channel) => {
                return Ok(Connection {
                    channel,
                    embedded: None,
                    connector: Connector::Unix(path),
                });
            }
            // The first call fails as often as dialling does: both have to say the same.
            Err(source) if socket::hung_up(&source) => return Err(ConnectError::Closed { path }),
            // A stale or forbidden socket is no reason to fail: nobody asked for it.
            Err(_) => {}
        }
    }
    let (channel, embedded) = Embedded::start(environment).await?;
    Ok(Connection {
        channel,
        embedded: Some(embedded),
        connector: Connector::Once,
    })
}

/// Reaches a daemon. Without Unix sockets there is none to reach in this version.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub async fn connect(
    asked: Option<&str>,
    _environment: &Environment,
) -> Result<Connection, ConnectError> {
    if let Some(text) = asked {
        Address::parse(text)?;
    }
    Err(ConnectError::NoEmbedded)
}

#[cfg(all(test, unix))]
mod tests {
    use super::ConnectError;
    use crate::complaint;
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    #[test]
    fn a_private_daemon_that_has_told_why_it_ended_needs_no_second_line() {
        for (code, told) in [(64, true), (77, true), (78, true), (1, false), (70, false)] {
            let error = ConnectError::ended(ExitStatus::from_raw(code << 8));
            assert_eq!(complaint::is_told(&error), told, "{code}");
        }
        let killed = ConnectError::ended(ExitStatus::from_raw(9));
        assert!(!complaint::is_told(&killed), "{killed}");
    }
}
