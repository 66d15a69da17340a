//! The environment of a command.

use std::collections::BTreeMap;

/// The profile's part of the environment, variables not yet substituted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    /// Names whose value is taken from the daemon's own environment at its start.
    pub pass: Vec<String>,
    /// Fixed values; `${…}` variables allowed.
    pub set: BTreeMap<String, String>,
    /// Patterns (a name, or a name with one leading or trailing `*`) that no request may set.
    pub deny: Vec<String>,
}
