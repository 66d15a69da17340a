//! `agent-cli run`: one task to its end, without a conversation.

mod events;

use std::{
    io::{self, Write},
    sync::Arc,
};

use crate::{
    agent::{ExitCode, TurnEnd},
    args::{GlobalArgs, OutputFormat, PermissionMode, RunArgs},
    config::Environment,
    daemon::Daemon,
    session::{self, Company, Interrupts, Place, Session, SessionError, Turn},
    signals::Signal,
    stdout,
    terminal::{Ink, Input, Screen, Style, Voice, neutral},
};

use events::{JsonLines, Silent};

/// Runs the task and returns the exit code.
///
/// # Errors
/// See [`SessionError`].
pub async fn run(
    args: RunArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, SessionError> {
    let place = Place::choose(global, environment)?;
    let mut source = session::choose(global, environment, &place.sandbox)?;
    source.max_turns = args.max_turns;
    let mut interrupts = Interrupts::install()?;
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;

    let lines = Arc::new(JsonLines::new(Arc::clone(&interrupts.unread)));
    let person = match global.permissions {
        PermissionMode::Ask if environment.streams.interactive => {
            Some(Arc::new(Input::start(Style::Plain, None)))
        }
        PermissionMode::Ask | PermissionMode::Allow | PermissionMode::Deny => None,
    };
    let company = Company {
        observer: match args.output_format {
            OutputFormat::Text => Arc::new(progress(environment)),
            OutputFormat::Json => Arc::new(Silent),
            OutputFormat::StreamJson => Arc::clone(&lines) as _,
        },
        person,
        interrupted: Arc::clone(&interrupts.typed),
    };
    let mut session = match Session::open(daemon, source, (place, global), company).await {
        Ok(session) => session,
        Err((error, daemon)) => {
            daemon.close().await;
            return Err(error);
        }
    };
    if args.output_format == OutputFormat::StreamJson {
        lines.init(&session.about);
    }
    let turn = session::take(&mut session.agent, &args.prompt, &mut interrupts).await;
    let session_id = session.about.session_id.clone();
    session.close().await;
    let written = match args.output_format {
        OutputFormat::Text => tell(&turn, Style::of(environment)),
        OutputFormat::Json | OutputFormat::StreamJson => lines.result(&session_id, &turn),
    };
    written.map_err(SessionError::Write)
}

/// What happens on the way goes to standard error, so that standard output holds the answer only.
fn progress(environment: &Environment) -> Screen {
    let style = if environment.streams.interactive {
        Style::of(environment)
    } else {
        Style::Plain
    };
    Screen::new(Box::new(io::stderr()), style, Voice::Asides)
}

/// Prints the answer, or what stood in its way. Returns the exit code.
fn tell(turn: &Turn, style: Style) -> io::Result<u8> {
    let end = match turn {
        Turn::Ended(end) => end,
        Turn::Leave(signal) => return Ok(signal.exit_code()),
    };
    let text = neutral(end.text.trim_end());
    let written = if text.is_empty() {
        Ok(())
    } else {
        stdout::write(format!("{text}\n").as_bytes())
    };
    if let Some(message) = failure(end) {
        let line = style.paint(Ink::Failure, &neutral(&message));
        drop(writeln!(io::stderr().lock(), "agent-cli: {line}"));
    }
    written.map(|()| end.reason.exit_code().code())
}

/// One line about a turn that did not end well.
fn failure(end: &TurnEnd) -> Option<String> {
    use crate::agent::EndReason;
    match &end.reason {
        EndReason::Failed { message, .. } => Some(message.clone()),
        EndReason::Interrupted => Some("interrupted".to_owned()),
        EndReason::Denied => Some(
            "every command was denied; pass --permissions allow to run commands in the jail"
                .to_owned(),
        ),
        EndReason::Refusal => Some("the model declined the task".to_owned()),
        EndReason::Done | EndReason::MaxTurns | EndReason::Truncated => None,
    }
}

/// The exit code of a turn.
fn exit_code(turn: &Turn) -> u8 {
    match turn {
        Turn::Ended(end) => end.reason.exit_code().code(),
        Turn::Leave(Signal::Interrupt) => ExitCode::Interrupted.code(),
        Turn::Leave(Signal::Terminate) => ExitCode::Terminated.code(),
    }
}
