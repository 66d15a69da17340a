//! Model-facing text: what a tool call returns to the model, made from raw output and an outcome.
//!
//! Pure: bytes and values in, text out. Knows nothing of gRPC, of processes or of who reads the text,
//! and decides nothing: whether a result counts as an error is the caller's business.

mod cut;
mod decode;
mod footer;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::commands::Blocked;

/// A finished command, ready to be told.
///
/// Output is the interleaving of stdout and stderr as it arrived: `head`, then `dropped_bytes` bytes
/// that are left out, then `tail`. With nothing dropped, head and tail are contiguous.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    /// First bytes of the output.
    pub head: &'a [u8],
    /// Bytes between head and tail that are left out; exact.
    pub dropped_bytes: u64,
    /// Last bytes of the output.
    pub tail: &'a [u8],
    /// Where the model can read all of the output, such as a path and its size; told only where something
    /// is left out. `None` when nowhere.
    pub full_output: Option<&'a str>,
    /// How it ended.
    pub outcome: &'a Outcome,
}

/// How a command ended, with everything else that the model has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The end itself.
    pub ending: Ending,
    /// Processes that outlived the command and were killed.
    pub leftover: u32,
    /// What the jail refused, a sentence each, without brackets.
    pub denials: Vec<String>,
    /// The new working directory, if the command changed it.
    pub cwd_changed: Option<String>,
    /// Limits that it ran into, a sentence each, without brackets.
    pub limits: Vec<String>,
    /// Whether every process of it is known to be dead.
    pub tree: Tree,
    /// Further remarks, a sentence each, without brackets.
    pub notes: Vec<String>,
}

/// What is known of a command's processes after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// None is left; that is proven.
    Empty,
    /// All that could be found were killed; no text may say more.
    Unproven,
}

impl Outcome {
    /// An outcome with nothing beside the end to tell.
    #[must_use]
    pub fn new(ending: Ending) -> Self {
        Self {
            ending,
            leftover: 0,
            denials: Vec::new(),
            cwd_changed: None,
            limits: Vec::new(),
            tree: Tree::Empty,
            notes: Vec::new(),
        }
    }
}

/// The end of a command that was not refused by the blacklist (for that see [`blocked`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It returned this exit code.
    Exited(i32),
    /// A signal ended it that the daemon did not send.
    Signaled {
        /// Number.
        number: i32,
        /// Name, such as `SIGSEGV`; may be empty.
        name: String,
    },
    /// Its wall clock of this length ran out.
    Timeout(Duration),
    /// It printed nothing for this long.
    IdleTimeout(Duration),
    /// A client ended it.
    Cancelled {
        /// How long it had run; `None`: it had not been started.
        after: Option<Duration>,
    },
    /// The memory limit killed it.
    OomKilled,
    /// It printed more than its output limit.
    OutputLimit,
    /// Its CPU time ran out.
    CpuLimit,
    /// The disks grew by more than this many bytes.
    DiskLimit(Option<u64>),
    /// A file was to grow past this many bytes.
    FileSizeLimit(Option<u64>),
    /// The jail or the program could not be started; nothing of it ran.
    SetupFailed {
        /// Set-up stage, such as `landlock`, `exec`, `cwd`.
        stage: String,
        /// Symbolic errno, such as `ENOENT`; may be empty.
        errno_name: String,
        /// What it was about, such as a path; may be empty.
        detail: String,
    },
    /// Its client went away and the grace ran out.
    Disconnected,
    /// The daemon was drained.
    Drained,
    /// Its end is unknown: the launcher died.
    Lost,
}

/// The text for the model, with counts of what was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Rendered {
    /// Valid UTF-8 without control characters except newline and tab: at most 50,000
    /// characters of output and a bounded number of lines about it.
    pub text: String,
    /// Characters of the cleaned output that were left out. Bytes that were no longer held are not
    /// among them.
    pub omitted_chars: u64,
    /// Lines of the cleaned output that were left out, wholly or in part.
    pub omitted_lines: u64,
}

/// Tells a finished command: its output, cleaned and bounded, then a line for each thing to know.
pub fn render(finished: &Finished<'_>) -> Rendered {
    let mut rendered = output(&Output {
        head: finished.head,
        dropped_bytes: finished.dropped_bytes,
        tail: finished.tail,
        full_output: finished.full_output,
    });
    let nothing_ran = matches!(
        finished.outcome.ending,
        Ending::SetupFailed { .. } | Ending::Cancelled { after: None }
    );
    if rendered.text.is_empty() && !nothing_ran {
        rendered.text.push_str("(no output)");
    }
    append(&mut rendered.text, &lines(finished.outcome));
    rendered
}

/// A piece of output, as in [`Finished`].
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// First bytes.
    pub head: &'a [u8],
    /// Bytes between head and tail that are left out; exact.
    pub dropped_bytes: u64,
    /// Last bytes.
    pub tail: &'a [u8],
    /// Where all of it can be read.
    pub full_output: Option<&'a str>,
}

/// Tells output alone, cleaned and bounded; empty when nothing visible is in it.
pub fn output(output: &Output<'_>) -> Rendered {
    let parts = decode::decode(output.head, output.tail, output.dropped_bytes);
    let elsewhere = match output.full_output {
        Some(_) => cut::Elsewhere::Held,
        None => cut::Elsewhere::Nowhere,
    };
    let cut = cut::fit(&parts, elsewhere);
    let mut text = cut.text;
    if let Some(place) = output.full_output
        && (output.dropped_bytes > 0 || cut.omitted_chars > 0)
    {
        let line = format!("[full output: {}]", footer::one_line(place));
        append(&mut text, &[line]);
    }
    Rendered {
        text,
        omitted_chars: cut.omitted_chars,
        omitted_lines: cut.omitted_lines,
    }
}

/// The lines about an end, in order.
#[must_use]
pub fn lines(outcome: &Outcome) -> Vec<String> {
    footer::lines(outcome)
}

/// Adds lines to a text.
pub fn append(text: &mut String, lines: &[String]) {
    for line in lines {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
}

/// Tells a command that the blacklist refused. Nothing of it ran.
#[must_use]
pub fn blocked(blocked: &Blocked) -> String {
    format!(
        "Error: Dangerous command blocked\n[matched: {}]\n[reason: {}]\n[rule: {}; nothing of the command was run]",
        footer::one_line(&blocked.matched),
        footer::one_line(&blocked.reason),
        footer::one_line(&blocked.rule),
    )
}

/// Makes foreign text safe to show as one line: no terminal escape sequences, no control characters,
/// no bidirectional overrides; line breaks and tabs become spaces. The length is not bounded.
#[must_use]
pub fn neutralise(text: &str) -> String {
    terminal::clean(text, terminal::Redraw::Ignore)
        .chars()
        .filter(|c| !terminal::reorders_text(*c))
        .map(|c| match c {
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
            other => other,
        })
        .collect()
}
