//! The result of a tool call: what the model reads, made from the record of an execution.

use std::time::Duration;

use agentd_proto::v1 as pb;

use super::encode;
use crate::{
    exec::{Exec, ExitReason, ExitResult},
    text::{self, Ending, Finished, Outcome, Rendered},
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
    text::render(&Finished {
        head: &excerpt.head,
        dropped_bytes: excerpt.dropped,
        tail: &excerpt.tail,
        full_output: None,
        outcome: &outcome(exec, end),
    })
}

fn outcome(exec: &Exec, end: &ExitResult) -> Outcome {
    Outcome {
        leftover: end.leftover,
        denials: end
            .denials
            .iter()
            .map(|denial| denial.text.clone())
            .collect(),
        notes: end.notes.clone(),
        ..Outcome::new(ending(exec, end))
    }
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
