//! The interactive session: prompts in, turns out. The conversation outlives each turn.

mod command;

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use command::{Entered, understand};

use crate::{
    args::GlobalArgs,
    complaint,
    config::Environment,
    daemon::Daemon,
    session::{self, Company, Interrupts, Place, Session, SessionError, Turn},
    signals::Signal,
    status::Status,
    terminal::{Ink, Input, Line, Question, Screen, Style, Voice, neutral},
};

const PROMPT: &str = "agent >> ";
const HELP: &str = "\
Enter a task or a question; the agent runs commands in the jail to do it.
  /status   the daemon, the host, the profiles
  /help     this text
  /quit     leave, as do q, exit and Ctrl-D
Ctrl-C interrupts a turn and keeps the session; pressed again within 2 seconds it leaves.";

/// Runs the session and returns the exit code.
///
/// # Errors
/// See [`SessionError`].
pub async fn run(
    prompt: Option<String>,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, SessionError> {
    let place = Place::choose(global, environment)?;
    let source = session::choose(global, environment, &place.sandbox)?;
    let interrupts = Interrupts::install()?;
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let style = Style::of(environment);
    let input = Arc::new(Input::start(style, history_file(environment)));
    let company = Company {
        observer: Arc::new(Screen::new(Box::new(io::stdout()), style, Voice::Streamed)),
        // Without a terminal the lines of standard input are prompts, never answers.
        person: environment.streams.interactive.then(|| Arc::clone(&input)),
        interrupted: Arc::clone(&interrupts.typed),
    };
    let mut session = match Session::open(daemon, source, (place, global), company).await {
        Ok(session) => session,
        Err((error, daemon)) => {
            daemon.close().await;
            return Err(error);
        }
    };
    if environment.streams.interactive {
        greet(&session, style);
    }
    let code = Conversation {
        session: &mut session,
        input,
        interrupts,
    }
    .hold(prompt)
    .await;
    session.close().await;
    Ok(code)
}

fn history_file(environment: &Environment) -> Option<PathBuf> {
    let directory = environment.state_dir.as_ref()?;
    Some(directory.join("agent-cli").join("history"))
}

fn greet(session: &Session, style: Style) {
    let about = &session.about;
    let place = neutral(&format!(
        "agent-cli: {} in {}, profile {} ({})",
        about.model,
        about.cwd.display(),
        about.profile,
        about.tier
    ));
    say(&format!(
        "{}\nEnter a question, press Enter to send. Type q to quit.\n",
        style.paint(Ink::Prompt, &place)
    ));
}

/// Writes to standard output; when that is closed, the next read ends the session.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

struct Conversation<'a> {
    session: &'a mut Session,
    input: Arc<Input>,
    interrupts: Interrupts,
}

impl Conversation<'_> {
    /// Takes prompts until the person leaves. Returns the exit code.
    async fn hold(mut self, first: Option<String>) -> u8 {
        if let Some(prompt) = first
            && let Some(code) = self.turn(&prompt).await
        {
            return code;
        }
        loop {
            let line = tokio::select! {
                line = self.input.ask(Question::Prompt(PROMPT.to_owned())) => line,
                // Only without a terminal: line editing takes Ctrl-C as a key.
                signal = self.interrupts.signals.next() => return signal.exit_code(),
            };
            let entered = match &line {
                Line::Text(text) => understand(text),
                Line::Interrupted => Entered::Nothing,
                Line::End => return 0,
            };
            match entered {
                Entered::Nothing => {}
                Entered::Quit => return 0,
                Entered::Help => say(HELP),
                Entered::Status => self.status().await,
                Entered::Unknown(name) => {
                    say(&format!(
                        "there is no {}; /help lists what there is",
                        neutral(name)
                    ));
                }
                Entered::Prompt(prompt) => {
                    if let Some(code) = self.turn(prompt).await {
                        return code;
                    }
                }
            }
        }
    }

    /// Runs a turn; an exit code when the program has to leave.
    async fn turn(&mut self, prompt: &str) -> Option<u8> {
        let agent = &mut self.session.agent;
        match session::take(agent, prompt, &mut self.interrupts).await {
            Turn::Ended(_) => None,
            Turn::Leave(signal @ (Signal::Interrupt | Signal::Terminate)) => {
                Some(signal.exit_code())
            }
        }
    }

    async fn status(&self) {
        match Status::ask(&self.session.daemon).await {
            Ok(status) => say(&status.text()),
            Err(error) => complaint::error(&error),
        }
    }
}
