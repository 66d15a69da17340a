//! Short notes for a person after a command: what the jail refused, what ended it, what was left. Pure.

use super::follow::LostBytes;
use crate::daemon::{Blocked, Denial, ExitReason, Outcome, SetupFailure};

/// The notes, one line each; none for a command that simply ran.
#[must_use]
pub fn notes(outcome: &Outcome, lost: LostBytes) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(outcome.blocked.as_ref().map(blocked));
    lines.extend(outcome.setup_failure.as_ref().map(setup_failure));
    lines.extend(ending(outcome));
    lines.extend(outcome.denials.iter().map(denial));
    match outcome.leftover_processes {
        0 => {}
        1 => lines.push("1 process outlived the command and was ended".to_owned()),
        n => lines.push(format!("{n} processes outlived the command and were ended")),
    }
    let missing = lost.stdout.saturating_add(lost.stderr);
    if missing > 0 {
        lines.push(format!(
            "{missing} bytes of output were dropped, because they were read too slowly"
        ));
    }
    lines.extend(outcome.notes.iter().cloned());
    lines
}

fn ending(outcome: &Outcome) -> Option<String> {
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
        ExitReason::DiskLimit => format!("out of disk budget: ended {after}"),
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

fn setup_failure(failure: &SetupFailure) -> String {
    format!(
        "nothing ran: {} at stage '{}' ({})",
        failure.kind, failure.stage, failure.errno_name
    )
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
mod tests {
    use super::{LostBytes, notes};
    use crate::daemon::{Blocked, Denial, ExitReason, Outcome, SetupFailure};

    fn exited() -> Outcome {
        Outcome {
            reason: ExitReason::Exited,
            exit_code: Some(1),
            ..Outcome::lost()
        }
    }

    #[test]
    fn a_command_that_simply_ran_needs_no_note() {
        assert!(notes(&exited(), LostBytes::default()).is_empty());
    }

    #[test]
    fn every_special_end_has_a_note() {
        let outcome = Outcome {
            reason: ExitReason::Timeout,
            duration_ms: 2004,
            leftover_processes: 2,
            denials: vec![
                Denial {
                    layer: "landlock".into(),
                    access: "read".into(),
                    path: Some("/etc/shadow".into()),
                    port: None,
                    syscall: None,
                    rule: "default".into(),
                    source: "inferred",
                    text: "read /etc/shadow is denied: no rule grants it".into(),
                },
                Denial {
                    layer: "landlock".into(),
                    access: "connect".into(),
                    path: None,
                    port: Some(80),
                    syscall: None,
                    rule: "a.toml:3".into(),
                    source: "kernel",
                    text: String::new(),
                },
            ],
            ..Outcome::lost()
        };
        let lost = LostBytes {
            stdout: 3,
            stderr: 4,
        };
        expect_test::expect![[r"
            timeout: ended after 2004 ms with everything it had started
            read /etc/shadow is denied: no rule grants it [landlock, rule default, inferred]
            connect port 80 is denied [landlock, rule a.toml:3, kernel]
            2 processes outlived the command and were ended
            7 bytes of output were dropped, because they were read too slowly"]]
        .assert_eq(&notes(&outcome, lost).join("\n"));
    }

    #[test]
    fn what_never_ran_says_why() {
        let blocked = Outcome {
            reason: ExitReason::Blocked,
            blocked: Some(Blocked {
                rule: "base.toml:7".into(),
                matched: "sudo true".into(),
                reason: "no privilege changes".into(),
            }),
            ..Outcome::lost()
        };
        let failed = Outcome {
            reason: ExitReason::SetupFailed,
            setup_failure: Some(SetupFailure {
                kind: "not-found",
                stage: "exec".into(),
                errno: 2,
                errno_name: "ENOENT".into(),
            }),
            ..Outcome::lost()
        };
        expect_test::expect![[r"
            blocked by base.toml:7 at sudo true: no privilege changes
            nothing ran: not-found at stage 'exec' (ENOENT)"]]
        .assert_eq(
            &[blocked, failed]
                .map(|outcome| notes(&outcome, LostBytes::default()).join("\n"))
                .join("\n"),
        );
    }
}
