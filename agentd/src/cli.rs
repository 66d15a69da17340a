//! The command line of `agentd`. Parsing only.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::profile_cli::ProfileCommand;

const EXAMPLES: &str = "\
Examples:
  agentd serve                                     listen on the default socket
  agentd serve --listen unix:/tmp/a.sock           listen somewhere else
  agentd check --config /etc/agentd/agentd.toml    say what would be enforced, without serving
  agentd doctor                                    what this host can enforce, and what is missing
  agentd profile explain workspace --path /etc/shadow --access read

Exit codes: 0 ok, 1 the answer is no, 64 usage, 69 launcher or listener unavailable, 70 bug,
77 not permitted, 78 configuration.";

/// Runs commands for AI agents in a sandbox.
#[derive(Debug, Parser)]
#[command(name = "agentd", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Form of the log on stderr. Its filter is `$AGENTD_LOG`, such as `debug`.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for a person.
    Text,
    /// A JSON object per line.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until told to stop.
    Serve(ServeArgs),
    /// Validate configuration and profiles against this host, and print what would be enforced.
    Check(ServeArgs),
    /// Print what this host can enforce, and the remedy for what it cannot.
    Doctor(DoctorArgs),
    /// Look at profiles.
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Print a completion script for a shell.
    Completions {
        /// Shell.
        shell: Shell,
    },
}

/// Arguments of `serve` and `check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ServeArgs {
    /// Configuration file (TOML: listen, profile-dirs, default-profile, allow-uids, allow-gids,
    /// max-execs, max-queued, max-sessions, drain-timeout, slow-reader-timeout).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen here; may be given more than once. Default: `$XDG_RUNTIME_DIR/agentd/agentd.sock`, as
    /// root `/run/agentd/agentd.sock`.
    #[arg(long, value_name = "unix:PATH", conflicts_with = "embedded")]
    pub listen: Vec<String>,
    /// Serve the one connection on standard input, and end with it.
    #[arg(long)]
    pub embedded: bool,
    /// Directory with further profiles; may be given more than once.
    #[arg(long, value_name = "DIR")]
    pub profile_dir: Vec<PathBuf>,
    /// Profile of requests that name none.
    #[arg(long, value_name = "NAME")]
    pub default_profile: Option<String>,
    /// The launcher's program. Default: next to agentd, then /usr/libexec/agentd/agentd-launcher.
    #[arg(long, value_name = "PATH")]
    pub launcher: Option<PathBuf>,
    /// Control groups: `auto` uses what the host has, `none` leaves only limits of single processes.
    #[arg(long, value_enum, default_value_t = CgroupChoice::Auto, value_name = "CHOICE")]
    pub cgroup: CgroupChoice,
}

/// Whether to use control groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CgroupChoice {
    /// Where the host has them.
    #[default]
    Auto,
    /// Not at all.
    None,
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The launcher's program.
    #[arg(long, value_name = "PATH")]
    pub launcher: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn listeners_and_embedded_exclude_each_other() {
        let parse = |words: &[&str]| Cli::try_parse_from(words).map(drop);
        let two = [
            "agentd", "serve", "--listen", "unix:/a", "--listen", "unix:/b",
        ];
        parse(&two).unwrap();
        parse(&["agentd", "serve", "--embedded"]).unwrap();
        parse(&["agentd", "serve", "--embedded", "--listen", "unix:/a"]).unwrap_err();
        parse(&["agentd"]).unwrap_err();
    }
}
