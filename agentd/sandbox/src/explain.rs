//! Questions about a policy, and their answers. Pure.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::{Layer, PathAccess};

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Query {
    /// May the command access this path?
    Path {
        /// Absolute path; `.` and `..` are resolved in the text, symbolic links are not.
        path: PathBuf,
        /// Access.
        access: PathAccess,
    },
    /// May the command connect there?
    Connect {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// May the command call this system call?
    Syscall {
        /// Name.
        name: String,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Verdict {
    /// The answer.
    pub allowed: bool,
    /// Rule as `file:line`, or `default`.
    pub rule: String,
    /// Layers that enforce it, the first one first.
    pub layers: Vec<Layer>,
    /// One sentence for a person.
    pub text: String,
}
