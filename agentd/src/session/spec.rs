//! A validated request for a session, and where a session is in its life.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use agentd_sandbox::policy::{Caller, Refusal};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::SessionId;
use crate::exec::Labels;

/// Lease of a session that asks for none.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(300);

/// Longest lease.
pub const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// A validated request. `rpc` makes it from the wire; nothing else does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSpec {
    /// Id chosen by the client.
    pub id: Option<SessionId>,
    /// Whose it is.
    pub caller: Caller,
    /// Profile name.
    pub profile: String,
    /// Workspace, absolute.
    pub workspace: PathBuf,
    /// First working directory, absolute; `None` for the workspace.
    pub cwd: Option<PathBuf>,
    /// Variables that the first command begins with.
    pub env_set: BTreeMap<String, String>,
    /// Variables of the profile that it begins without.
    pub env_unset: Vec<String>,
    /// Time without a sign of life after which the session is over.
    pub lease: Duration,
    /// Labels.
    pub labels: Labels,
}

impl SessionSpec {
    /// Two requests with equal digests are the same request: a retry, not a new session.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        // The derived form quotes and names every field, so that no two requests look alike.
        Sha256::digest(format!("{self:?}")).into()
    }
}

/// Why a session was not opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotOpened {
    /// The policy refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The launcher did not answer in time.
    #[error("the launcher did not open the session in time; try again later")]
    Late,
    /// The launcher is gone.
    #[error("the launcher is gone; restart agentd")]
    LauncherGone,
}

/// Where a session is in its life. It only moves on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The launcher makes it ready.
    Opening,
    /// Commands may start in it.
    Open,
    /// It never was open.
    NotOpened(NotOpened),
    /// What runs in it is being ended.
    Closing,
    /// Nothing of it is left.
    Closed {
        /// Executions that still ran and were ended.
        terminated: u32,
    },
}
