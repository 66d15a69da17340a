//! What a command is before it runs, and the message that asks for it.

use std::{path::PathBuf, time::Duration};

use agentd_proto::v1::{self, disconnect_policy::Policy};

use super::{DaemonError, SandboxChoice, convert, follow, link::Link, tools::wire_path};

/// How long the daemon keeps a command whose reader is gone: as long as the reader tries to come back.
const READER_GRACE: Duration = follow::PATIENCE;

/// A command to run.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Chosen by the client, unique.
    pub exec_id: String,
    /// What runs.
    pub command: ExecCommand,
    /// Where it runs.
    pub place: ExecPlace,
    /// Working directory; empty for the session's or the workspace.
    pub cwd: PathBuf,
    /// Variables to add.
    pub env: Vec<(String, String)>,
    /// Time limit; the daemon's default when absent.
    pub timeout: Option<Duration>,
    /// How long it may wait for its turn; the daemon's default when absent.
    pub queue: Option<Duration>,
    /// Its standard input.
    pub input: ExecInput,
    /// Most bytes of its output to keep in a file of its session; 0 for no file.
    pub output_file_bytes: u64,
}

/// Where a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecPlace {
    /// In a jail of its own.
    Sandbox(SandboxChoice),
    /// In a session's.
    Session(String),
}

/// What a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecInput {
    /// Nothing: `/dev/null`.
    #[default]
    Nothing,
    /// What is written to it.
    Pipe,
    /// A terminal of this size.
    Terminal(TerminalSize),
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns, 1 to 4096.
    pub columns: u16,
    /// Rows, 1 to 4096.
    pub rows: u16,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecCommand {
    /// A bash script.
    Script(Vec<u8>),
    /// A program and its arguments.
    Argv(Vec<Vec<u8>>),
}

/// What becomes of a command whose reader is gone: a reader that can come back is waited for.
pub(super) fn policy_of(link: &Link) -> Policy {
    if link.can_redial() {
        Policy::Grace(convert::wire_duration(READER_GRACE))
    } else {
        Policy::KillNow(true)
    }
}

/// The message that asks for a command.
pub(super) fn wire_spec(request: ExecRequest, policy: Policy) -> Result<v1::ExecSpec, DaemonError> {
    use v1::command_spec::Command;
    let command = match request.command {
        ExecCommand::Script(script) => Command::Shell(v1::ShellScript {
            script: script.into(),
        }),
        ExecCommand::Argv(argv) => Command::Argv(v1::Argv {
            argv: argv.into_iter().map(Into::into).collect(),
        }),
    };
    let (session_id, sandbox) = match request.place {
        ExecPlace::Sandbox(sandbox) => (String::new(), Some(sandbox.wire()?)),
        ExecPlace::Session(session_id) => (session_id, None),
    };
    Ok(v1::ExecSpec {
        session_id,
        exec_id: request.exec_id,
        command: Some(v1::CommandSpec {
            command: Some(command),
            cwd: wire_path(&request.cwd)?,
            env: Some(v1::EnvSpec {
                set: request.env.into_iter().collect(),
                unset: Vec::new(),
            }),
        }),
        limits: Some(v1::LimitRequest {
            timeout: request.timeout.map(convert::wire_duration),
            ..v1::LimitRequest::default()
        }),
        sandbox,
        io: Some(v1::IoSpec {
            output_file_bytes: request.output_file_bytes,
            ..wire_input(request.input)
        }),
        on_disconnect: Some(v1::DisconnectPolicy {
            policy: Some(policy),
        }),
        queue_timeout: request.queue.map(convert::wire_duration),
        ..v1::ExecSpec::default()
    })
}

fn wire_input(input: ExecInput) -> v1::IoSpec {
    let io = v1::IoSpec::default();
    match input {
        ExecInput::Nothing => io,
        ExecInput::Pipe => v1::IoSpec { stdin: true, ..io },
        ExecInput::Terminal(size) => v1::IoSpec {
            pty: Some(wire_size(size)),
            ..io
        },
    }
}

pub(super) fn wire_size(size: TerminalSize) -> v1::PtySize {
    v1::PtySize {
        columns: u32::from(size.columns),
        rows: u32::from(size.rows),
    }
}
