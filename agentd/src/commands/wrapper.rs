//! Programs that run other commands: what they would run, read from their arguments.
//!
//! Knowledge about options is data in [`table`]; an option that is not known there is taken to have no
//! separate value.

mod options;
mod table;

use self::{
    options::Options,
    table::{Style, WRAPPERS},
};
use super::{program, word::Word};

/// What a wrapper runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// A command: program and arguments.
    Command(Vec<Word>),
    /// The text of a script.
    Script(String),
}

/// What the command runs in its turn. `input` holds the texts given to its standard input.
pub(super) fn inner(words: &[Word], input: &[String]) -> Vec<Inner> {
    let Some((first, arguments)) = words.split_first() else {
        return Vec::new();
    };
    let Some(wrapper) = program::known_name(first).and_then(|name| {
        WRAPPERS
            .iter()
            .find(|wrapper| wrapper.names.contains(&name))
    }) else {
        return Vec::new();
    };
    let options = Options::read(wrapper, arguments);
    match wrapper.style {
        Style::Words => command(options.rest(wrapper.operands)),
        Style::Joined => joined(options.rest(0)),
        Style::Env => env(&options),
        Style::Command if options.has('v') || options.has('V') => Vec::new(),
        Style::Command => command(options.rest(0)),
        Style::Shell => shell(&options, input),
        Style::OptionC => option_c(&options, wrapper.operands),
        Style::FirstOperand => match options.rest(0) {
            [script, _, ..] => vec![Inner::Script(script.script.clone())],
            _ => Vec::new(),
        },
        Style::Find => find(arguments),
    }
}

fn command(words: &[Word]) -> Vec<Inner> {
    match words {
        [] => Vec::new(),
        words => vec![Inner::Command(words.to_vec())],
    }
}

/// Words that a shell reads again, joined by spaces.
fn joined(words: &[Word]) -> Vec<Inner> {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.script.clone())
        // `parallel` substitutes what follows into what comes before.
        .take_while(|word| !word.starts_with(":::"))
        .collect();
    match words.as_slice() {
        [] => Vec::new(),
        words => vec![Inner::Script(words.join(" "))],
    }
}

fn env(options: &Options<'_>) -> Vec<Inner> {
    let is_assignment = |word: &&Word| word.known.contains('=');
    let rest: Vec<Word> = options
        .rest(0)
        .iter()
        .skip_while(is_assignment)
        .cloned()
        .collect();
    let mut lines: Vec<Inner> = options
        .values_of(&["S", "split-string"])
        .map(|line| {
            let more = rest.iter().map(|word| format!(" {}", word.script));
            // A leading `NAME=VALUE` is an assignment for a shell too.
            Inner::Script(std::iter::once(line.to_owned()).chain(more).collect())
        })
        .collect();
    if lines.is_empty() {
        lines = command(&rest);
    }
    lines
}

fn shell(options: &Options<'_>, input: &[String]) -> Vec<Inner> {
    match options.rest(0).first() {
        Some(script) if options.has('c') => vec![Inner::Script(script.script.clone())],
        // The name of a file, which is not read.
        Some(_) if !options.has('s') => Vec::new(),
        Some(_) | None => input.iter().cloned().map(Inner::Script).collect(),
    }
}

fn option_c(options: &Options<'_>, operands: usize) -> Vec<Inner> {
    let scripts: Vec<Inner> = options
        .values_of(&["c", "command"])
        .map(|script| Inner::Script(script.to_owned()))
        .collect();
    let rest = options.rest(operands);
    match rest {
        _ if !scripts.is_empty() => scripts,
        // `flock FILE -c SCRIPT`
        [flag, script, ..] if flag.value() == Some("-c") => {
            vec![Inner::Script(script.script.clone())]
        }
        rest if operands > 0 => command(rest),
        _ => Vec::new(),
    }
}

fn find(arguments: &[Word]) -> Vec<Inner> {
    const ACTIONS: &[&str] = &[
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-x",
        "-X",
        "--exec",
        "--exec-batch",
    ];
    let is = |word: &Word, texts: &[&str]| word.value().is_some_and(|value| texts.contains(&value));
    let mut commands = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.iter().position(|word| is(word, ACTIONS)) {
        let after = rest.get(at.saturating_add(1)..).unwrap_or_default();
        let end = after.iter().position(|word| is(word, &[";", "+"]));
        let (action, left) = after
            .split_at_checked(end.unwrap_or(after.len()))
            .unwrap_or((after, &[]));
        commands.extend(command(action));
        rest = left;
    }
    commands
}
