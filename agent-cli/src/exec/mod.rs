//! `agent-cli exec`: one command in the jail, without a model.

mod capture;
mod code;
mod follow;
mod notes;
mod report;
mod request;
mod sink;

use std::{io, time::Duration};

use thiserror::Error;

pub use code::{FAILURE, exit_code};
pub use follow::{Failure, Followed, LostBytes, follow};
pub use notes::{blocked, denial, notes};
pub use report::{Captures, Report};
pub use request::{RequestError, prepare};
pub use sink::Sink;

use crate::{
    args::{ExecArgs, GlobalArgs},
    complaint,
    config::Environment,
    daemon::{Daemon, DaemonError, ExecCommand},
    signals::Signals,
    stdout,
};

/// Why no command was run, or its end cannot be told.
#[derive(Debug, Error)]
pub enum ExecError {
    /// The command line cannot be turned into a request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The daemon failed or refused.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Signals cannot be watched.
    #[error("signals cannot be watched, so a running command could not be ended")]
    Signals(#[source] io::Error),
    /// The report cannot be written.
    #[error("the report cannot be written to standard output; check where it is redirected to")]
    Write(#[source] io::Error),
    /// Output cannot be written.
    #[error(
        "standard output cannot be written, so the command was ended; check where it is redirected to"
    )]
    Output(#[source] io::Error),
    /// The command did not end.
    #[error("the command had not ended {} s after the signal; agentd ends it as its reader is gone", .0.as_secs())]
    StillRunning(Duration),
}

impl ExecError {
    /// 125, or 141 when the reader of the output went away.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Write(error) | Self::Output(error) => stdout::exit_code(error, FAILURE),
            Self::Request(_) | Self::Daemon(_) | Self::Signals(_) | Self::StillRunning(_) => {
                FAILURE
            }
        }
    }
}

/// Runs the command and returns the exit code.
///
/// # Errors
/// See [`ExecError`].
pub async fn run(
    args: ExecArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, ExecError> {
    let json = args.json;
    let request = prepare(args, global, environment)?;
    let names = Names {
        exec_id: request.exec_id.clone(),
        program: program(&request.command),
    };
    let mut signals = Signals::install().map_err(ExecError::Signals)?;
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let mut sink = if json { Sink::captured() } else { Sink::live() };
    let followed = follow(&daemon, request, &mut sink, &mut signals).await;
    daemon.close().await;
    finish(&names, followed, &sink)
}

/// What the command is called.
#[derive(Debug)]
struct Names {
    exec_id: String,
    /// The program that was to be started.
    program: String,
}

fn program(command: &ExecCommand) -> String {
    match command {
        ExecCommand::Script(_) => "bash".to_owned(),
        ExecCommand::Argv(argv) => argv
            .first()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .unwrap_or_default(),
    }
}

/// Says what happened, and turns it into an exit code.
fn finish(names: &Names, mut followed: Followed, sink: &Sink) -> Result<u8, ExecError> {
    let failure = followed.failure.take();
    let signal = followed.signal.map(crate::signals::Signal::exit_code);
    match (failure, signal) {
        // A refusal or an unreachable daemon: nothing ran, so there is nothing to report.
        (Some(Failure::Daemon(error @ DaemonError::Refused { .. })), None) => Err(error.into()),
        (Some(Failure::Output(error)), _) => Err(ExecError::Output(error)),
        (failure, signal) => {
            // A person is told why the end is unknown by the error itself.
            if failure.is_none() || matches!(sink, Sink::Captured(_)) {
                report(names, &followed, sink)?;
            }
            match (failure, signal) {
                (_, Some(code)) => Ok(code),
                (Some(Failure::Daemon(error)), None) => Err(error.into()),
                (Some(Failure::StillRunning), None) => {
                    Err(ExecError::StillRunning(follow::STOP_TIMEOUT))
                }
                (Some(Failure::Output(error)), None) => Err(ExecError::Output(error)),
                (None, None) => Ok(exit_code(&followed.outcome)),
            }
        }
    }
}

fn report(names: &Names, followed: &Followed, sink: &Sink) -> Result<(), ExecError> {
    match sink {
        Sink::Captured(captures) => {
            let line = Report::new(&names.exec_id, followed, captures)
                .line()
                .map_err(|error| ExecError::Write(error.into()))?;
            stdout::write(line.as_bytes()).map_err(ExecError::Write)
        }
        Sink::Live { .. } => {
            for note in notes(&names.program, &followed.outcome, followed.lost) {
                complaint::line(&note);
            }
            Ok(())
        }
    }
}
