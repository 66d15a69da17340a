//! From the process's arguments to a `Cli`, or to what is printed instead of running.

use std::ffi::{OsStr, OsString};

use clap::{CommandFactory, Parser, error::ErrorKind};

use super::Cli;
use crate::complaint;

/// Exit code of a wrong command line.
pub(super) const USAGE: u8 = 2;
/// Exit code of a wrong command line of `exec`, which shares its codes with the command it runs.
pub(super) const EXEC_FAILURE: u8 = 125;

/// What is printed instead of running.
#[derive(Debug)]
pub struct Usage {
    error: clap::Error,
    command: &'static str,
    /// Exit code: 0 for `--help` and `--version`, else 2, or 125 for `exec`.
    pub code: u8,
}

impl Usage {
    /// Prints help to standard output and mistakes, in one line, to standard error.
    pub fn print(&self) {
        if self.code == 0 {
            // A closed output cannot be told about a closed output.
            drop(self.error.print());
        } else {
            complaint::line(&self.text());
        }
    }

    /// The help, or the mistake and its remedy in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.error.to_string();
        if self.code == 0 {
            return text;
        }
        let told: Vec<&str> = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:"))
            .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
            .map(|line| line.strip_prefix("error: ").unwrap_or(line))
            .collect();
        let told = told.join(" ").replace(" tip: ", "; ");
        format!("{told}; see {} --help", self.command)
    }
}

/// Parses arguments; the first one is the program's name.
///
/// # Errors
/// Help, version and mistakes, boxed because clap's error is large.
pub fn parse(arguments: &[OsString]) -> Result<Cli, Box<Usage>> {
    let refuse = |error: clap::Error| {
        let command = Cli::command();
        let word = first_word(&command, arguments);
        let command = word.map_or("agent-cli", |word| match word.to_str() {
            Some("exec") => "agent-cli exec",
            Some("run") => "agent-cli run",
            Some("status") => "agent-cli status",
            Some(_) | None => "agent-cli",
        });
        let code = match command {
            _ if !error.use_stderr() => 0,
            "agent-cli exec" => EXEC_FAILURE,
            _ => USAGE,
        };
        Box::new(Usage {
            error,
            command,
            code,
        })
    };
    let cli = Cli::try_parse_from(arguments).map_err(refuse)?;
    if cli.prompt.is_some() && cli.command.is_some() {
        let text = "a prompt and a command exclude each other; quote a prompt of several words";
        return Err(refuse(
            Cli::command().error(ErrorKind::ArgumentConflict, text),
        ));
    }
    Ok(cli)
}

/// The first argument that is neither an option nor an option's value.
fn first_word<'a>(command: &clap::Command, arguments: &'a [OsString]) -> Option<&'a OsStr> {
    let valued: Vec<String> = command
        .get_arguments()
        .filter(|arg| arg.get_action().takes_values())
        .filter_map(|arg| arg.get_long().map(|name| format!("--{name}")))
        .collect();
    let mut rest = arguments.iter().skip(1);
    while let Some(word) = rest.next() {
        if valued.iter().any(|option| word == option.as_str()) {
            rest.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(word);
        }
    }
    None
}
