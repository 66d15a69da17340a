//! An end as the lines of a text for a model need it. Pure.

use std::time::Duration;

use agentd_sandbox::{monitor, policy::Limits};

use crate::{
    exec::{ExitReason, ExitResult, LimitHit, LimitKind, StartReport},
    rpc::encode,
    session::NOT_KEPT,
    text::{Ending, Outcome, Tree},
};

/// What a model has to know of an end, beside the output.
pub(super) fn of(start: Option<&StartReport>, end: &ExitResult) -> Outcome {
    Outcome {
        cwd_changed: cwd_changed(start, end),
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
        notes: notes(start, end),
        ..Outcome::new(ending(start, end))
    }
}

/// The directory of the next command, if that is another than this one's.
fn cwd_changed(start: Option<&StartReport>, end: &ExitResult) -> Option<String> {
    let started = start?;
    (!end.cwd.is_empty() && end.cwd != started.cwd).then(|| end.cwd.clone())
}

/// Remarks on the start and on the end, each once.
fn notes(start: Option<&StartReport>, end: &ExitResult) -> Vec<String> {
    let mut notes: Vec<String> = start.map(|report| report.notes.clone()).unwrap_or_default();
    for note in &end.notes {
        // A command that was ended hid nothing.
        let is_beside_the_point = note == NOT_KEPT && !end.reason.is_own_end();
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

fn ending(start: Option<&StartReport>, end: &ExitResult) -> Ending {
    let limits = start.map(|report| report.limits);
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
        ExitReason::Cancelled => Ending::Cancelled {
            after: start.map(|_| end.duration),
        },
        ExitReason::OutputLimit => Ending::OutputLimit,
        ExitReason::CpuLimit => Ending::CpuLimit,
        ExitReason::DiskLimit => disk(limits, end),
        ExitReason::OomKilled => Ending::OomKilled,
        ExitReason::SetupFailed => setup(end),
        ExitReason::Disconnected => Ending::Disconnected,
        ExitReason::Drained => Ending::Drained,
        // `render` tells a blocked command by its rule.
        ExitReason::Blocked | ExitReason::Lost => Ending::Lost,
    }
}

fn disk(limits: Option<Limits>, end: &ExitResult) -> Ending {
    let file_size = LimitKind::Watched(monitor::LimitKind::FileSize);
    if end.hits.iter().any(|hit| hit.limit == file_size) {
        Ending::FileSizeLimit(limits.and_then(|limits| limits.file_size_bytes))
    } else {
        Ending::DiskLimit(limits.and_then(|limits| limits.disk_bytes))
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use agentd_sandbox::monitor::{Event, ExecKey};

    use super::*;
    use crate::launcher_link::fake::started;

    fn start(notes: &[&str]) -> StartReport {
        let Event::Started { report, limits, .. } = started(ExecKey(1)) else {
            panic!("another event");
        };
        StartReport {
            jail: *report,
            limits,
            cwd: "/w".to_owned(),
            at: SystemTime::now(),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }

    fn told(start: &StartReport, end: &ExitResult) -> String {
        crate::text::lines(&of(Some(start), end)).join("\n")
    }

    fn exited(code: i32) -> ExitResult {
        ExitResult {
            exit_code: Some(code),
            ..ExitResult::without_run(ExitReason::Exited)
        }
    }

    #[test]
    fn a_directory_is_told_only_when_it_is_another_one() {
        for (cwd, expected) in [("", ""), ("/w", ""), ("/w/sub", "[cwd: /w/sub]")] {
            let end = ExitResult {
                cwd: cwd.to_owned(),
                ..exited(0)
            };
            assert_eq!(told(&start(&[]), &end), expected);
        }
    }

    #[test]
    fn limits_are_named_with_what_they_are_known_from() {
        let hit = |limit, count, evidence: &str| LimitHit {
            limit,
            count,
            evidence: evidence.to_owned(),
        };
        let end = ExitResult {
            hits: vec![
                hit(
                    LimitKind::Watched(monitor::LimitKind::Pids),
                    3,
                    "pids.events max",
                ),
                hit(
                    LimitKind::Watched(monitor::LimitKind::Memory),
                    1,
                    "memory.events oom_kill",
                ),
            ],
            ..exited(1)
        };
        let expected = "[exit code: 1]\n[limit: processes reached, 3 times (pids.events max)]\n\
                        [limit: memory reached (memory.events oom_kill)]";
        assert_eq!(told(&start(&[]), &end), expected);
    }

    /// Each limit that ends a command by its own name and, where one file or the disks are meant, its value.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn an_end_by_a_limit_names_that_limit_and_no_other() {
        use monitor::LimitKind as Watched;
        let limits = Limits {
            file_size_bytes: Some(1_048_576),
            disk_bytes: Some(40_000_000),
            ..start(&[]).limits
        };
        let start = StartReport {
            limits,
            ..start(&[])
        };
        let table = [
            (ExitReason::Timeout, LimitKind::Wall, "Error: Timeout (", ""),
            (
                ExitReason::IdleTimeout,
                LimitKind::Idle,
                "Error: Timeout (",
                "without output",
            ),
            (
                ExitReason::OutputLimit,
                LimitKind::Output,
                "Error: Output limit",
                "printed more",
            ),
            (
                ExitReason::CpuLimit,
                LimitKind::Watched(Watched::Cpu),
                "Error: CPU time limit",
                "CPU time ran out",
            ),
            (
                ExitReason::OomKilled,
                LimitKind::Watched(Watched::Memory),
                "Error: Out of memory",
                "more memory",
            ),
            (
                ExitReason::DiskLimit,
                LimitKind::Watched(Watched::FileSize),
                "Error: File size limit",
                "a file grew past the limit of 1048576 bytes",
            ),
            (
                ExitReason::DiskLimit,
                LimitKind::Watched(Watched::Disk),
                "Error: Disk limit",
                "the disks grew by more than its limit of 40000000 bytes",
            ),
        ];
        for (reason, limit, first, words) in table {
            let end = ExitResult {
                signal: Some(9),
                hits: vec![LimitHit {
                    limit,
                    count: 1,
                    evidence: "evidence".to_owned(),
                }],
                ..ExitResult::without_run(reason)
            };
            let text = told(&start, &end);
            assert!(text.starts_with(first), "{limit:?}: {text}");
            assert!(text.contains(words), "{limit:?}: {text}");
            assert_eq!(text.matches("Error: ").count(), 1, "{limit:?}: {text}");
        }
    }

    #[test]
    fn remarks_are_told_once_and_only_where_they_matter() {
        let gone = "the session's directory /w/x is gone; started in the workspace";
        let notes = vec![gone.to_owned(), NOT_KEPT.to_owned()];
        let end = ExitResult {
            notes: notes.clone(),
            proven: false,
            ..exited(0)
        };
        let expected = format!("[{gone}]\n[{NOT_KEPT}]");
        assert_eq!(told(&start(&[gone]), &end), expected);
        // One that was killed hid nothing, and that it may have left something matters.
        let end = ExitResult {
            notes,
            proven: false,
            ..ExitResult::without_run(ExitReason::Timeout)
        };
        let lines = told(&start(&[gone]), &end);
        assert!(!lines.contains(NOT_KEPT), "{lines}");
        assert_eq!(
            lines.matches("no proof that none was missed").count(),
            1,
            "{lines}"
        );
    }
}
