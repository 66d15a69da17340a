//! `agent-cli demo`: the real loop, daemon and jail with a recorded model on a throw-away project. Only the
//! replies are recorded, and the recording fails when reality differs from it. Afterwards the result is
//! checked from outside the loop.

mod project;
mod verify;

use std::{io, sync::Arc};

use thiserror::Error;

use crate::{
    agent::{EndReason, ExitCode, Settings, TurnEnd},
    args::GlobalArgs,
    config::Environment,
    daemon::{Daemon, DaemonError, SandboxChoice},
    provider::scripted::{ScriptError, ScriptedProvider},
    session::{self, Company, Interrupts, ModelSource, Place, Session, SessionError, Turn},
    stdout,
    terminal::{Ink, Screen, Style, Voice},
};

use project::{Project, ProjectError};
use verify::Check;

const CONVERSATION: &str = include_str!("../../demo/conversation.json");
const TASK: &str = "The test of this project fails. Find out why and fix it.";

/// Why the demo could not be shown.
#[derive(Debug, Error)]
pub enum DemoError {
    /// The project could not be made.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The recording is broken.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// No session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The daemon failed or refused.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Output cannot be written.
    #[error("the demo cannot be written to standard output; check where it is redirected to")]
    Write(#[from] io::Error),
}

impl DemoError {
    /// 2 for what the person can put right on the command line, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Session(error) => error.exit_code(),
            Self::Daemon(error) if error.is_usage() => ExitCode::Usage.code(),
            Self::Project(_) | Self::Script(_) | Self::Daemon(_) => ExitCode::Error.code(),
            Self::Write(error) => stdout::exit_code(error, ExitCode::Error.code()),
        }
    }
}

/// Shows the demo. Returns 0 only if everything that it promises was found to hold.
///
/// # Errors
/// See [`DemoError`].
pub async fn run(global: &GlobalArgs, environment: &Environment) -> Result<u8, DemoError> {
    let project = Project::create(&project::place(&environment.temp_dir))?;
    let style = Style::of(environment);
    let mut stage = Stage {
        project: &project,
        style,
        interrupts: Interrupts::install()?,
    };
    let place = stage.place(global);
    let provider = Arc::new(ScriptedProvider::from_json(
        CONVERSATION,
        &[("outside", &project.outside().to_string_lossy())],
    )?);
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let source = ModelSource {
        provider: Arc::clone(&provider) as _,
        model: "recorded".to_owned(),
        max_turns: Settings::DEFAULT_MAX_TURNS,
    };
    let company = Company {
        observer: Arc::new(Screen::new(Box::new(io::stdout()), style, Voice::Streamed)),
        person: None,
        interrupted: Arc::clone(&stage.interrupts.typed),
    };
    let mut session = match Session::open(daemon, source, (place.clone(), global), company).await {
        Ok(session) => session,
        Err((error, daemon)) => {
            daemon.close().await;
            return Err(error.into());
        }
    };
    let shown = stage.show(&mut session, &provider, place).await;
    session.close().await;
    shown
}

/// What the demo plays on.
struct Stage<'a> {
    project: &'a Project,
    style: Style,
    interrupts: Interrupts,
}

impl Stage<'_> {
    fn place(&self, global: &GlobalArgs) -> Place {
        let workspace = self.project.workspace().to_owned();
        Place {
            cwd: workspace.clone(),
            sandbox: SandboxChoice {
                profile: global.profile.clone(),
                workspace,
            },
        }
    }

    async fn show(
        &mut self,
        session: &mut Session,
        provider: &ScriptedProvider,
        place: Place,
    ) -> Result<u8, DemoError> {
        self.open()?;
        let turn = session::take(&mut session.agent, TASK, &mut self.interrupts).await;
        let end = match turn {
            Turn::Ended(end) if end.reason == EndReason::Interrupted => return Ok(130),
            Turn::Ended(end) => end,
            Turn::Leave(signal) => return Ok(signal.exit_code()),
        };
        let mut checks = vec![ended_well(&end), played(provider)];
        checks.extend(self.project.checks());
        let signals = &mut self.interrupts.signals;
        let proof = verify::in_the_jail(&session.daemon, place, (self.project, signals)).await?;
        checks.extend(proof.checks);
        say(&verify::verdicts(&checks, self.style))?;
        say(&verify::confinement(&proof.sandbox))?;
        Ok(u8::from(!checks.iter().all(|check| check.holds)))
    }

    fn open(&self) -> io::Result<()> {
        let kind = if self.project.has_git() {
            "a throw-away git project"
        } else {
            "a throw-away directory, as there is no git"
        };
        say(&format!(
            "The model of this demo is a recording. The loop, the daemon and the jail are real.\n\
             Workspace: {} ({kind})\n\n{}{TASK}\n",
            self.project.workspace().display(),
            self.style.paint(Ink::Prompt, "agent >> "),
        ))
    }
}

fn say(text: &str) -> io::Result<()> {
    stdout::write(format!("{text}\n").as_bytes())
}

fn ended_well(end: &TurnEnd) -> Check {
    Check {
        holds: end.reason == EndReason::Done,
        what: match &end.reason {
            EndReason::Failed { message, .. } => {
                let first = message.lines().next().unwrap_or_default();
                format!("the turn ended by itself: {first}")
            }
            reason @ (EndReason::Done
            | EndReason::MaxTurns
            | EndReason::Denied
            | EndReason::Refusal
            | EndReason::Truncated
            | EndReason::Interrupted) => {
                format!("the turn ended by itself: {}", reason.as_str())
            }
        },
    }
}

fn played(provider: &ScriptedProvider) -> Check {
    let left = provider.remaining();
    Check {
        holds: left == 0,
        what: match left {
            0 => "what the commands printed was what the recording had met".to_owned(),
            left => format!("{left} recorded replies were never asked for"),
        },
    }
}
