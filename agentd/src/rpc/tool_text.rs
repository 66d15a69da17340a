//! The result of a tool call: what the model reads, made from the record of an execution.

mod outcome;

use std::{sync::Arc, time::SystemTime};

use agentd_proto::v1 as pb;

use super::encode;
use crate::{
    aside::aside,
    exec::{Exec, ExecState, ExitReason, ExitResult},
    text::{self, Finished, Outcome, Output, Rendered},
};

/// Bytes from the end of the output that are looked at: more than the text can show, with room for
/// control sequences that are taken out.
const TAIL_BYTES: u64 = 512 * 1024;

/// The result; `None` for an execution that has none.
pub(super) async fn result(exec: &Exec) -> Option<pb::ToolResult> {
    let end = exec.result()?;
    let rendered = render(exec, &end).await;
    Some(pb::ToolResult {
        text: rendered.text,
        is_error: !end.reason.is_own_end(),
        exec_id: exec.id().to_string(),
        exit: Some(encode::result(&end)),
        omitted_chars: rendered.omitted_chars,
        omitted_lines: rendered.omitted_lines,
    })
}

async fn render(exec: &Exec, end: &Arc<ExitResult>) -> Rendered {
    if let Some(blocked) = &end.blocked {
        return Rendered {
            text: text::blocked(blocked),
            omitted_chars: 0,
            omitted_lines: 0,
        };
    }
    let excerpt = exec.excerpt(TAIL_BYTES);
    let full_output = full_output(exec, end);
    let outcome = outcome::of(exec.start_report().as_deref(), end);
    let length = excerpt.head.len().saturating_add(excerpt.tail.len());
    let rendered = aside(length, move || {
        text::render(&Finished {
            head: &excerpt.head,
            dropped_bytes: excerpt.dropped,
            tail: &excerpt.tail,
            full_output: full_output.as_deref(),
            outcome: &outcome,
        })
    });
    rendered.await.unwrap_or_else(unreadable)
}

/// A stretch of output, cleaned and bounded: its start, the number of bytes that are left out, its end, and
/// where all of it can be read.
pub(super) async fn output(
    (head, left_out, tail): (Vec<u8>, u64, Vec<u8>),
    full_output: Option<String>,
) -> Rendered {
    let length = head.len().saturating_add(tail.len());
    let rendered = aside(length, move || {
        text::output(&Output {
            head: &head,
            dropped_bytes: left_out,
            tail: &tail,
            full_output: full_output.as_deref(),
        })
    });
    rendered.await.unwrap_or_else(unreadable)
}

/// Instead of output that could not be cleaned: a defect of ours, and no reason to show it raw.
fn unreadable() -> Rendered {
    Rendered {
        text:
            "[agentd could not render this output; redirect it to a file and look at parts of it]"
                .to_owned(),
        omitted_chars: 0,
        omitted_lines: 0,
    }
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
        ..outcome::of(exec.start_report().as_deref(), &end)
    }));
    lines
}

fn running(exec: &Exec) -> String {
    let started = exec.start_report().map(|report| report.at);
    let since = started.and_then(|at| SystemTime::now().duration_since(at).ok());
    format!("[running for {} s]", since.unwrap_or_default().as_secs())
}
