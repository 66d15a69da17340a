//! Exit codes of `agent-cli exec`. Pure.

use crate::daemon::{ExitReason, Outcome};

/// Our own failure: unreachable daemon, no jail, unknown end.
pub const FAILURE: u8 = 125;
const TIMEOUT: u8 = 124;
const BLOCKED: u8 = 126;
const NOT_FOUND: u8 = 127;
const CANCELLED: u8 = 130;
const SIGKILL: i32 = 9;

/// The exit code that tells how a command ended.
#[must_use]
pub fn exit_code(outcome: &Outcome) -> u8 {
    match outcome.reason {
        ExitReason::Exited => outcome.exit_code.map_or(FAILURE, low_byte),
        ExitReason::Timeout | ExitReason::IdleTimeout => TIMEOUT,
        ExitReason::Cancelled => CANCELLED,
        ExitReason::Blocked => BLOCKED,
        ExitReason::SetupFailed => match outcome.setup_failure.as_ref().map(|f| f.kind) {
            Some("not-found") => NOT_FOUND,
            // As in a shell: found, but not something that can be run.
            Some("permission-denied" | "not-executable") => BLOCKED,
            Some(_) | None => FAILURE,
        },
        ExitReason::Signaled
        | ExitReason::OomKilled
        | ExitReason::OutputLimit
        | ExitReason::CpuLimit
        | ExitReason::DiskLimit
        | ExitReason::SandboxKilled => by_signal(outcome.signal),
        ExitReason::Disconnected | ExitReason::Drained | ExitReason::Lost => FAILURE,
    }
}

/// 128 + N; a limit that ended the tree without naming a signal counts as KILL.
fn by_signal(signal: Option<i32>) -> u8 {
    low_byte(signal.unwrap_or(SIGKILL).saturating_add(128))
}

/// What a process can return of a number.
fn low_byte(code: i32) -> u8 {
    code.to_le_bytes().first().copied().unwrap_or(FAILURE)
}

#[cfg(test)]
mod tests {
    use super::exit_code;
    use crate::daemon::{ExitReason, Outcome, SetupFailure};

    #[test]
    fn every_end_has_its_code() {
        use ExitReason::*;
        let table = [
            (Exited, Some(0), None, 0),
            (Exited, Some(3), None, 3),
            (Exited, Some(255), None, 255),
            (Exited, None, None, 125),
            (Signaled, None, Some(15), 143),
            (Signaled, None, Some(6), 134),
            (Timeout, None, Some(9), 124),
            (Timeout, Some(0), None, 124),
            (IdleTimeout, None, None, 124),
            (Cancelled, None, Some(15), 130),
            (OomKilled, None, Some(9), 137),
            (OutputLimit, None, None, 137),
            (CpuLimit, None, Some(24), 152),
            (DiskLimit, None, Some(25), 153),
            (SandboxKilled, None, Some(31), 159),
            (Blocked, None, None, 126),
            (SetupFailed, None, None, 125),
            (Disconnected, None, Some(9), 125),
            (Drained, None, None, 125),
            (Lost, None, None, 125),
        ];
        for (reason, exit_code_in, signal, expected) in table {
            let outcome = Outcome {
                reason,
                exit_code: exit_code_in,
                signal,
                ..Outcome::lost()
            };
            assert_eq!(exit_code(&outcome), expected, "{reason:?}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_has_the_codes_of_a_shell() {
        for (kind, expected) in [
            ("not-found", 127),
            ("permission-denied", 126),
            ("not-executable", 126),
            ("jail", 125),
            ("bad-cwd", 125),
            ("resource-limit", 125),
        ] {
            let outcome = Outcome {
                reason: ExitReason::SetupFailed,
                setup_failure: Some(SetupFailure {
                    kind,
                    stage: "exec".into(),
                    errno: 0,
                    errno_name: String::new(),
                }),
                ..Outcome::lost()
            };
            assert_eq!(exit_code(&outcome), expected, "{kind}");
        }
    }
}
