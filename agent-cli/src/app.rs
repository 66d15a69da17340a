//! From the command line to a command and its exit code. Prints an error once, at the top.

use std::{error::Error, ffi::OsString, io, process::ExitCode};

use clap::CommandFactory;
use thiserror::Error;

use crate::{
    args::{self, Cli, Command},
    complaint,
    config::Environment,
    demo, exec, jobs, repl, run, status, stdout,
};

/// Exit code of a program that cannot start.
const FAILURE: u8 = 1;

/// Why the program cannot start at all.
#[derive(Debug, Error)]
enum StartError {
    #[error("the current directory cannot be read; change to one that exists")]
    CurrentDir(#[source] io::Error),
    #[error("the event loop cannot be started; this process may be out of file descriptors")]
    Runtime(#[source] io::Error),
    #[error(
        "the completions cannot be written to standard output; check where it is redirected to"
    )]
    Completions(#[source] io::Error),
}

/// A failure and the exit code it has.
type Failed = (u8, Box<dyn Error>);

/// Runs the program. `arguments` starts with the program's name.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let code = match args::parse(&arguments) {
        Ok(cli) => perform(cli).unwrap_or_else(|(code, error)| {
            if code != stdout::READER_GONE {
                complaint::error(error.as_ref());
            }
            code
        }),
        Err(usage) => {
            usage.print();
            usage.code
        }
    };
    ExitCode::from(code)
}

/// Runs the command on an event loop of its own.
fn perform(cli: Cli) -> Result<u8, Failed> {
    let failure = match cli.command {
        Some(Command::Exec(_) | Command::Kill(_) | Command::Wait(_)) => exec::FAILURE,
        Some(
            Command::Run(_)
            | Command::Ps(_)
            | Command::Logs(_)
            | Command::Status(_)
            | Command::Demo
            | Command::Completions { .. },
        )
        | None => FAILURE,
    };
    let start = |error: StartError| (failure, error.into());
    let environment = Environment::capture()
        .map_err(StartError::CurrentDir)
        .map_err(start)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Runtime)
        .map_err(start)?;
    let result = runtime.block_on(command(cli, &environment));
    // A thread may still be blocked in a read of the terminal or a write to a pager.
    runtime.shutdown_background();
    result
}

async fn command(cli: Cli, environment: &Environment) -> Result<u8, Failed> {
    let global = &cli.global;
    match cli.command {
        Some(Command::Exec(args)) => exec::run(args, global, environment)
            .await
            .map_err(|error| (error.exit_code(), error.into())),
        Some(Command::Run(args)) => run::run(args, global, environment)
            .await
            .map_err(|error| (error.exit_code(), error.into())),
        Some(Command::Ps(args)) => jobs::list(args, global, environment)
            .await
            .map_err(|error| (error.exit_code(FAILURE), error.into())),
        Some(Command::Logs(args)) => jobs::logs(&args, global, environment)
            .await
            .map_err(|error| (error.exit_code(FAILURE), error.into())),
        Some(Command::Kill(args)) => jobs::kill(&args, global, environment)
            .await
            .map_err(|error| (error.exit_code(exec::FAILURE), error.into())),
        Some(Command::Wait(args)) => jobs::wait(&args, global, environment)
            .await
            .map_err(|error| (error.exit_code(exec::FAILURE), error.into())),
        Some(Command::Status(args)) => status::run(args, global, environment)
            .await
            .map_err(|error| (error.exit_code(), error.into())),
        Some(Command::Demo) => demo::run(global, environment)
            .await
            .map_err(|error| (error.exit_code(), error.into())),
        Some(Command::Completions { shell }) => {
            // Into memory first: the generator panics when a write fails.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "agent-cli", &mut script);
            match stdout::write(&script) {
                Ok(()) => Ok(0),
                Err(error) => Err((
                    stdout::exit_code(&error, FAILURE),
                    StartError::Completions(error).into(),
                )),
            }
        }
        None => repl::run(cli.prompt, global, environment)
            .await
            .map_err(|error| (error.exit_code(), error.into())),
    }
}
