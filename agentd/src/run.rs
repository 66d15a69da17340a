//! From the command line to an exit code.

use std::{
    error::Error,
    io::{self, Write},
};

use clap::{CommandFactory, Parser};

use crate::{
    cli::{Cli, Command},
    config::{Config, Environment},
    exit::Exit,
    inspect,
    logging::{self, Verbosity},
    profile_cli, serve,
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
        Command::Serve(args) => match Config::load(&args, environment) {
            Ok(config) => serve::serve(config),
            Err(error) => complain(&error, Exit::Config),
        },
        Command::Check(args) => match Config::load(&args, environment) {
            Ok(config) => inspect::check(&config),
            Err(error) => complain(&error, Exit::Config),
        },
        Command::Doctor(args) => inspect::doctor(&args),
        Command::Profile(command) => profile_cli::run(&command),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "agentd", &mut io::stdout());
            Exit::Ok
        }
    }
}

/// `--help` and `--version` come as errors too.
fn refused(error: &clap::Error) -> Exit {
    // Nothing is left to be done about an output that is gone.
    drop(error.print());
    if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Ok
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
