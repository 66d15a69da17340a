//! What a person types. One thread owns standard input, so that a prompt and a question never read from it
//! at the same time; it is blocked while it waits, and nothing else is.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use rustyline::{
    Editor, Helper, completion::Completer, config::Configurer, error::ReadlineError,
    highlight::Highlighter, hint::Hinter, history::DefaultHistory, validate::Validator,
};
use tokio::sync::oneshot;

use super::{Ink, Style};

/// A request for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The next prompt of the conversation; it goes into the history of lines.
    Prompt(String),
    /// A question with a short answer.
    Confirm(String),
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of a file.
    End,
}

type Job = (Question, oneshot::Sender<Line>);

/// Standard input.
#[derive(Debug)]
pub struct Input {
    jobs: mpsc::Sender<Job>,
}

impl Input {
    /// Starts the reading thread. With a terminal on both sides lines can be edited, and the earlier ones
    /// are kept in `history`; else they are read as they come.
    #[must_use]
    pub fn start(style: Style, history: Option<PathBuf>) -> Self {
        let (jobs, inbox) = mpsc::channel();
        thread::spawn(move || {
            if io::stdin().is_terminal() && io::stdout().is_terminal() {
                edit(&inbox, style, history.as_deref());
            } else {
                read(&inbox);
            }
        });
        Self { jobs }
    }

    /// Asks for a line. Dropping the future withdraws the question, but a line that is being typed then
    /// still belongs to it.
    pub async fn ask(&self, question: Question) -> Line {
        let (answer, line) = oneshot::channel();
        if self.jobs.send((question, answer)).is_err() {
            return Line::End;
        }
        line.await.unwrap_or(Line::End)
    }
}

/// Does nothing but exist: the editor uses a coloured prompt only when it has a helper.
struct Colours;

impl Completer for Colours {
    type Candidate = String;
}
impl Hinter for Colours {
    type Hint = String;
}
impl Highlighter for Colours {}
impl Validator for Colours {}
impl Helper for Colours {}

type LineEditor = Editor<Colours, DefaultHistory>;

fn edit(inbox: &mpsc::Receiver<Job>, style: Style, history: Option<&Path>) {
    let Ok(mut editor) = LineEditor::new() else {
        return read(inbox);
    };
    editor.set_helper(Some(Colours));
    editor.set_auto_add_history(false);
    if let Some(path) = history {
        // A first session has no history, and a broken one is not worth an error.
        drop(editor.load_history(path));
    }
    for (question, answer) in inbox {
        let (Question::Prompt(text) | Question::Confirm(text)) = &question;
        let styled = style.paint(Ink::Prompt, text);
        let line = match editor.readline(&(text.as_str(), styled.as_str())) {
            Ok(line) => Line::Text(line),
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(_ended) => Line::End,
        };
        if let (Question::Prompt(_), Line::Text(text)) = (&question, &line) {
            remember(&mut editor, text, history);
        }
        // The asker may have given up; there may be another one.
        drop(answer.send(line));
    }
}

fn remember(editor: &mut LineEditor, text: &str, history: Option<&Path>) {
    if text.trim().is_empty() || !editor.add_history_entry(text).unwrap_or(false) {
        return;
    }
    if let Some(path) = history {
        let parent = path.parent().unwrap_or(path);
        // Without a place to keep it, the history lives as long as the session.
        drop(std::fs::create_dir_all(parent).and_then(|()| {
            editor
                .save_history(path)
                .map_err(|error| io::Error::other(error.to_string()))
        }));
    }
}

fn read(inbox: &mpsc::Receiver<Job>) {
    let interactive = io::stdin().is_terminal();
    for (question, answer) in inbox {
        if interactive {
            let (Question::Prompt(text) | Question::Confirm(text)) = &question;
            whisper(text);
        }
        let mut line = String::new();
        let line = match io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => Line::End,
            Ok(_) => Line::Text(line.trim_end_matches(['\n', '\r']).to_owned()),
        };
        drop(answer.send(line));
    }
}

/// Asks a yes-or-no question on standard error before anything else runs; only `y` and `yes` agree.
#[must_use]
pub fn confirm(question: &str) -> bool {
    whisper(&format!("{} [y/N] ", super::neutral(question)));
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

fn whisper(text: &str) {
    let mut err = io::stderr().lock();
    // Nobody is left to be told that standard error is closed.
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}
