//! How to reach the same daemon again after the connection broke.

use std::path::PathBuf;

use thiserror::Error;
use tonic::transport::Channel;

/// A way to a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connector {
    /// A Unix socket; every channel is one connection to it, that never dials again by itself.
    Unix(PathBuf),
    /// A private daemon: there is one connection, and the daemon ends with it.
    Once,
}

/// Why no connection came of dialling.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DialFailure {
    /// There is no second connection to a private daemon.
    #[error("the connection to the private agentd has ended, and agentd with it")]
    Never,
    /// No process listens there.
    #[error("nothing listens there any more")]
    NobodyListens,
    /// Something is there, but no conversation came of it.
    #[error("{0}")]
    Failed(String),
}

impl Connector {
    /// Whether a lost connection can be made again.
    #[must_use]
    pub fn can_redial(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Once => false,
        }
    }

    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Once => None,
        }
    }

    /// Makes a new connection.
    ///
    /// # Errors
    /// See [`DialFailure`].
    #[cfg(unix)]
    pub async fn dial(&self) -> Result<Channel, DialFailure> {
        use super::socket::{self, DialError};
        use std::io::ErrorKind;
        let Self::Unix(path) = self else {
            return Err(DialFailure::Never);
        };
        socket::connect(path).await.map_err(|error| match error {
            DialError::Dial(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::NotFound
                ) =>
            {
                DialFailure::NobodyListens
            }
            DialError::Dial(error) => DialFailure::Failed(error.to_string()),
            DialError::Speak(error) => DialFailure::Failed(error.to_string()),
        })
    }

    /// Makes a new connection. Without Unix sockets there is nothing to dial in this version.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub async fn dial(&self) -> Result<Channel, DialFailure> {
        std::future::ready(Err(DialFailure::Never)).await
    }
}
