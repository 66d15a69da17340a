//! The result of a tool call: what the model reads, made from the record of an execution.

use std::time::{Duration, SystemTime};

use agentd_proto::v1 as pb;
use agentd_sandbox::monitor;

use super::encode;
use crate::{
    exec::{Exec, ExecState, ExitReason, ExitResult, LimitHit, LimitKind},
    session::NOT_KEPT,
    text::{self, Ending, Finished, Outcome, Rendered, Tree},
};

/// Bytes from the end of the output that are looked at: more than the text can show, with room for
/// control sequences that are taken out.
const TAIL_BYTES: u64 = 512 * 1024;

/// The result; `None` for an execution that has none.
pub(super) fn result(exec: &Exec) -> Option<pb::ToolResult> {
    let end = exec.result()?;
    let rendered = render(exec, &end);
    Some(pb::ToolResult {
        text: rendered.text,
        is_error: !end.reason.is_own_end(),
        exec_id: exec.id().to_string(),
        exit: Some(encode::result(&end)),
        omitted_chars: rendered.omitted_chars,
        omitted_lines: rendered.omitted_lines,
    })
}

fn render(exec: &Exec, end: &ExitResult) -> Rendered {
    if let Some(blocked) = &end.blocked {
        return Rendered {
            text: text::blocked(blocked),
            omitted_chars: 0,
            omitted_lines: 0,
        };
    }
    let excerpt = exec.excerpt(TAIL_BYTES);
    let full_output = full_output(exec, end);
    text::render(&Finished {
        head: &excerpt.head,
        dropped_bytes: excerpt.dropped,
        tail: &excerpt.tail,
        full_output: full_output.as_deref(),
        outcome: &outcome(exec, end),
    })
}

/// Where the model can read all of the output: in a file, or with the tool for it.
fn full_output(exec: &Exec, end: &ExitResult) -> Option<String> {
    let Some(file) = &end.output_file else {
        let in_session = exec.session_id().is_some();
        let is_held = end.dropped_bytes == 0;
        return (in_session && is_held).then(|| {
            format!(
                "bash_output with bash_id {:?} and after 0",
                exec.id().as_str()
            )
        });
    };
    let missing = match file.missing {
        0 => String::new(),
        missing => format!("; {missing} more were not kept"),
    };
    Some(format!("{}, {} bytes{missing}", file.path, file.bytes))
}

/// The lines about where a command is: running, or how it ended.
pub(super) fn state_lines(exec: &Exec) -> Vec<String> {
    let Some(end) = exec.result() else {
        let words = match exec.state() {
            ExecState::Starting => "[it waits for its turn, or is being started]".to_owned(),
            ExecState::Running | ExecState::Ended => running(exec),
            ExecState::NotStarted(why) => {
                format!(
                    "[it was not started: {}]",
                    text::neutralise(&why.to_string())
                )
            }
        };
        return vec![words];
    };
    if let Some(blocked) = &end.blocked {
        return vec![text::blocked(blocked)];
    }
    let mut lines = vec!["[ended]".to_owned()];
    if end.reason == ExitReason::Exited && end.exit_code == Some(0) {
        lines = vec!["[ended: exit code 0]".to_owned()];
    }
    lines.extend(text::lines(&Outcome {
        // It is no command of the session's course: where it was says nothing of where the next one is.
        cwd_changed: None,
        ..outcome(exec, &end)
    }));
    lines
}

fn running(exec: &Exec) -> String {
    let started = exec.start_report().map(|report| report.at);
    let since = started.and_then(|at| SystemTime::now().duration_since(at).ok());
    format!("[running for {} s]", since.unwrap_or_default().as_secs())
}

fn outcome(exec: &Exec, end: &ExitResult) -> Outcome {
    Outcome {
        cwd_changed: cwd_changed(exec, end),
        limits: end.hits.iter().map(limit).collect(),
        tree: if end.proven {
            Tree::Empty
        } else {
            Tree::Unproven
        },
        leftover: end.leftover,
        denials: end
            .denials
            .iter()
            .map(|denial| denial.text.clone())
            .collect(),
        notes: notes(exec, end),
        ..Outcome::new(ending(exec, end))
    }
}

/// The directory of the next command, if that is another than this one's.
fn cwd_changed(exec: &Exec, end: &ExitResult) -> Option<String> {
    let started = exec.start_report()?;
    (!end.cwd.is_empty() && end.cwd != started.cwd).then(|| end.cwd.clone())
}

/// Remarks on the start and on the end, each once.
fn notes(exec: &Exec, end: &ExitResult) -> Vec<String> {
    let started = exec.start_report();
    let mut notes: Vec<String> = started
        .map(|report| report.notes.clone())
        .unwrap_or_default();
    for note in &end.notes {
        // A command that was ended hid nothing; and what is not proven is told where it matters.
        let is_beside_the_point =
            (note == NOT_KEPT && !end.reason.is_own_end()) || note.contains(text::NO_PROOF);
        if !is_beside_the_point && !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

fn limit(hit: &LimitHit) -> String {
    let name = match hit.limit {
        LimitKind::Wall => "wall clock",
        LimitKind::Idle => "silence",
        LimitKind::Output => "output",
        LimitKind::Watched(watched) => match watched {
            monitor::LimitKind::Cpu => "CPU time",
            monitor::LimitKind::Memory => "memory",
            monitor::LimitKind::Pids => "processes",
            monitor::LimitKind::FileSize => "file size",
            monitor::LimitKind::Disk => "disk growth",
        },
    };
    let times = match hit.count {
        0 | 1 => String::new(),
        count => format!(", {count} times"),
    };
    format!("{name} reached{times} ({})", hit.evidence)
}

fn ending(exec: &Exec, end: &ExitResult) -> Ending {
    let limits = exec.start_report().map(|report| report.limits);
    let millis = |value: Option<u64>| Duration::from_millis(value.unwrap_or_default());
    match end.reason {
        ExitReason::Exited => end.exit_code.map_or(Ending::Lost, Ending::Exited),
        ExitReason::Signaled => end.signal.map_or(Ending::Lost, |number| Ending::Signaled {
            number,
            name: encode::signal_name(number),
        }),
        ExitReason::Timeout => Ending::Timeout(millis(limits.map(|l| l.timeout_ms))),
        ExitReason::IdleTimeout => {
            Ending::IdleTimeout(millis(limits.and_then(|l| l.idle_timeout_ms)))
        }
        ExitReason::Cancelled => Ending::Cancelled,
        ExitReason::OutputLimit => Ending::OutputLimit,
        ExitReason::CpuLimit => Ending::CpuLimit,
        ExitReason::DiskLimit => Ending::DiskLimit,
        ExitReason::OomKilled => Ending::OomKilled,
        ExitReason::SandboxKilled => Ending::SandboxKilled,
        ExitReason::SetupFailed => setup(end),
        ExitReason::Disconnected => Ending::Disconnected,
        ExitReason::Drained => Ending::Drained,
        // `render` tells a blocked command by its rule.
        ExitReason::Blocked | ExitReason::Lost => Ending::Lost,
    }
}

fn setup(end: &ExitResult) -> Ending {
    end.setup
        .as_ref()
        .map_or(Ending::Lost, |failure| Ending::SetupFailed {
            stage: failure.stage.clone(),
            errno_name: encode::errno_name(failure.errno),
            detail: failure.detail.clone(),
        })
}
