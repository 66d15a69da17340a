//! Limits as a client meets them: each is named in the end of the command that ran into it.

use std::time::Duration;

use agentd_proto::v1::{ExitReason, LimitKind, LimitRequest};
use agentd_tests::harness::{Mode, in_every_mode, script, wire};

use crate::site::{Site, run};

const MIB: u64 = 1 << 20;

/// Forks as often as it may.
const FORKS: &str = "python3 -c 'import os, time
for _ in range(300):
    try:
        if os.fork() == 0: time.sleep(300)
    except BlockingIOError: print(\"refused\"); break'";

fn none() -> LimitRequest {
    LimitRequest {
        timeout: wire(Duration::from_secs(50)),
        kill_grace: wire(Duration::from_millis(200)),
        ..LimitRequest::default()
    }
}

struct Case {
    name: &'static str,
    script: &'static str,
    limits: LimitRequest,
    reason: ExitReason,
    kind: LimitKind,
}

fn table() -> Vec<Case> {
    let case = |name, script, limits, reason, kind| Case {
        name,
        script,
        limits,
        reason,
        kind,
    };
    vec![
        case(
            "wall",
            "echo a; sleep 600",
            LimitRequest {
                timeout: wire(Duration::from_millis(700)),
                ..none()
            },
            ExitReason::Timeout,
            LimitKind::Wall,
        ),
        case(
            "idle",
            "echo a; sleep 600",
            LimitRequest {
                idle_timeout: wire(Duration::from_millis(500)),
                ..none()
            },
            ExitReason::IdleTimeout,
            LimitKind::Idle,
        ),
        case(
            "output",
            "yes",
            LimitRequest {
                output_bytes: Some(300_000),
                ..none()
            },
            ExitReason::OutputLimit,
            LimitKind::Output,
        ),
        case(
            "cpu",
            "while :; do :; done",
            LimitRequest {
                cpu_seconds: Some(1),
                ..none()
            },
            ExitReason::CpuLimit,
            LimitKind::Cpu,
        ),
        case(
            "file-size",
            "exec head -c 3M /dev/zero >large",
            LimitRequest {
                file_size_bytes: Some(MIB),
                ..none()
            },
            ExitReason::DiskLimit,
            LimitKind::FileSize,
        ),
        case(
            "disk",
            "head -c 120M /dev/zero >fill; sleep 60",
            LimitRequest {
                disk_bytes: Some(40 * MIB),
                ..none()
            },
            ExitReason::DiskLimit,
            LimitKind::Disk,
        ),
    ]
}

#[test]
fn a_limit_that_ends_a_command_is_its_reason_and_is_listed_with_evidence() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for case in table() {
                let mut spec = script(&site.world, case.name, case.script);
                spec.limits = Some(case.limits);
                let end = run(&api, spec).await.exited.expect("an end");
                assert_eq!(end.reason(), case.reason, "{}: {end:?}", case.name);
                let hit = end.limits_hit.iter().find(|hit| hit.limit() == case.kind);
                assert!(
                    hit.is_some_and(|hit| hit.count >= 1 && !hit.evidence.is_empty()),
                    "{}: {end:?}",
                    case.name
                );
                assert_eq!(end.limits_hit.len(), 1, "{}: {end:?}", case.name);
                site.is_empty_now(case.name);
                let _filled = std::fs::remove_file(site.world.workspace.join("fill"));
            }
            // The control: the same without limits is no hit.
            let mut spec = script(
                &site.world,
                "control",
                "yes | head -c 1000000; head -c 3M /dev/zero >large; sleep 1",
            );
            spec.limits = Some(none());
            let end = run(&api, spec).await.exited.expect("an end");
            assert_eq!(
                (end.exit_code, end.limits_hit.len()),
                (Some(0), 0),
                "{end:?}"
            );
        });
    });
}

#[test]
fn processes_and_memory_are_limited_and_named_where_something_counts_them() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let mut forks = script(&site.world, "forks", FORKS);
            forks.limits = Some(LimitRequest {
                pids: Some(20),
                ..none()
            });
            let told = run(&api, forks).await;
            let limits = told.started.as_ref().expect("a start").limits;
            let end = told.exited.clone().expect("an end");
            if limits.expect("limits").pids.is_some() {
                assert_eq!(told.stdout.bytes(), b"refused\n", "{end:?}");
                // Without a namespace all processes of the user count, also those that end meanwhile.
                let most = if mode == Mode::Nested { 200 } else { 20 };
                assert!(end.leftover_processes <= most, "{end:?}");
            }
            let jail = told.started.expect("a start").sandbox.expect("a jail");
            let counted = jail.cgroup != "none";
            if counted {
                assert!(
                    end.limits_hit
                        .iter()
                        .any(|hit| hit.limit() == LimitKind::Pids),
                    "{end:?}"
                );
            }
            site.is_empty_now("forks");
            let mut hog = script(
                &site.world,
                "hog",
                if counted {
                    "exec tail </dev/zero"
                } else {
                    "true"
                },
            );
            hog.limits = Some(LimitRequest {
                memory_bytes: Some(48 * MIB),
                ..none()
            });
            let told = run(&api, hog).await;
            let end = told.exited.expect("an end");
            let started = told.started.expect("a start");
            if counted {
                assert_eq!(end.reason(), ExitReason::OomKilled, "{end:?}");
                let hit = end
                    .limits_hit
                    .iter()
                    .find(|hit| hit.limit() == LimitKind::Memory);
                assert!(
                    hit.is_some_and(|hit| hit.evidence.contains("oom_kill")),
                    "{end:?}"
                );
            } else {
                // What nothing enforces is not claimed, and its absence is told.
                assert_eq!(started.limits.expect("limits").memory_bytes, None);
                let degraded = started.sandbox.expect("a jail").degraded;
                assert!(
                    degraded.iter().any(|missing| missing.layer == "cgroup"),
                    "{degraded:?}"
                );
            }
            // A kill that nobody's limit caused is not called one.
            let mut killed = script(&site.world, "killed", "kill -9 $$");
            killed.limits = Some(LimitRequest {
                memory_bytes: Some(48 * MIB),
                ..none()
            });
            let end = run(&api, killed).await.exited.expect("an end");
            assert_eq!(
                (end.reason(), end.limits_hit.len()),
                (ExitReason::Signaled, 0),
                "{end:?}"
            );
        });
    });
}
