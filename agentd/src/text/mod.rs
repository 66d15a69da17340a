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
/// that are no longer held, then `tail`. With nothing dropped, head and tail are contiguous.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    /// First bytes of the output.
    pub head: &'a [u8],
    /// Bytes between head and tail that are no longer held; exact.
    pub dropped_bytes: u64,
    /// Last bytes of the output.
    pub tail: &'a [u8],
    /// Where the model can read all of the output, as the end of a sentence ("in /tmp/out.txt").
    /// `None` when nowhere.
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
    /// Further remarks, a sentence each, without brackets.
    pub notes: Vec<String>,
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
    Cancelled,
    /// The memory limit killed it.
    OomKilled,
    /// It printed more than its output limit.
    OutputLimit,
    /// Its CPU time ran out.
    CpuLimit,
    /// It filled its disk budget.
    DiskLimit,
    /// seccomp killed it.
    SandboxKilled,
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
    let parts = decode::decode(finished.head, finished.tail, finished.dropped_bytes);
    let cut = cut::fit(&parts, finished.full_output);
    let lines = footer::lines(finished.outcome);
    let mut text = cut.text;
    let nothing_ran = matches!(finished.outcome.ending, Ending::SetupFailed { .. });
    if text.is_empty() && !nothing_ran {
        text.push_str("(no output)");
    }
    for line in lines {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
    }
    Rendered {
        text,
        omitted_chars: cut.omitted_chars,
        omitted_lines: cut.omitted_lines,
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
