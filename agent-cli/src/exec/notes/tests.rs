//! What a person is told after each kind of end.

use super::{Followed, LostBytes, moved, notes};
use crate::daemon::{
    Blocked, Denial, ExitReason, LimitHit, Limits, Outcome, OutputFile, Sandbox, SetupFailure,
    Started,
};

fn exited() -> Outcome {
    Outcome {
        reason: ExitReason::Exited,
        exit_code: Some(1),
        ..Outcome::lost()
    }
}

#[test]
fn a_command_that_simply_ran_needs_no_note() {
    assert!(notes("ls", &exited(), (LostBytes::default(), None)).is_empty());
}

#[test]
fn every_special_end_has_a_note() {
    let outcome = Outcome {
        reason: ExitReason::Timeout,
        duration_ms: 2004,
        leftover_processes: 2,
        proven: true,
        limits_hit: [
            ("wall", 1, "wall clock"),
            ("memory", 3, "memory.events oom_kill"),
            ("cpu", 1, "SIGXCPU"),
        ]
        .map(|(limit, count, evidence)| LimitHit {
            limit,
            count,
            evidence: evidence.into(),
        })
        .into(),
        output_file: Some(OutputFile {
            path: "/run/output/e1".into(),
            bytes: 9_000_000,
            missing_bytes: 5,
        }),
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
        it ran into its memory limit 3 times [memory.events oom_kill]
        it ran into its CPU time limit [SIGXCPU]
        read /etc/shadow is denied: no rule grants it [landlock, rule default, inferred]
        connect port 80 is denied [landlock, rule a.toml:3, kernel]
        7 bytes of output were dropped, because they were read too slowly
        the output is kept in /run/output/e1 for the session's commands (9000000 bytes, 5 more are not in it)"]]
    .assert_eq(&notes("ls", &outcome, (lost, None)).join("\n"));
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
    let mut lines = notes("sudo", &blocked, (LostBytes::default(), None));
    for (program, kind, stage) in [
        ("no_such", "not-found", "exec"),
        ("bin/no_such", "not-found", "exec"),
        ("/etc/passwd", "permission-denied", "exec"),
        ("data", "not-executable", "exec"),
        ("ls", "bad-cwd", "chdir"),
    ] {
        let outcome = Outcome {
            reason: ExitReason::SetupFailed,
            setup_failure: Some(SetupFailure {
                kind,
                stage: stage.into(),
                errno: 2,
                errno_name: "ENOENT".into(),
            }),
            ..Outcome::lost()
        };
        lines.extend(notes(program, &outcome, (LostBytes::default(), None)));
    }
    expect_test::expect![[r"
        blocked by base.toml:7 at sudo true: no privilege changes
        no_such: not found in the jail's PATH
        bin/no_such: not found in the jail
        /etc/passwd: not executable in the jail
        data: not executable in the jail
        nothing ran: bad-cwd at stage 'chdir' (ENOENT)"]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn only_what_outlives_a_command_that_ended_by_itself_is_a_leftover() {
    for (reason, expected) in [
        (ExitReason::Exited, true),
        (ExitReason::Signaled, true),
        (ExitReason::Timeout, false),
        (ExitReason::Cancelled, false),
    ] {
        let outcome = Outcome {
            reason,
            leftover_processes: 2,
            ..Outcome::lost()
        };
        let note = "2 processes outlived the command and were ended".to_owned();
        let notes = notes("ls", &outcome, (LostBytes::default(), None));
        assert_eq!(notes.contains(&note), expected, "{reason:?}");
    }
}

#[test]
fn a_missing_proof_is_told_when_something_had_to_be_killed_and_only_then() {
    for (reason, leftover_processes, proven, told) in [
        (ExitReason::Exited, 0, false, false),
        (ExitReason::Exited, 1, false, true),
        (ExitReason::Exited, 1, true, false),
        (ExitReason::Timeout, 0, false, true),
        (ExitReason::Timeout, 0, true, false),
        (ExitReason::Blocked, 0, false, false),
        (ExitReason::Lost, 0, false, false),
    ] {
        let outcome = Outcome {
            reason,
            leftover_processes,
            proven,
            ..Outcome::lost()
        };
        let lines = notes("ls", &outcome, (LostBytes::default(), None));
        let found = lines.iter().any(|line| line.contains("no proof"));
        assert_eq!(found, told, "{reason:?} {leftover_processes} {proven}");
    }
}

#[test]
fn a_session_that_has_moved_says_where_it_is() {
    for (before, after, told) in [
        ("/w", "/w/src", Some("the session is in /w/src now")),
        ("/w", "/w", None),
        ("/w", "", None),
    ] {
        let followed = Followed {
            started: Some(Started {
                cwd: before.into(),
                ..started()
            }),
            outcome: Outcome {
                cwd: after.into(),
                ..exited()
            },
            ..Followed::default()
        };
        assert_eq!(moved(&followed).as_deref(), told);
    }
}

fn started() -> Started {
    Started {
        sandbox: Sandbox {
            profile: "workspace".into(),
            digest: "d".into(),
            tier: "T2",
            layers: Vec::new(),
            degraded: Vec::new(),
            landlock_abi: 7,
            uid: 1000,
            identity: "caller".into(),
            cgroup: "none".into(),
        },
        limits: no_limits(),
        cwd: "/w".into(),
        notes: Vec::new(),
    }
}

fn no_limits() -> Limits {
    Limits {
        timeout_ms: None,
        idle_timeout_ms: None,
        kill_grace_ms: None,
        cpu_seconds: None,
        memory_bytes: None,
        pids: None,
        file_size_bytes: None,
        open_files: None,
        output_bytes: None,
        disk_bytes: None,
    }
}

/// Each limit that ends a command by its own name; where one file or the disks are meant, with its value.
#[test]
fn an_end_by_a_limit_names_that_limit_and_no_other() {
    let limits = Limits {
        file_size_bytes: Some(1_048_576),
        disk_bytes: Some(40_000_000),
        ..no_limits()
    };
    let table = [
        (ExitReason::Timeout, "wall", "timeout: ended after 5 ms"),
        (ExitReason::IdleTimeout, "idle", "silent for too long: "),
        (ExitReason::OutputLimit, "output", "too much output: "),
        (ExitReason::CpuLimit, "cpu", "out of CPU time: "),
        (ExitReason::OomKilled, "memory", "out of memory: "),
        (
            ExitReason::DiskLimit,
            "file-size",
            "a file grew past the file-size limit of 1048576 bytes: ended after 5 ms",
        ),
        (
            ExitReason::DiskLimit,
            "disk",
            "the disks grew by more than the disk limit of 40000000 bytes: ended after 5 ms",
        ),
    ];
    for (reason, limit, first) in table {
        let outcome = Outcome {
            reason,
            duration_ms: 5,
            proven: true,
            limits_hit: vec![LimitHit {
                limit,
                count: 1,
                evidence: "evidence".into(),
            }],
            ..Outcome::lost()
        };
        let lines = notes("ls", &outcome, (LostBytes::default(), Some(&limits)));
        assert!(lines[0].starts_with(first), "{limit}: {lines:?}");
        assert!(lines.len() <= 2, "{limit}: {lines:?}");
        let unknown = notes("ls", &outcome, (LostBytes::default(), None));
        assert_eq!(unknown.len(), lines.len(), "{limit}: {unknown:?}");
    }
}
