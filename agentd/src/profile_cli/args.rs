//! The arguments of `agentd profile`. Parsing only.

use std::path::PathBuf;

use agentd_sandbox::policy::PathAccess;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};

/// Look at profiles.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List the profiles and whether this host can enforce them.
    List(ListArgs),
    /// Print a profile with the place of every rule.
    Show(ShowArgs),
    /// Would a profile allow this? Exits with 0 when it is allowed, with 1 when it is denied.
    #[command(after_help = EXAMPLES)]
    Explain(ExplainArgs),
}

const EXAMPLES: &str = "\
Examples:
  agentd profile explain workspace --path /etc/shadow --access read
  agentd profile explain workspace --path .git/hooks/pre-commit --access create
  agentd profile explain strict --host example.org:443
  agentd profile explain strict --syscall ptrace";

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one JSON array.
    #[arg(long)]
    pub json: bool,
    /// Directory with further profiles, instead of the usual one; may be given more than once.
    #[arg(long, value_name = "DIR")]
    pub profile_dir: Vec<PathBuf>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Profile.
    pub name: String,
    /// Print what it means on this host for one workspace: variables filled in, the tier applied.
    #[arg(long)]
    pub resolved: bool,
    /// Workspace. Default: the current directory.
    #[arg(long, value_name = "DIR", requires = "resolved")]
    pub workspace: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Directory with further profiles, instead of the usual one; may be given more than once.
    #[arg(long, value_name = "DIR")]
    pub profile_dir: Vec<PathBuf>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("question").required(true).args(["path", "host", "syscall"]))]
pub struct ExplainArgs {
    /// Profile.
    pub profile: String,
    /// Ask about a path; a relative one is taken from the workspace. Symbolic links are not followed.
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// What is to be done with the path.
    #[arg(long, value_enum, default_value_t = AccessArg::Read, conflicts_with_all = ["host", "syscall"])]
    pub access: AccessArg,
    /// Ask about a connection, as HOST:PORT.
    #[arg(long, value_name = "HOST:PORT")]
    pub host: Option<String>,
    /// Ask about a system call, by name.
    #[arg(long, value_name = "NAME")]
    pub syscall: Option<String>,
    /// Workspace. Default: the current directory.
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Directory with further profiles, instead of the usual one; may be given more than once.
    #[arg(long, value_name = "DIR")]
    pub profile_dir: Vec<PathBuf>,
}

/// Access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccessArg {
    /// Read a file, list a directory.
    Read,
    /// Change an existing file.
    Write,
    /// Execute a file.
    Exec,
    /// Make, remove or rename an entry.
    Create,
}

impl From<AccessArg> for PathAccess {
    fn from(access: AccessArg) -> Self {
        match access {
            AccessArg::Read => Self::Read,
            AccessArg::Write => Self::Write,
            AccessArg::Exec => Self::Exec,
            AccessArg::Create => Self::Create,
        }
    }
}
