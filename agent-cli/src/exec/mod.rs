//! `agent-cli exec`: one command in the jail, without a model.

mod capture;
mod code;
mod feed;
mod follow;
mod notes;
mod report;
mod request;
mod sink;

use std::{
    convert::Infallible,
    future,
    io::{self, IsTerminal},
    time::Duration,
};

use thiserror::Error;

pub use code::{FAILURE, exit_code};
pub use follow::{Failure, Followed, LostBytes, follow};
pub use notes::{blocked, denial, notes};
pub use report::{Captures, Report};
pub use request::{NamedSession, Prepared, RequestError, prepare};
pub use sink::Sink;

use crate::{
    args::{ExecArgs, GlobalArgs},
    complaint,
    config::Environment,
    daemon::{Daemon, DaemonError, ExecCommand, ExecInput, ExecPlace, ExecRequest},
    local::RawTerminal,
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
    /// A command that outlives this one needs a daemon that does.
    #[error(
        "a private agentd ends with this command, and so would one in the background; start `agentd serve`, or name a daemon with --connect"
    )]
    PrivateBackground,
    /// Output that is kept needs a daemon that stays.
    #[error(
        "a private agentd ends with this command, and the kept output with it; start `agentd serve`, or name a daemon with --connect"
    )]
    PrivateKept,
    /// The terminal cannot be used.
    #[error("the terminal cannot be put into raw mode; leave out --pty")]
    Terminal(#[source] io::Error),
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
            Self::Request(_)
            | Self::Daemon(_)
            | Self::Signals(_)
            | Self::PrivateBackground
            | Self::PrivateKept
            | Self::Terminal(_)
            | Self::StillRunning(_) => FAILURE,
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
    let prepared = prepare(args, global, environment)?;
    let mut signals = Signals::install().map_err(ExecError::Signals)?;
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let mut sink = if json { Sink::captured() } else { Sink::live() };
    let done = perform(&daemon, prepared, &mut sink, &mut signals).await;
    daemon.close().await;
    match done? {
        Done::Started(text) => {
            stdout::write(text.as_bytes()).map_err(ExecError::Write)?;
            Ok(0)
        }
        Done::Followed(names, followed) => finish(&names, *followed, &sink),
    }
}

/// What was done.
#[derive(Debug)]
enum Done {
    /// The command runs in the background; what is printed about it.
    Started(String),
    /// The command has ended.
    Followed(Names, Box<Followed>),
}

async fn perform(
    daemon: &Daemon,
    prepared: Prepared,
    sink: &mut Sink,
    signals: &mut Signals,
) -> Result<Done, ExecError> {
    let Prepared {
        request,
        session,
        background,
    } = prepared;
    if background && daemon.is_private() {
        return Err(ExecError::PrivateBackground);
    }
    if request.output_file_bytes > 0 && daemon.is_private() {
        return Err(ExecError::PrivateKept);
    }
    if let Some(session) = &session {
        let workspace = session.workspace.as_deref();
        daemon.use_session(&session.scope, workspace).await?;
    }
    if background {
        let job = daemon.start_background(request).await?;
        return Ok(Done::Started(match sink {
            Sink::Captured(_) => {
                serde_json::to_string(&job).map_err(|error| ExecError::Write(error.into()))? + "\n"
            }
            Sink::Live { .. } => job.exec_id + "\n",
        }));
    }
    let names = Names::of(&request);
    // Given back before anything is said about the command.
    let raw = match request.input {
        ExecInput::Terminal(_) if io::stdin().is_terminal() => {
            // ORDER: before the terminal is changed, so that no signal leaves it so.
            signals.install_for_terminal().map_err(ExecError::Signals)?;
            RawTerminal::enter().map_err(ExecError::Terminal)?
        }
        ExecInput::Terminal(_) | ExecInput::Nothing | ExecInput::Pipe => None,
    };
    let followed = tokio::select! {
        followed = follow(daemon, request, sink, signals) => followed,
        never = attend(raw.as_ref()) => match never {},
    };
    drop(raw);
    Ok(Done::Followed(names, Box::new(followed)))
}

async fn attend(raw: Option<&RawTerminal>) -> Infallible {
    match raw {
        Some(raw) => raw.attend().await,
        None => future::pending().await,
    }
}

/// What the command is called.
#[derive(Debug)]
struct Names {
    exec_id: String,
    session_id: Option<String>,
    /// The program that was to be started.
    program: String,
    /// Its output was to be kept.
    is_kept: bool,
}

impl Names {
    fn of(request: &ExecRequest) -> Self {
        Self {
            exec_id: request.exec_id.clone(),
            session_id: match &request.place {
                ExecPlace::Session(id) => Some(id.clone()),
                ExecPlace::Sandbox(_) => None,
            },
            program: program(&request.command),
            is_kept: request.output_file_bytes > 0,
        }
    }
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
                .of_session(names.session_id.as_deref())
                .line()
                .map_err(|error| ExecError::Write(error.into()))?;
            stdout::write(line.as_bytes()).map_err(ExecError::Write)
        }
        Sink::Live { .. } => {
            let started = followed.started.iter();
            for note in started.flat_map(|started| &started.notes) {
                complaint::line(note);
            }
            let limits = followed.started.as_ref().map(|started| &started.limits);
            let known = (followed.lost, limits);
            for note in notes(&names.program, &followed.outcome, known) {
                complaint::line(&note);
            }
            if names.session_id.is_some()
                && let Some(note) = notes::moved(followed)
            {
                complaint::line(&note);
            }
            if names.is_kept && followed.started.is_some() {
                complaint::line(&notes::kept(&names.exec_id, &followed.outcome));
            }
            Ok(())
        }
    }
}
