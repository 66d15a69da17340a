//! Programs that run other commands: what they would run, read from their arguments.
//!
//! Knowledge about options is data in [`WRAPPERS`]; an option that is not known there is taken to have
//! no separate value.

use super::{program, word::Word};

/// What a wrapper runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// A command: program and arguments.
    Command(Vec<Word>),
    /// The text of a script.
    Script(String),
}

/// How a wrapper finds its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// The words after options and operands.
    Words,
    /// The same; yet a single word is a script, as are several when joined.
    Joined,
    /// `NAME=VALUE` words may come before the command; `-S` holds a command line.
    Env,
    /// The same as `Words`, unless `-v` or `-V` only asks what the name means.
    Command,
    /// A shell: `-c` and a script, or a script as standard input.
    Shell,
    /// A script behind `-c`, else the words.
    OptionC,
    /// The first operand is a script.
    FirstOperand,
    /// Commands between `-exec` and `;` or `+`.
    Find,
}

struct Wrapper {
    names: &'static [&'static str],
    style: Style,
    /// One-letter options with a separate value.
    short: &'static str,
    /// Long options with a separate value.
    long: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
}

const fn wrapper(names: &'static [&'static str], style: Style, short: &'static str) -> Wrapper {
    Wrapper {
        names,
        style,
        short,
        long: &[],
        operands: 0,
    }
}

const fn after(operands: usize, wrapper: Wrapper) -> Wrapper {
    Wrapper {
        operands,
        ..wrapper
    }
}

const fn with_long(long: &'static [&'static str], wrapper: Wrapper) -> Wrapper {
    Wrapper { long, ..wrapper }
}

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];

/// The wrappers that are looked through.
const WRAPPERS: &[Wrapper] = &[
    with_long(
        &["unset", "chdir", "argv0", "split-string"],
        wrapper(&["env"], Style::Env, "uCSa"),
    ),
    wrapper(&["command"], Style::Command, ""),
    wrapper(
        &[
            "builtin", "nohup", "setsid", "busybox", "toybox", "fakeroot", "unbuffer", "linux32",
            "linux64", "setarch",
        ],
        Style::Words,
        "",
    ),
    wrapper(&["exec"], Style::Words, "a"),
    with_long(&["adjustment"], wrapper(&["nice"], Style::Words, "n")),
    with_long(
        &["class", "classdata", "pid", "pgid", "uid"],
        wrapper(&["ionice"], Style::Words, "cnpPu"),
    ),
    with_long(
        &["format", "output"],
        wrapper(&["time"], Style::Words, "fo"),
    ),
    after(
        1,
        with_long(
            &["kill-after", "signal"],
            wrapper(&["timeout"], Style::Words, "ks"),
        ),
    ),
    with_long(
        &["input", "output", "error"],
        wrapper(&["stdbuf"], Style::Words, "ioe"),
    ),
    with_long(
        &[
            "arg-file",
            "delimiter",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
            "process-slot-var",
        ],
        wrapper(&["xargs"], Style::Words, "adEILnPs"),
    ),
    with_long(&["interval"], wrapper(&["watch"], Style::Joined, "n")),
    with_long(
        &[
            "jobs", "joblog", "delay", "timeout", "retries", "colsep", "arg-file", "max-args",
            "tmpdir", "results", "workdir",
        ],
        wrapper(&["parallel"], Style::Joined, "jaNnLICE"),
    ),
    after(1, wrapper(&["chroot"], Style::Words, "")),
    wrapper(&["unshare"], Style::Words, "SGRw"),
    wrapper(&["nsenter"], Style::Words, "tSG"),
    wrapper(&["strace", "ltrace"], Style::Words, "aeEIopPsSuUbX"),
    after(1, wrapper(&["taskset", "chrt"], Style::Words, "")),
    after(1, wrapper(&["flock"], Style::OptionC, "wE")),
    wrapper(&["script"], Style::OptionC, "EIOBTmo"),
    with_long(
        &["rcfile", "init-file"],
        wrapper(SHELLS, Style::Shell, "oO"),
    ),
    wrapper(&["eval"], Style::Joined, ""),
    wrapper(&["trap"], Style::FirstOperand, ""),
    wrapper(&["find", "fd", "fdfind"], Style::Find, ""),
];

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
            [script, _, ..] => vec![Inner::Script(script.gist())],
            _ => Vec::new(),
        },
        Style::Find => find(arguments),
    }
}

/// The options before the first operand.
struct Options<'a> {
    /// Letters of short options.
    letters: String,
    /// Values of options that have one: a letter or a long name, and the value.
    values: Vec<(&'a str, String)>,
    /// What follows the options.
    rest: &'a [Word],
}

impl<'a> Options<'a> {
    fn read(wrapper: &Wrapper, arguments: &'a [Word]) -> Self {
        let mut options = Self {
            letters: String::new(),
            values: Vec::new(),
            rest: arguments,
        };
        while let Some((argument, rest)) = options.rest.split_first() {
            let text = argument.known.as_str();
            let sign = text.chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let is_option = match sign {
                Some('-') => text.len() > 1 || wrapper.style == Style::Env,
                // `set` options of a shell.
                Some(_) => wrapper.style == Style::Shell,
                None => false,
            };
            if !is_option {
                break;
            }
            options.rest = rest;
            match text.strip_prefix("--") {
                Some("") => break,
                Some(long) => options.long(wrapper, long),
                None => options.bundle(wrapper, text.get(1..).unwrap_or_default()),
            }
        }
        options
    }

    fn long(&mut self, wrapper: &Wrapper, option: &'a str) {
        if let Some((name, value)) = option.split_once('=') {
            self.values.push((name, value.to_owned()));
        } else if wrapper.long.contains(&option)
            || (wrapper.style == Style::OptionC && option == "command")
        {
            self.value(option);
        }
    }

    /// `-abc`; the letter with a value takes the rest of the bundle, or the next word.
    fn bundle(&mut self, wrapper: &Wrapper, letters: &'a str) {
        for (at, letter) in letters.char_indices() {
            let after = at.saturating_add(letter.len_utf8());
            let (name, attached) = (
                letters.get(at..after).unwrap_or_default(),
                letters.get(after..).unwrap_or_default(),
            );
            let is_script = wrapper.style == Style::OptionC && letter == 'c';
            if !wrapper.short.contains(letter) && !is_script {
                self.letters.push(letter);
            } else if attached.is_empty() || wrapper.style == Style::Shell {
                self.value(name);
            } else {
                self.values.push((name, attached.to_owned()));
                return;
            }
        }
    }

    fn value(&mut self, name: &'a str) {
        if let Some((value, rest)) = self.rest.split_first() {
            self.values.push((name, value.gist()));
            self.rest = rest;
        }
    }

    fn has(&self, letter: char) -> bool {
        self.letters.contains(letter)
    }

    fn rest(&self, operands: usize) -> &'a [Word] {
        self.rest.get(operands..).unwrap_or_default()
    }

    fn values_of<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'s str> {
        self.values
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(_, value)| value.as_str())
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
        .map(Word::gist)
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
        .rest
        .iter()
        .skip_while(is_assignment)
        .cloned()
        .collect();
    let mut lines: Vec<Inner> = options
        .values_of(&["S", "split-string"])
        .map(|line| {
            let more = rest.iter().map(|word| format!(" {}", word.gist()));
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
        Some(script) if options.has('c') => vec![Inner::Script(script.gist())],
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
        [flag, script, ..] if flag.value() == Some("-c") => vec![Inner::Script(script.gist())],
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
