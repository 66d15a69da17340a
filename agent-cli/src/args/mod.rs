//! The command line, as data. Parsing only: nothing here opens a file, reads the environment or decides
//! what to do.
#![expect(
    clippy::doc_markdown,
    reason = "the comments of the arguments are their help text, which is no Markdown"
)]

mod help;
mod usage;
mod value;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use help::{
    EXAMPLES, EXEC_EXAMPLES, KILL_EXAMPLES, LOGS_EXAMPLES, PS_EXAMPLES, RUN_EXAMPLES, WAIT_EXAMPLES,
};
pub use usage::{Usage, parse};
pub use value::{EnvPair, Id, SignalArg, StdinMark, TimeoutArg};

use crate::provider::ProviderChoice;

/// Everything the command line says.
#[derive(Debug, Clone, Parser)]
#[command(name = "agent-cli", version, about, after_help = EXAMPLES)]
#[command(about = "Runs a coding agent whose commands are executed by agentd, in a jail")]
pub struct Cli {
    /// First prompt of an interactive session
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Options that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// Command; without one, an interactive session.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Daemon to use [default: $AGENTD_SOCKET, a running local one, else a private one]
    #[arg(long, global = true, value_name = "unix:///PATH")]
    pub connect: Option<String>,
    /// Profile of the jail [default: the daemon's, normally "workspace"]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// Directory the commands may work in [default: the current directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Model [default: MODEL_ID]
    #[arg(long, global = true, value_name = "NAME")]
    pub model: Option<String>,
    /// Where replies come from: anthropic, or scripted:FILE (a recorded conversation)
    #[arg(
        long,
        global = true,
        value_name = "PROVIDER",
        default_value = "anthropic"
    )]
    pub provider: ProviderChoice,
    /// Header that carries the key [default: x-api-key, or bearer for ANTHROPIC_AUTH_TOKEN]
    #[arg(long, global = true, value_name = "HEADER")]
    pub auth: Option<AuthMode>,
    /// What happens before a tool call runs in the jail
    #[arg(long, global = true, value_name = "MODE", default_value = "allow")]
    pub permissions: PermissionMode,
    /// Let .env choose the host that a key from the environment is sent to
    #[arg(long, global = true)]
    pub allow_base_url: bool,
}

/// Header that carries the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthMode {
    /// `Authorization: Bearer`
    Bearer,
    /// `x-api-key`
    XApiKey,
}

/// What happens before a tool call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PermissionMode {
    /// Ask each time; without a terminal this denies
    Ask,
    /// Run it: the jail confines it
    #[default]
    Allow,
    /// Deny every call
    Deny,
}

/// A command.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Run one task to its end, without a conversation
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run one command in the jail, without a model
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// List the commands that a daemon knows
    #[command(after_help = PS_EXAMPLES)]
    Ps(PsArgs),
    /// Print what a command has printed
    #[command(after_help = LOGS_EXAMPLES)]
    Logs(LogsArgs),
    /// End a command with everything it started, or send it a signal
    #[command(after_help = KILL_EXAMPLES)]
    Kill(KillArgs),
    /// Wait for the end of a command
    #[command(after_help = WAIT_EXAMPLES)]
    Wait(WaitArgs),
    /// Show the daemon, the host and what it can enforce
    Status(StatusArgs),
    /// Watch the whole loop on a throw-away project with a scripted model; needs no key
    Demo,
    /// Print a completion script for a shell
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The task
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub prompt: String,
    /// text: the final answer; json: one object; stream-json: one event a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output_format: OutputFormat,
    /// Most rounds of tool calls
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: u32,
}

/// Output of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The final answer
    Text,
    /// One object
    Json,
    /// One event a line
    StreamJson,
}

/// Arguments of `exec`.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub struct ExecArgs {
    /// Print one JSON object instead of the command's output
    #[arg(long)]
    pub json: bool,
    /// Time limit such as 90s, 10m or 1h; the profile may lower it [default: 120s]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<TimeoutArg>,
    /// Directory to start in; relative to the workspace [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Variable to add, as far as the profile permits it
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<EnvPair>,
    /// Run it in this session of the daemon, which is opened if it does not exist
    #[arg(long, value_name = "ID")]
    pub session: Option<Id>,
    /// Let it run on, as long as its session lives; print its id
    #[arg(long, requires = "session", conflicts_with_all = ["pty", "forward_stdin"])]
    pub background: bool,
    /// Keep the whole output, up to 256 MiB, for the session's commands and `logs`
    #[arg(long, requires = "session")]
    pub keep_output: bool,
    /// Run it on a terminal, of the size of this one
    #[arg(long, conflicts_with = "json")]
    pub pty: bool,
    /// Pass standard input on to the command [default: the command reads nothing]
    #[arg(long = "stdin", conflicts_with = "stdin")]
    pub forward_stdin: bool,
    /// How long to wait when the daemon runs as many commands as it may [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub queue_timeout: Option<TimeoutArg>,
    /// Take the script from a file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["stdin", "command"])]
    pub file: Option<PathBuf>,
    /// Take the script from standard input
    #[arg(value_name = "-", conflicts_with_all = ["command", "pty"])]
    pub stdin: Option<StdinMark>,
    /// One string: a bash script. Several: a program and its arguments
    #[arg(
        last = true,
        value_name = "SCRIPT",
        required_unless_present_any = ["file", "stdin"]
    )]
    pub command: Vec<OsString>,
}

/// Arguments of `ps`.
#[derive(Debug, Clone, Copy, Args)]
pub struct PsArgs {
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `logs`.
#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// Go on until the command ends
    #[arg(short, long)]
    pub follow: bool,
    /// Begin with this byte, counted over both streams
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    pub from: u64,
    /// Id, as printed by exec --background or ps
    #[arg(value_name = "EXEC_ID")]
    pub exec_id: Id,
}

/// Arguments of `kill`.
#[derive(Debug, Clone, Args)]
pub struct KillArgs {
    /// Send only this signal, such as INT or USR1, to every process of it
    #[arg(long, value_name = "NAME")]
    pub signal: Option<SignalArg>,
    /// Id, as printed by exec --background or ps
    #[arg(value_name = "EXEC_ID")]
    pub exec_id: Id,
}

/// Arguments of `wait`.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// Id, as printed by exec --background or ps
    #[arg(value_name = "EXEC_ID")]
    pub exec_id: Id,
}

/// Arguments of `status`.
#[derive(Debug, Clone, Copy, Args)]
pub struct StatusArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
