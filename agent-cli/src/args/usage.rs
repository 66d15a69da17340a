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
            Some("ps") => "agent-cli ps",
            Some("logs") => "agent-cli logs",
            Some("kill") => "agent-cli kill",
            Some("wait") => "agent-cli wait",
            Some(_) | None => "agent-cli",
        });
        let code = match command {
            _ if !error.use_stderr() => 0,
            "agent-cli exec" | "agent-cli kill" | "agent-cli wait" => EXEC_FAILURE,
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
    if let (Some(prompt), None) = (&cli.prompt, &cli.command)
        && let Some(name) = nearest(prompt)
    {
        let text = format!(
            "there is no command '{prompt}', but there is '{name}'; if it is a prompt, give it to `agent-cli run`, or start agent-cli and type it"
        );
        return Err(refuse(
            Cli::command().error(ErrorKind::InvalidSubcommand, text),
        ));
    }
    Ok(cli)
}

/// The command that a prompt of one word was probably meant to be.
fn nearest(prompt: &str) -> Option<String> {
    let word = prompt.to_lowercase();
    let command = Cli::command();
    command
        .get_subcommands()
        .map(clap::Command::get_name)
        .filter(|name| name.len() >= MIN_NAME)
        .find(|name| {
            let allowed = if name.len() > LONG_NAME { 2 } else { 1 };
            typos(&word, name) <= allowed
        })
        .map(str::to_owned)
}

/// Names shorter than this resemble too many words.
const MIN_NAME: usize = 3;
/// Names longer than this may have two mistakes in them.
const LONG_NAME: usize = 5;

/// How many letters are missing, superfluous, wrong, or swapped with their neighbour.
fn typos(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(MAX_WORD).collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i.saturating_add(1)];
        for (j, b) in right.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX);
            let after = j.saturating_add(1);
            let replaced = at(&row, j).saturating_add(usize::from(a != b));
            let removed = at(&row, after).saturating_add(1);
            let added = at(&next, j).saturating_add(1);
            let mut best = replaced.min(removed).min(added);
            let swapped = i > 0
                && j > 0
                && left.get(i.wrapping_sub(1)) == Some(b)
                && right.get(j.wrapping_sub(1)) == Some(a);
            if swapped {
                best = best.min(at(&before, j.wrapping_sub(1)).saturating_add(1));
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(usize::MAX)
}

/// Longer words resemble no command.
const MAX_WORD: usize = 32;

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
