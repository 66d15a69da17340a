//! Questions about a policy, and their answers. Pure: the answers come from the policy alone and are the
//! oracle for tests against the kernel, so they say what is enforced, not what was wished for.

mod connect;
mod path;
mod show;
mod syscalls;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use show::show;

use crate::policy::{Layer, PathAccess, Policy};

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

/// Answers `query` for a command that runs under `policy`.
pub fn explain(policy: &Policy, query: &Query) -> Verdict {
    match query {
        Query::Path { path, access } => path::verdict(policy, path, *access),
        Query::Connect { host, port } => connect::verdict(policy, host, *port),
        Query::Syscall { name } => syscalls::verdict(policy, name),
    }
}

/// The place of a single value of the policy, or `default`.
fn source(policy: &Policy, key: &str) -> String {
    policy
        .sources
        .get(key)
        .map_or_else(|| DEFAULT.to_owned(), ToString::to_string)
}

/// The rule of what no rule names.
const DEFAULT: &str = "default";
