//! Short notes for a person after a command: what the jail refused, what ended it, what was left. Pure.

use super::follow::{Followed, LostBytes};
use crate::daemon::{
    Blocked, Denial, ExitReason, LimitHit, Limits, Outcome, OutputFile, SetupFailure,
};

/// The notes on a command that was to start `program`, one line each; none when it simply ran. `limits` are
/// those in force, if they are known.
#[must_use]
pub fn notes(
    program: &str,
    outcome: &Outcome,
    (lost, limits): (LostBytes, Option<&Limits>),
) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(outcome.blocked.as_ref().map(blocked));
    lines.extend(
        outcome
            .setup_failure
            .as_ref()
            .map(|failure| setup_failure(program, failure)),
    );
    lines.extend(ending(outcome, limits));
    lines.extend(outcome.limits_hit.iter().filter_map(limit));
    lines.extend(outcome.denials.iter().map(denial));
    lines.extend(leftovers(outcome));
    lines.extend(unproven(outcome));
    let missing = lost.stdout.saturating_add(lost.stderr);
    if missing > 0 {
        lines.push(format!(
            "{missing} bytes of output were dropped, because they were read too slowly"
        ));
    }
    lines.extend(outcome.output_file.as_ref().map(output_file));
    lines.extend(outcome.notes.iter().cloned());
    lines
}

/// Where the session is now, when the command changed that.
pub(super) fn moved(followed: &Followed) -> Option<String> {
    let cwd = &followed.outcome.cwd;
    let before = followed.started.as_ref().map(|started| &started.cwd);
    (!cwd.is_empty() && before.is_some_and(|before| before != cwd))
        .then(|| format!("the session is in {cwd} now"))
}

/// How the output of this command can be read again.
pub(super) fn kept(exec_id: &str, outcome: &Outcome) -> String {
    let bytes = outcome.stdout_bytes.saturating_add(outcome.stderr_bytes);
    let missing = outcome
        .output_file
        .as_ref()
        .map_or(0, |file| file.missing_bytes);
    format!(
        "`agent-cli logs {exec_id} --from 0` prints the output again, from any of its {} bytes on",
        bytes.saturating_sub(missing)
    )
}

/// `None` where [`ending`] says it: these limits always end a command, and nothing else is known of them.
fn limit(hit: &LimitHit) -> Option<String> {
    let LimitHit {
        limit,
        count,
        evidence,
    } = hit;
    let name = match *limit {
        "wall" | "idle" | "output" => return None,
        "cpu" => "CPU time",
        "pids" => "process",
        other => other,
    };
    let how_often = match count {
        0 | 1 => String::new(),
        count => format!(" {count} times"),
    };
    Some(format!(
        "it ran into its {name} limit{how_often} [{evidence}]"
    ))
}

/// Only of interest when something had to be killed.
fn unproven(outcome: &Outcome) -> Option<String> {
    let killed = match outcome.reason {
        ExitReason::Exited | ExitReason::Signaled => outcome.leftover_processes > 0,
        ExitReason::Timeout
        | ExitReason::IdleTimeout
        | ExitReason::Cancelled
        | ExitReason::OutputLimit
        | ExitReason::CpuLimit
        | ExitReason::DiskLimit => true,
        ExitReason::OomKilled
        | ExitReason::SandboxKilled
        | ExitReason::SetupFailed
        | ExitReason::Blocked
        | ExitReason::Disconnected
        | ExitReason::Drained
        | ExitReason::Lost => false,
    };
    (killed && !outcome.proven).then(|| {
        "every process that could be found was killed; this host offers no proof that none was missed"
            .to_owned()
    })
}

fn output_file(file: &OutputFile) -> String {
    let missing = match file.missing_bytes {
        0 => String::new(),
        bytes => format!(", {bytes} more are not in it"),
    };
    format!(
        "the output is kept in {} for the session's commands ({} bytes{missing})",
        file.path, file.bytes
    )
}

/// What outlived a command that ended by itself. Whatever else ends a command ends the whole tree.
fn leftovers(outcome: &Outcome) -> Option<String> {
    let by_itself = matches!(outcome.reason, ExitReason::Exited | ExitReason::Signaled);
    match outcome.leftover_processes {
        n if n == 0 || !by_itself => None,
        1 => Some("1 process outlived the command and was ended".to_owned()),
        n => Some(format!("{n} processes outlived the command and were ended")),
    }
}

fn ending(outcome: &Outcome, limits: Option<&Limits>) -> Option<String> {
    let after = format!("after {} ms", outcome.duration_ms);
    let text = match outcome.reason {
        ExitReason::Exited | ExitReason::SetupFailed | ExitReason::Blocked => return None,
        ExitReason::Signaled => format!("ended by {} {after}", signal(outcome)),
        ExitReason::Timeout => {
            format!("timeout: ended {after} with everything it had started")
        }
        ExitReason::IdleTimeout => format!("silent for too long: ended {after}"),
        ExitReason::Cancelled => format!("cancelled {after}"),
        ExitReason::OomKilled => format!("out of memory: ended {after}; raise the profile's limit"),
        ExitReason::OutputLimit => format!("too much output: ended {after}"),
        ExitReason::CpuLimit => format!("out of CPU time: ended {after}"),
        ExitReason::DiskLimit => format!("{}: ended {after}", disk_limit(outcome, limits)),
        ExitReason::SandboxKilled => format!("killed by the system call filter {after}"),
        ExitReason::Disconnected => format!("ended {after}, because its client was gone"),
        ExitReason::Drained => format!("ended {after}, because agentd was shut down"),
        ExitReason::Lost => {
            "how it ended is unknown: agentd or its launcher died; nothing of it runs any more"
                .to_owned()
        }
    };
    Some(text)
}

/// Which of the two it was, and its value.
fn disk_limit(outcome: &Outcome, limits: Option<&Limits>) -> String {
    let value =
        |limit: Option<u64>| limit.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"));
    let of_files = outcome
        .limits_hit
        .iter()
        .any(|hit| hit.limit == "file-size");
    if of_files {
        let limit = limits.and_then(|limits| limits.file_size_bytes);
        format!("a file grew past the file-size limit{}", value(limit))
    } else {
        let limit = limits.and_then(|limits| limits.disk_bytes);
        format!("the disks grew by more than the disk limit{}", value(limit))
    }
}

fn signal(outcome: &Outcome) -> String {
    match (outcome.signal_name.as_str(), outcome.signal) {
        ("", Some(number)) => format!("signal {number}"),
        ("", None) => "a signal".to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// A blocked command in one line.
#[must_use]
pub fn blocked(blocked: &Blocked) -> String {
    format!(
        "blocked by {} at {}: {}",
        blocked.rule, blocked.matched, blocked.reason
    )
}

fn setup_failure(program: &str, failure: &SetupFailure) -> String {
    match (failure.stage.as_str(), failure.kind) {
        ("exec", "not-found") if program.contains('/') => {
            format!("{program}: not found in the jail")
        }
        ("exec", "not-found") => format!("{program}: not found in the jail's PATH"),
        ("exec", "permission-denied" | "not-executable") => {
            format!("{program}: not executable in the jail")
        }
        (stage, kind) => format!(
            "nothing ran: {kind} at stage '{stage}' ({})",
            failure.errno_name
        ),
    }
}

/// A denial in one line: the daemon's sentence, and where it comes from.
#[must_use]
pub fn denial(denial: &Denial) -> String {
    let Denial {
        layer,
        rule,
        source,
        ..
    } = denial;
    format!("{} [{layer}, rule {rule}, {source}]", sentence(denial))
}

/// What was refused, also when the daemon has no sentence for it.
fn sentence(denial: &Denial) -> String {
    if !denial.text.is_empty() {
        return denial.text.clone();
    }
    let object = denial
        .path
        .clone()
        .or_else(|| denial.port.map(|port| format!("port {port}")))
        .or_else(|| denial.syscall.clone())
        .unwrap_or_default();
    format!("{} {object} is denied", denial.access)
}

#[cfg(test)]
mod tests;
