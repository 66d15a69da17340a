//! From the command line to an exit code.

use std::{
    error::Error,
    io::{self, Write},
};

use clap::{CommandFactory, Parser, error::ErrorKind};
use thiserror::Error;

use crate::{
    cli::{Cli, Command},
    config::{Config, Environment, Purpose},
    exit::Exit,
    inspect,
    logging::{self, Verbosity},
    profile_cli, serve,
    startup::BootError,
    text::neutralise,
};

/// Runs what the arguments say.
pub(crate) fn run() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let environment = Environment::read();
    let verbosity = match &cli.command {
        Command::Serve(args) if !args.embedded => Verbosity::Service,
        Command::Serve(_)
        | Command::Check(_)
        | Command::Doctor(_)
        | Command::Profile(_)
        | Command::Completions { .. } => Verbosity::Quiet,
    };
    logging::start(cli.log_format, environment.log.as_deref(), verbosity);
    dispatch(cli.command, &environment)
}

fn dispatch(command: Command, environment: &Environment) -> Exit {
    match command {
        Command::Serve(args) => match Config::load(&args, environment, Purpose::Serve) {
            Ok(config) => serve::serve(config),
            Err(error) => complain(&error, Exit::Config),
        },
        Command::Check(args) => match Config::load(&args, environment, Purpose::Inspect) {
            Ok(config) => inspect::check(&config),
            Err(error) => complain(&error, Exit::Config),
        },
        Command::Doctor(args) => inspect::doctor(&args),
        Command::Profile(command) => profile_cli::run(&command),
        Command::Completions { shell } => {
            // Into memory first: the generator panics when it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "agentd", &mut script);
            print(&script, Exit::Ok)
        }
    }
}

/// `--help` and `--version` come as errors too.
fn refused(error: &clap::Error) -> Exit {
    if error.use_stderr() {
        return complain(&usage(error), Exit::Usage);
    }
    match error.print() {
        Ok(()) => Exit::Ok,
        Err(error) => unprinted(error, Exit::Ok),
    }
}

/// A mistake on the command line and its remedy, for one line.
#[derive(Debug, Error)]
#[error("{told}; see {command} --help")]
struct UsageError {
    told: String,
    command: String,
}

/// clap's several lines as one.
fn usage(error: &clap::Error) -> UsageError {
    let text = error.to_string();
    let command = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Usage: "))
        .map_or_else(|| "agentd".to_owned(), command_words);
    // What clap prints then is the whole help.
    let missing = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let told = if missing {
        "a command is missing".to_owned()
    } else {
        told(&text)
    };
    UsageError { told, command }
}

/// The lines before the usage, without clap's labels.
fn told(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .map(|line| line.strip_prefix("error: ").unwrap_or(line))
        .collect();
    neutralise(&lines.join(" ").replace(" tip: ", "; "))
}

/// `agentd serve` of `agentd serve [OPTIONS]`.
fn command_words(usage: &str) -> String {
    let words: Vec<&str> = usage
        .split_whitespace()
        .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    words.join(" ")
}

/// An answer did not get out.
#[derive(Debug, Error)]
#[error("cannot write to stdout")]
struct PrintError(#[source] io::Error);

/// Prints the answer of a command. Returns `exit`, or `Exit::Failed` when the answer did not get out.
pub(crate) fn print(answer: &[u8], exit: Exit) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(answer).and_then(|()| stdout.flush()) {
        Ok(()) => exit,
        Err(error) => unprinted(error, exit),
    }
}

fn unprinted(error: io::Error, exit: Exit) -> Exit {
    // A reader that has seen enough, such as `head`, is no failure.
    if error.kind() == io::ErrorKind::BrokenPipe {
        exit
    } else {
        complain(&PrintError(error), Exit::Failed)
    }
}

/// Says why there is no launcher, unless the launcher has said so itself.
pub(crate) fn boot_failed(error: &BootError) -> Exit {
    match error {
        BootError::Refused(exit) => *exit,
        BootError::NotFound
        | BootError::Start { .. }
        | BootError::Channel(_)
        | BootError::Died(_)
        | BootError::Silent
        | BootError::OtherVersion => complain(error, Exit::Unavailable),
    }
}

/// Says on stderr, in one line, what went wrong and why. Returns `exit`.
pub(crate) fn complain(error: &dyn Error, exit: Exit) -> Exit {
    let mut line = format!("agentd: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line.push('\n');
    // Nothing is left to be done about an output that is gone.
    drop(io::stderr().lock().write_all(line.as_bytes()));
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_command_line_is_one_line_that_points_to_the_help() {
        for (words, named, command) in [
            (&["agentd", "--bogus"][..], "--bogus", "agentd"),
            (&["agentd", "serv"], "'serve'", "agentd"),
            (&["agentd", "serve", "--bogus"], "--bogus", "agentd serve"),
            (
                &["agentd", "serve", "--embedded", "--listen", "unix:/a"],
                "--listen",
                "agentd serve",
            ),
            (
                &["agentd", "profile", "explain"],
                "required",
                "agentd profile explain",
            ),
            (
                &["agentd", "--log-format", "x\ny", "check"],
                "text, json",
                "agentd",
            ),
            (&["agentd"], "missing", "agentd"),
            (&["agentd", "profile"], "missing", "agentd profile"),
        ] {
            let line = usage(&Cli::try_parse_from(words).unwrap_err()).to_string();
            assert!(line.contains(named), "{line}");
            assert!(line.ends_with(&format!("; see {command} --help")), "{line}");
            assert!(!line.contains('\n'), "{line}");
            assert!(!line.contains("error:"), "{line}");
        }
    }
}
