//! Why a request is refused before anything runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Layer, Tier};

/// A request that the policy refuses. Nothing was started. The text names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Refusal {
    /// No such profile.
    #[error("there is no profile '{name}'; known profiles: {known}")]
    UnknownProfile {
        /// Name asked for.
        name: String,
        /// Known names, comma separated.
        known: String,
    },
    /// The profile exists only to be extended.
    #[error("profile '{name}' only serves as a parent of others; use one of: {known}")]
    AbstractProfile {
        /// Name asked for.
        name: String,
        /// Usable names, comma separated.
        known: String,
    },
    /// The host's tier is below the profile's minimum.
    #[error("profile '{profile}' requires tier {required}, this host gives {available}: {remedy}")]
    TierTooLow {
        /// Profile.
        profile: String,
        /// Tier required.
        required: Tier,
        /// Tier of the host.
        available: Tier,
        /// What would raise it.
        remedy: String,
    },
    /// A layer that the profile requires does not work here.
    #[error(
        "profile '{profile}' requires the layer '{layer}', which this host does not give: {remedy}"
    )]
    LayerMissing {
        /// Profile.
        profile: String,
        /// Layer.
        layer: Layer,
        /// What would bring it.
        remedy: String,
    },
    /// The workspace cannot be one.
    #[error("{} cannot be a workspace: {reason}", path.display())]
    BadWorkspace {
        /// Path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The working directory is not readable under the policy.
    #[error("working directory {} is outside what profile '{profile}' lets a command read", path.display())]
    BadCwd {
        /// Path.
        path: PathBuf,
        /// Profile.
        profile: String,
    },
    /// A variable that the profile does not let a request set.
    #[error("environment variable '{name}' may not be set by a request: {reason}")]
    EnvDenied {
        /// Name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The session is not open, or belongs to another profile, workspace or caller.
    #[error("the session is not open: {0}")]
    NoSession(String),
    /// The request's form is wrong.
    #[error("{0}")]
    Malformed(String),
}
