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
    Argv(#[serde(with = "super::words")] Vec<Vec<u8>>),
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
    /// CPU seconds of the tree.
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
    /// Bytes by which the writable file systems may grow.
    pub disk_bytes: Option<u64>,
}

/// Names a session between the two processes. Chosen by the front end, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

/// Size of a terminal in characters, 1 to 4096 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

impl TerminalSize {
    /// Most columns or rows.
    const MOST: u16 = 4096;

    /// Whether both numbers are in range.
    #[must_use]
    pub fn is_possible(self) -> bool {
        [self.columns, self.rows]
            .iter()
            .all(|number| (1..=Self::MOST).contains(number))
    }
}

/// How long a command may live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// As long as its call: the profile's wall clock holds.
    #[default]
    Call,
    /// As long as its session: no wall clock unless one is asked for.
    Session,
}

/// What a command inherits from its session. Unlike what the request sets itself, nothing in here makes
/// a request fail: what the policy does not permit is left out, and a directory that is gone or
/// forbidden is replaced by the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Carried {
    /// Working directory that the last command left; the request's own `cwd` wins.
    pub cwd: Option<PathBuf>,
    /// Variables that earlier commands exported.
    pub env_set: BTreeMap<String, String>,
    /// Variables of the profile that earlier commands unset.
    pub env_unset: Vec<String>,
}

/// What a command of a session is given beyond one of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InSession {
    /// The session; it must be open, with the same profile, workspace and caller.
    pub session: SessionKey,
    /// State of the session.
    pub carried: Carried,
    /// Report directory and exported variables at the end, through the descriptor `state`.
    ///
    /// Only a script reports, and only once, when bash ends by itself, by `exit`, or by a signal that it
    /// handles. One that replaces the EXIT trap, calls `exec` or is killed reports nothing; nor does a
    /// program without a shell, or a script whose environment holds `POSIXLY_CORRECT`. What comes is
    /// untrusted: any process of the command can write to the descriptor, which the command sees as 254.
    ///
    /// The bytes are `DIRECTORY LF NUL DECLARATIONS NUL`. `DIRECTORY` is the absolute working directory
    /// as `pwd -P` prints it, byte for byte; it may hold line feeds of its own, only the last one is not
    /// part of it. Directory and line feed are both absent when the directory is gone. `DECLARATIONS` is
    /// the output of bash's `declare -px`: for each variable, in any order, `declare -FLAGS NAME` and,
    /// unless it is exported without a value, `="VALUE"` (with `\`, `"`, `$` and a backquote escaped by
    /// `\`) or, when it holds control characters, `=$'VALUE'` (with the escapes of ANSI-C quoting); then
    /// a line feed. `FLAGS` holds `x` among others; one with `a` or `A` is an array, which no command
    /// can inherit. Neither name nor quoting ever holds a NUL. The second NUL is the proof that nothing
    /// is missing; without it the whole report is worthless. The descriptor may stay open after that in
    /// processes that outlive the leader, so its end is no condition.
    ///
    /// The report is read while the command runs: it may be larger than what a pipe holds, and the
    /// leader then waits for its reader.
    pub report_state: bool,
    /// Name of a file below [`OUTPUT_DIR`] that the front end fills with the output: 1 to 64 characters
    /// of `[A-Za-z0-9_-]`.
    pub output_file: Option<String>,
}

/// Where commands of a session find the kept output of earlier ones (read only; on the nested tier
/// the directory has another name, which the `Started` event tells).
pub const OUTPUT_DIR: &str = "/run/output";

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
    /// Standard input. Ignored with a terminal.
    pub stdin: Stdin,
    /// Run on a terminal of its own of this size.
    #[serde(default)]
    pub terminal: Option<TerminalSize>,
    /// How long it may live.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// The session, if it is in one.
    #[serde(default)]
    pub in_session: Option<Box<InSession>>,
}
