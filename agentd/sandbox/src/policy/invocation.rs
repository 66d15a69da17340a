//! A request to run something, validated in form. It names a profile and may only narrow it.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Who asks, as the kernel says (`SO_PEERCRED`), not as a message claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    /// A bash script; its bytes come as a file descriptor beside the request.
    Script,
    /// A program and its arguments, each free of NUL bytes.
    Argv(Vec<Vec<u8>>),
}

/// What the command reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stdin {
    /// `/dev/null`.
    Null,
    /// A pipe; its read end comes as a file descriptor beside the request.
    Pipe,
}

/// Limits asked for; an absent one means the profile's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitRequest {
    /// Wall clock in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Longest silence in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// Time between TERM and KILL in milliseconds.
    pub kill_grace_ms: Option<u64>,
    /// CPU seconds of one process.
    pub cpu_seconds: Option<u64>,
    /// Memory of the tree in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the tree.
    pub pids: Option<u64>,
    /// Bytes of one file.
    pub file_size_bytes: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Bytes of output.
    pub output_bytes: Option<u64>,
}

/// A request to run something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Profile name.
    pub profile: String,
    /// Workspace, absolute.
    pub workspace: PathBuf,
    /// Working directory, absolute; `None` for the workspace root.
    pub cwd: Option<PathBuf>,
    /// What is executed.
    pub program: Program,
    /// Variables added to the environment.
    pub env_set: BTreeMap<String, String>,
    /// Variables removed from it.
    pub env_unset: Vec<String>,
    /// Limits.
    pub limits: LimitRequest,
    /// Who asks.
    pub caller: Caller,
    /// Standard input.
    pub stdin: Stdin,
}
