//! Terminate: what it found and what it did, each with its own answer.

use std::time::{Duration, Instant};

use agentd_proto::v1::{self, ExitReason, TerminateOutcome};
use agentd_tests::harness::{Mode, in_every_mode, script, wait_until, wire};
use tonic::Code;

use crate::site::{PROMPT, Site, end_of, refused};

#[test]
fn each_outcome_is_told_by_its_own_name() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for id in ["random-0f3a9c", "exec-0000000000000000", "x"] {
                refused(api.terminate(id).await, Code::NotFound, "");
            }
            for (n, text) in ["true", "exit 3", "kill -9 $$", "setsid sleep 600 & exit 0"]
                .iter()
                .enumerate()
            {
                let id = format!("over{n}");
                api.start(script(&site.world, &id, text))
                    .await
                    .expect("it starts");
                let end = end_of(api.wait(&id).await.expect("it is known"));
                let answer = api.terminate(&id).await.expect("it is known");
                assert_eq!(answer.outcome(), TerminateOutcome::AlreadyExited, "{text}");
                assert_eq!(end_of(answer.exec.expect("an execution")), end, "{text}");
            }
            for (n, text) in [
                "sleep 600",
                "setsid sleep 600 & sleep 600",
                "trap '' TERM; (setsid setsid sleep 600 &) ; while :; do sleep 0.1; done",
                "kill -STOP $$",
            ]
            .iter()
            .enumerate()
            {
                let id = format!("tree{n}");
                let mut spec = script(&site.world, &id, text);
                let limits = spec.limits.insert(v1::LimitRequest::default());
                limits.kill_grace = wire(Duration::from_millis(200));
                api.start(spec).await.expect("it starts");
                assert!(wait_until(PROMPT, || !site.world.processes().is_empty()));
                let answer = api.terminate(&id).await.expect("it is known");
                let exec = answer.exec.clone().expect("an execution");
                let cgroup = exec.sandbox.clone().expect("a jail").cgroup;
                let expected = if mode == Mode::Nested && cgroup == "none" {
                    TerminateOutcome::Unproven
                } else {
                    TerminateOutcome::Killed
                };
                assert_eq!(answer.outcome(), expected, "{text}: {cgroup}");
                site.is_empty_now(text);
                let end = end_of(exec);
                assert_eq!(end.reason(), ExitReason::Cancelled, "{text}");
                assert_eq!(end.tree_proven_empty, expected == TerminateOutcome::Killed);
                let again = api.terminate(&id).await.expect("it is known");
                assert_eq!(again.outcome(), TerminateOutcome::AlreadyExited, "{text}");
            }
        });
    });
}

#[test]
fn the_grace_of_the_call_counts_and_many_callers_hear_of_one_end() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let polite =
                "trap 'sleep 0.3; echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done";
            api.start(script(&site.world, "polite", polite))
                .await
                .expect("it starts");
            let (mut reader, mut told) = (
                crate::site::attach(&api, "polite").await,
                agentd_tests::harness::Transcript::default(),
            );
            crate::site::read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
            let calls = (0..5).map(|_| {
                let api = api.clone();
                tokio::spawn(async move { api.terminate("polite").await.expect("it is known") })
            });
            let mut ends = Vec::new();
            for call in calls.collect::<Vec<_>>() {
                ends.push(end_of(
                    call.await.expect("an answer").exec.expect("an execution"),
                ));
            }
            assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{ends:?}");
            crate::site::read_until(&mut reader, &mut told, |_| false).await;
            assert_eq!(crate::site::printed(&told), "up\nbye\n");
            assert_eq!(
                (ends[0].reason(), ends[0].exit_code),
                (ExitReason::Cancelled, Some(7))
            );
            // Without any grace nothing is said.
            let deaf = "trap 'echo no' TERM; echo up; while :; do sleep 0.05; done";
            api.start(script(&site.world, "deaf", deaf))
                .await
                .expect("it starts");
            // Only a trap that is set is worth a test.
            let (mut reader, mut told) = (
                crate::site::attach(&api, "deaf").await,
                agentd_tests::harness::Transcript::default(),
            );
            crate::site::read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
            let request = v1::TerminateRequest {
                exec_id: "deaf".to_owned(),
                grace: wire(Duration::ZERO),
            };
            let answer = api
                .execs()
                .terminate(request)
                .await
                .expect("it is known")
                .into_inner();
            let end = end_of(answer.exec.expect("an execution"));
            assert_eq!(end.signal, Some(9), "{end:?}");
        });
    });
}

#[test]
fn another_terminate_brings_the_kill_nearer_and_never_puts_it_off() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let (own, soon) = (Duration::from_secs(9), Duration::from_secs(7));
            for (n, graces) in [
                [None, Some(Duration::ZERO)],
                [Some(own), Some(Duration::from_millis(300))],
                [Some(Duration::from_millis(300)), Some(own)],
                [Some(Duration::from_millis(300)), None],
            ]
            .into_iter()
            .enumerate()
            {
                let id = format!("deaf{n}");
                let deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done";
                let mut spec = script(&site.world, &id, deaf);
                spec.limits.insert(v1::LimitRequest::default()).kill_grace = wire(own);
                api.start(spec).await.expect("it starts");
                let (mut reader, mut told) = (
                    crate::site::attach(&api, &id).await,
                    agentd_tests::harness::Transcript::default(),
                );
                crate::site::read_until(&mut reader, &mut told, |told| told.stdout.offset > 0)
                    .await;
                let start = Instant::now();
                let mut calls = Vec::new();
                for grace in graces {
                    let mut execs = api.execs();
                    let request = v1::TerminateRequest {
                        exec_id: id.clone(),
                        grace: grace.and_then(wire),
                    };
                    calls.push(tokio::spawn(async move { execs.terminate(request).await }));
                    // The second comes while the first is in force, and long before its end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                for call in calls {
                    let answer = call.await.expect("a call").expect("an answer").into_inner();
                    let end = end_of(answer.exec.expect("an execution"));
                    assert_eq!(
                        (end.reason(), end.signal),
                        (ExitReason::Cancelled, Some(9)),
                        "{graces:?}"
                    );
                }
                assert!(start.elapsed() < soon, "{graces:?}");
            }
        });
    });
}
