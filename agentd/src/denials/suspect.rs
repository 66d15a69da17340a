//! A path or address on which a command may have been refused, and the verdict on it.

use std::collections::HashSet;

use agentd_sandbox::{
    explain::{Query, Verdict},
    policy::PathAccess,
};

use super::MAX_DENIALS;
use crate::exec::{Denial, DenialSource};

/// What a command seems to have been refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Suspect {
    /// Access to a path, absolute.
    Path {
        /// Path.
        path: String,
        /// What was tried.
        access: Access,
    },
    /// A connection.
    Connect {
        /// Host name or address.
        host: String,
        /// Port; 0 when unknown.
        port: u16,
    },
}

/// The two ways in which a path is tried, as far as an error message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read, list or enter.
    Read,
    /// Make, change, remove or rename.
    Create,
}

impl Suspect {
    /// The question to the policy.
    #[must_use]
    pub fn query(&self) -> Query {
        match self {
            Self::Path { path, access } => Query::Path {
                path: path.into(),
                access: match access {
                    Access::Read => PathAccess::Read,
                    Access::Create => PathAccess::Create,
                },
            },
            Self::Connect { host, port } => Query::Connect {
                host: host.clone(),
                port: *port,
            },
        }
    }

    fn denial(&self, verdict: &Verdict) -> Denial {
        let (access, path, port) = match self {
            Self::Path { path, access } => (
                match access {
                    Access::Read => PathAccess::Read.as_str(),
                    Access::Create => PathAccess::Create.as_str(),
                },
                path.clone(),
                0,
            ),
            Self::Connect { port, .. } => ("connect", String::new(), *port),
        };
        Denial {
            access,
            path,
            port,
            layer: verdict
                .layers
                .first()
                .map(|layer| layer.name().to_owned())
                .unwrap_or_default(),
            rule: verdict.rule.clone(),
            source: DenialSource::Inferred,
            text: verdict.text.clone(),
        }
    }
}

/// The suspects that the policy does refuse, each once, at most [`MAX_DENIALS`]. `verdicts` are the
/// answers to their questions, in order.
#[must_use]
pub fn judge(suspects: &[Suspect], verdicts: &[Verdict]) -> Vec<Denial> {
    let mut seen = HashSet::new();
    suspects
        .iter()
        .zip(verdicts)
        .filter(|(suspect, verdict)| !verdict.allowed && seen.insert(*suspect))
        .map(|(suspect, verdict)| suspect.denial(verdict))
        .take(MAX_DENIALS)
        .collect()
}
