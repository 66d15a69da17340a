//! The lines after the output: one for each thing that the model has to know about the end.
//!
//! Each is bounded and neutralised: paths and names in them come from the command.

use std::time::Duration;

use super::{Ending, Outcome, Tree, neutralise};

/// Most characters of one line, so that a path cannot fill the model's context.
const MAX_LINE_CHARS: usize = 1_000;

/// What is said where nothing proves that all processes are dead.
const UNPROVEN: &str = "[every process that could be found was killed; this host offers no proof that none was missed]";

/// Most denials and most notes that are told one by one.
const MAX_LISTED: usize = 20;

/// The lines, in order: the end, limits, denials, leftovers, working directory, notes.
pub(super) fn lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = ending(&outcome.ending, outcome.tree);
    lines.extend(listed(&outcome.limits, "limit: "));
    lines.extend(listed(&outcome.denials, "denied: "));
    lines.extend(leftovers(outcome));
    lines.extend(unproven(outcome));
    if let Some(cwd) = &outcome.cwd_changed {
        lines.push(format!("[cwd: {}]", one_line(cwd)));
    }
    lines.extend(listed(&outcome.notes, ""));
    lines
}

/// Foreign text as a bounded part of a line.
pub(super) fn one_line(text: &str) -> String {
    let mut line: String = neutralise(text);
    if let Some((end, _)) = line.char_indices().nth(MAX_LINE_CHARS) {
        line.truncate(end);
        line.push_str("...");
    }
    line
}

/// Only where something was killed: that a command which ended alone left nothing is no claim of ours.
fn unproven(outcome: &Outcome) -> Option<String> {
    let was_killed = outcome.leftover > 0 || !is_own_end(&outcome.ending);
    (outcome.tree == Tree::Unproven && was_killed).then(|| UNPROVEN.to_owned())
}

fn is_own_end(ending: &Ending) -> bool {
    matches!(ending, Ending::Exited(_) | Ending::Signaled { .. })
}

/// Only of a command that ended by itself: where it was ended, so was everything it had started, and
/// the line about the end says that.
fn leftovers(outcome: &Outcome) -> Option<String> {
    let by_itself = is_own_end(&outcome.ending);
    let who = match outcome.leftover {
        0 => return None,
        _ if !by_itself => return None,
        1 => "1 leftover process was".to_owned(),
        several => format!("{several} leftover processes were"),
    };
    Some(format!(
        "[{who} killed when the command ended; nothing started with & outlives its command]"
    ))
}

fn listed(sentences: &[String], label: &str) -> Vec<String> {
    let mut lines: Vec<String> = sentences
        .iter()
        .take(MAX_LISTED)
        .map(|sentence| format!("[{label}{}]", one_line(sentence)))
        .collect();
    let more = sentences.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        lines.push(format!("[{label}and {more} more]"));
    }
    lines
}

fn ending(ending: &Ending, tree: Tree) -> Vec<String> {
    match ending {
        Ending::Exited(0) => Vec::new(),
        Ending::Exited(code) => vec![format!("[exit code: {code}]")],
        Ending::Signaled { number, name } => vec![format!(
            "[killed by signal {number}{}]",
            in_parentheses(name)
        )],
        Ending::Timeout(limit) => timeout(*limit, tree),
        Ending::IdleTimeout(limit) => {
            let seconds = seconds(*limit);
            vec![
                format!("Error: Timeout ({seconds}s without output)"),
                format!(
                    "[the command was ended because it printed nothing for {seconds} s; it may wait for input, which it cannot get]"
                ),
            ]
        }
        Ending::SetupFailed {
            stage,
            errno_name,
            detail,
        } => vec![setup_failed(stage, errno_name, detail)],
        Ending::Cancelled { after } => vec![cancelled(*after)],
        Ending::OomKilled => fixed(
            "Error: Out of memory\n[the command was killed because it needed more memory than its limit]",
        ),
        Ending::OutputLimit => fixed(
            "Error: Output limit\n[the command was ended because it printed more than its limit; print less, or write to a file]",
        ),
        Ending::CpuLimit => {
            fixed("Error: CPU time limit\n[the command was killed because its CPU time ran out]")
        }
        Ending::DiskLimit(limit) => fixed(&format!(
            "Error: Disk limit\n[the command was ended because the disks grew by more than its limit{}; write less, or remove what is not needed]",
            of_bytes(*limit)
        )),
        Ending::FileSizeLimit(limit) => fixed(&format!(
            "Error: File size limit\n[the command was killed because a file grew past the limit{} for one file; write less into it]",
            of_bytes(*limit)
        )),
        Ending::Disconnected => {
            fixed("[ended: its client went away and did not come back in time]")
        }
        Ending::Drained => fixed("[ended: the daemon is shutting down]"),
        Ending::Lost => lost(tree),
    }
}

fn of_bytes(limit: Option<u64>) -> String {
    limit.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"))
}

fn timeout(limit: Duration, tree: Tree) -> Vec<String> {
    let seconds = seconds(limit);
    let with_all = match tree {
        Tree::Empty => ", with all its processes",
        Tree::Unproven => "",
    };
    vec![
        format!("Error: Timeout ({seconds}s)"),
        format!(
            "[the command was ended after {seconds} s{with_all}; if it needs longer, set timeout_ms; do not wait for programs that never end]"
        ),
    ]
}

/// A model that believes that nothing happened does it again.
fn cancelled(after: Option<Duration>) -> String {
    match after {
        None => "[cancelled: the command was not started; nothing of it was run]".to_owned(),
        Some(after) => format!(
            "[cancelled after {}: the command was ended before it finished; what it did until then stays done]",
            roughly(after)
        ),
    }
}

/// How long something took, as a person would say it.
fn roughly(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

fn lost(tree: Tree) -> Vec<String> {
    let dead = match tree {
        Tree::Empty => " every process of the command is dead;",
        Tree::Unproven => "",
    };
    fixed(&format!(
        "Error: How the command ended is unknown\n[the daemon lost its launcher;{dead} the command may have had effects]"
    ))
}

fn fixed(lines: &str) -> Vec<String> {
    lines.lines().map(str::to_owned).collect()
}

fn setup_failed(stage: &str, errno_name: &str, detail: &str) -> String {
    let about = match detail {
        "" => String::new(),
        detail => format!(": {}", one_line(detail)),
    };
    format!(
        "Error: The command was not started: {} failed{}{about}",
        one_line(stage),
        in_parentheses(errno_name)
    )
}

fn in_parentheses(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" ({})", one_line(name)),
    }
}

/// Seconds, with a fraction only where there is one.
fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => duration.as_secs().to_string(),
        _ => duration.as_secs_f64().to_string(),
    }
}
