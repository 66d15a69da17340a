//! Executions against a launcher that a thread plays: the real channel, pipes and driver.

use std::{io::Write, os::fd::OwnedFd, path::Path, time::Duration};

use agentd_sandbox::{
    explain::Verdict,
    monitor::{Cause, LeaderStatus, StopReason, Usage},
    policy::{Layer, Refusal},
};

use super::*;
use crate::{
    commands::Blocked,
    exec::{
        AdmitError, Disconnect, EventBody, Executor, ExitReason, ExitResult, NotStarted, ReadItem,
        Reader, Registry,
    },
    launcher_link::fake::{Side, launcher, script_spec, started},
};

fn executor(link: Link) -> Executor {
    Executor::new(Registry::new(8, "boot"), link)
}

fn ended(exec: ExecKey, cause: Cause, status: LeaderStatus) -> Event {
    Event::Ended {
        exec,
        cause,
        status,
        leftover: 0,
        usage: Usage::default(),
        tripped: Vec::new(),
        hits: Vec::new(),
        proven: true,
    }
}

/// Plays a command that prints to both streams and exits 3; `Finish` ends it.
fn prints(side: &Side, request: &Request, fds: Vec<OwnedFd>, (out, err): (&[u8], &[u8])) {
    match *request {
        Request::Spawn { exec, .. } => {
            side.send(&started(exec));
            let mut files = fds.into_iter().map(std::fs::File::from);
            files.next().unwrap().write_all(out).unwrap();
            files.next().unwrap().write_all(err).unwrap();
            drop(files);
            side.send(&Event::LeaderExited {
                exec,
                status: LeaderStatus::Exited(3),
            });
        }
        Request::Finish { exec } => {
            side.send(&ended(exec, Cause::Leader, LeaderStatus::Exited(3)));
        }
        Request::Stop { .. }
        | Request::Explain { .. }
        | Request::Reload
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::OpenSession { .. }
        | Request::CloseSession { .. } => {}
    }
}

async fn read_all(mut reader: Reader) -> (Vec<u8>, Vec<u8>, Vec<ExitResult>) {
    let (mut out, mut err, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(item) = reader.next().await {
        let ReadItem::Event(event) = item else {
            continue;
        };
        match event.body {
            EventBody::Started(_) => assert_eq!(event.seq, 1),
            EventBody::Output { stream, data, .. } => match stream {
                crate::exec::OutputStream::Stdout => out.extend_from_slice(&data),
                crate::exec::OutputStream::Stderr | crate::exec::OutputStream::Terminal => {
                    err.extend_from_slice(&data);
                }
            },
            EventBody::Exited(end) => ends.push((*end).clone()),
        }
    }
    (out, err, ends)
}

async fn run(link: Link, script: &str) -> Result<ExitResult, NotStarted> {
    let executor = executor(link);
    let (exec, _) = executor.submit(script_spec("a", script)).unwrap();
    let reader = Reader::new(&exec, 0);
    executor.started(&exec).await?;
    let (_, _, ends) = read_all(reader).await;
    assert_eq!(ends.len(), 1, "exactly one terminal event");
    Ok(ends.into_iter().next().unwrap())
}

#[tokio::test]
async fn a_command_runs_from_start_to_its_one_end() {
    let link = launcher(|side, request, fds| prints(side, &request, fds, (b"hello", b"oops")));
    let executor = executor(link);
    let (exec, created) = executor.submit(script_spec("a", "x")).unwrap();
    assert!(created);
    let reader = Reader::new(&exec, 0);
    executor.started(&exec).await.unwrap();
    let (out, err, ends) = read_all(reader).await;
    assert_eq!(
        (out.as_slice(), err.as_slice()),
        (&b"hello"[..], &b"oops"[..])
    );
    let [end] = ends.as_slice() else {
        panic!("exactly one terminal event")
    };
    assert_eq!((end.reason, end.exit_code), (ExitReason::Exited, Some(3)));
    assert_eq!(
        (end.stdout_bytes, end.stderr_bytes, end.dropped_bytes),
        (5, 4, 0)
    );
    assert!(end.output_complete);
    let (again, created) = executor.submit(script_spec("a", "x")).unwrap();
    assert!(!created && Arc::ptr_eq(&again, &exec));
    let (out, _, ends) = read_all(Reader::new(&again, 0)).await;
    assert_eq!(
        (out.as_slice(), ends.len()),
        (&b"hello"[..], 1),
        "replayed in full"
    );
}

#[tokio::test]
async fn a_late_writer_that_holds_the_pipe_does_not_hold_the_result() {
    let mut held = Vec::new();
    let link = launcher(move |side, request, fds| match request {
        Request::Spawn { exec, .. } => {
            side.send(&started(exec));
            nix::unistd::write(&fds[0], b"important").unwrap();
            held = fds;
            side.send(&Event::LeaderExited {
                exec,
                status: LeaderStatus::Exited(0),
            });
        }
        Request::Finish { exec } => {
            held.clear();
            side.send(&ended(exec, Cause::Leader, LeaderStatus::Exited(0)));
        }
        Request::Stop { .. }
        | Request::Explain { .. }
        | Request::Reload
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::OpenSession { .. }
        | Request::CloseSession { .. } => {}
    });
    let end = tokio::time::timeout(Duration::from_secs(5), run(link, "x"))
        .await
        .expect("a result in time")
        .unwrap();
    assert_eq!((end.reason, end.stdout_bytes), (ExitReason::Exited, 9));
    assert!(end.output_complete);
}

#[tokio::test]
async fn a_refusal_starts_nothing_and_frees_the_id() {
    let refusal = Refusal::Malformed("no".to_owned());
    let refused = refusal.clone();
    let link = launcher(move |side, request, _| {
        if let Request::Spawn { exec, .. } = request {
            let refusal = refused.clone();
            side.send(&Event::Refused { exec, refusal });
        }
    });
    let executor = executor(link);
    let (exec, _) = executor.submit(script_spec("a", "x")).unwrap();
    assert_eq!(
        executor.started(&exec).await,
        Err(NotStarted::Refused(refusal))
    );
    assert!(executor.registry().get(exec.owner(), "a").is_none());
    exec.ended().await;
}

#[tokio::test]
async fn a_jail_that_cannot_be_built_is_an_end_of_its_own() {
    let link = launcher(|side, request, _| {
        if let Request::Spawn { exec, .. } = request {
            let failure = SetupFailure {
                stage: "exec".to_owned(),
                errno: 2,
                detail: "nosuch".to_owned(),
            };
            side.send(&Event::SetupFailed { exec, failure });
        }
    });
    let end = run(link, "x").await.unwrap();
    assert_eq!(end.reason, ExitReason::SetupFailed);
    assert_eq!(end.exit_code, None);
    assert_eq!(end.setup.unwrap().stage, "exec");
}

#[tokio::test]
async fn the_launchers_death_ends_everything_as_lost() {
    let link = launcher(|side, request, fds| {
        if let Request::Spawn { exec, .. } = request {
            side.send(&started(exec));
            nix::unistd::write(&fds[0], b"partial").unwrap();
            side.die();
        }
    });
    let end = run(link.clone(), "x").await.unwrap();
    assert_eq!((end.reason, end.stdout_bytes), (ExitReason::Lost, 7));
    link.lost().await;
    assert!(matches!(link.tell(&Request::Reload), Err(LinkError::Gone)));
    assert_eq!(run(link, "x").await, Err(NotStarted::LauncherGone));
}

#[tokio::test]
async fn a_command_is_lost_and_not_refused_once_a_launcher_that_died_may_have_started_it() {
    for word in [None, Some(Event::Reloaded { result: Ok(0) })] {
        let link = launcher(move |side, request, _| {
            if let Request::Spawn { .. } = request {
                if let Some(word) = &word {
                    side.send(word);
                }
                side.die();
            }
        });
        let end = run(link.clone(), "x").await.unwrap();
        assert_eq!(end.reason, ExitReason::Lost);
        assert!(!end.proven && !end.output_complete && end.started_at.is_none());
        assert!(end.notes[0].contains("may have run"), "{:?}", end.notes);
        // One that was never sent was refused.
        link.lost().await;
        assert_eq!(run(link, "x").await, Err(NotStarted::LauncherGone));
    }
}

#[tokio::test]
async fn nobody_waits_for_the_answer_to_what_did_not_go_out() {
    let link = launcher(|side, _, _| side.die());
    let long = "x".repeat(200_000);
    let invocation = script_spec("a", "x").invocation;
    let ask = |name: &str| {
        vec![Query::Syscall {
            name: name.to_owned(),
        }]
    };
    let caller = invocation.caller;
    for (profile, lost) in [(long.as_str(), false), ("workspace", true)] {
        if lost {
            link.tell(&Request::Reload).unwrap();
            link.lost().await;
            link.reload().await.unwrap_err();
            link.close_session(SessionKey(2)).await.unwrap_err();
        }
        let mut spec = script_spec("a", "x");
        spec.invocation.profile = profile.to_owned();
        link.explain(invocation.clone(), ask(profile))
            .await
            .unwrap_err();
        link.open_session(SessionKey(1), (profile, Path::new("/w")), caller)
            .await
            .unwrap_err();
        link.spawn(ExecKey(1), spec.invocation, Vec::new())
            .unwrap_err();
        assert_eq!(link.routes().waiting(), 0, "lost: {lost}");
    }
}

#[tokio::test]
async fn a_stop_reaches_the_launcher_even_before_the_start() {
    let (spawning, mut spawned) = mpsc::unbounded_channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let link = launcher(move |side, request, _| match request {
        Request::Spawn { exec, .. } => {
            spawning.send(()).unwrap();
            gone.recv().unwrap();
            side.send(&started(exec));
        }
        Request::Stop { exec, reason, .. } => {
            let status = LeaderStatus::Signaled {
                signal: 15,
                core: false,
            };
            side.send(&ended(exec, Cause::Stopped(reason), status));
        }
        Request::Finish { .. }
        | Request::Explain { .. }
        | Request::Reload
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::OpenSession { .. }
        | Request::CloseSession { .. } => {}
    });
    let executor = executor(link);
    let (exec, _) = executor.submit(script_spec("a", "x")).unwrap();
    spawned.recv().await.unwrap();
    exec.request_stop(StopReason::Cancelled, None);
    go.send(()).unwrap();
    exec.ended().await;
    let end = exec.result().unwrap();
    assert_eq!((end.reason, end.signal), (ExitReason::Cancelled, Some(15)));
    let drained = executor.drain(Duration::ZERO, Duration::ZERO).await;
    assert_eq!((drained.finished, drained.terminated), (0, 0));
    let refused = executor.submit(script_spec("b", "x")).unwrap_err();
    assert_eq!(refused, AdmitError::Draining);
}

#[tokio::test]
async fn a_command_dies_when_its_last_reader_leaves_at_once() {
    let link = launcher(|side, request, _| match request {
        Request::Spawn { exec, .. } => side.send(&started(exec)),
        Request::Stop { exec, reason, .. } => {
            side.send(&ended(exec, Cause::Stopped(reason), LeaderStatus::Unknown));
        }
        Request::Finish { .. }
        | Request::Explain { .. }
        | Request::Reload
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::OpenSession { .. }
        | Request::CloseSession { .. } => {}
    });
    let executor = executor(link);
    let mut spec = script_spec("a", "x");
    spec.disconnect = Disconnect::Grace(Duration::ZERO);
    let (exec, _) = executor.submit(spec).unwrap();
    let reader = Reader::new(&exec, 0);
    executor.started(&exec).await.unwrap();
    drop(reader);
    exec.ended().await;
    assert_eq!(exec.result().unwrap().reason, ExitReason::Disconnected);
}

#[tokio::test]
async fn a_failed_path_that_the_policy_refuses_is_an_inferred_denial() {
    let link = launcher(|side, request, fds| {
        if let Request::Explain { id, queries, .. } = &request {
            let verdicts = queries
                .iter()
                .map(|_| Verdict {
                    allowed: false,
                    rule: "base.toml:9".to_owned(),
                    layers: vec![Layer::OwnRoot],
                    text: "nothing grants it".to_owned(),
                })
                .collect();
            side.send(&Event::Explained {
                id: *id,
                result: Ok(verdicts),
            });
        }
        let err = b"cat: /etc/shadow: Permission denied\n";
        prints(side, &request, fds, (b"", err));
    });
    let end = run(link, "cat /etc/shadow").await.unwrap();
    let [denial] = end.denials.as_slice() else {
        panic!("one denial, not {:?}", end.denials)
    };
    assert_eq!(
        (denial.path.as_str(), denial.layer.as_str()),
        ("/etc/shadow", "own-root")
    );
}

#[tokio::test]
async fn a_blacklisted_command_never_reaches_the_launcher() {
    let link = launcher(|_, request, _| panic!("the launcher was asked: {request:?}"));
    let mut profiles = (*link.profiles()).clone();
    profiles[0].commands.literals = vec![agentd_sandbox::profile::LiteralRule {
        rule: "base.toml:1".to_owned(),
        reason: "no".to_owned(),
        text: "forbidden".to_owned(),
    }];
    link.0.profiles.send_replace(Arc::new(profiles));
    let end = run(link, "echo forbidden").await.unwrap();
    assert_eq!(end.reason, ExitReason::Blocked);
    let Some(Blocked { rule, .. }) = end.blocked else {
        panic!("blocked by a rule")
    };
    assert_eq!(rule, "base.toml:1");
}

#[tokio::test]
async fn a_flood_is_consumed_without_any_reader_and_counted_exactly() {
    const TOTAL: usize = 64 * 1024 * 1024;
    let link = launcher(|side, request, fds| match request {
        Request::Spawn { exec, .. } => {
            side.send(&started(exec));
            let mut out = std::fs::File::from(fds.into_iter().next().unwrap());
            let block = vec![b'y'; 1024 * 1024];
            for _ in 0..TOTAL / block.len() {
                out.write_all(&block).unwrap();
            }
            drop(out);
            side.send(&ended(exec, Cause::Leader, LeaderStatus::Exited(0)));
        }
        Request::Finish { .. }
        | Request::Stop { .. }
        | Request::Explain { .. }
        | Request::Reload
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::OpenSession { .. }
        | Request::CloseSession { .. } => {}
    });
    let executor = executor(link);
    let (exec, _) = executor.submit(script_spec("a", "yes")).unwrap();
    exec.ended().await;
    let end = exec.result().unwrap();
    let total = u64::try_from(TOTAL).unwrap();
    assert_eq!(end.stdout_bytes, total);
    let mut reader = Reader::new(&exec, 0);
    let mut got = 0;
    while let Some(item) = reader.next().await {
        match item {
            ReadItem::Event(event) => {
                if let EventBody::Output { data, .. } = event.body {
                    got += u64::try_from(data.len()).unwrap();
                }
            }
            ReadItem::Gap { lost, .. } => assert_eq!(lost.stdout, end.dropped_bytes),
            ReadItem::Heartbeat { .. } => {}
        }
    }
    assert_eq!(got + end.dropped_bytes, total);
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused_before_it_is_sent() {
    let link = launcher(|_, request, _| panic!("the launcher was asked: {request:?}"));
    let mut spec = script_spec("a", "x");
    let value = "x".repeat(MAX_MESSAGE);
    spec.invocation.env_set.insert("A".to_owned(), value);
    let executor = executor(link);
    let (exec, _) = executor.submit(spec).unwrap();
    let error = executor.started(&exec).await.unwrap_err();
    assert!(matches!(error, NotStarted::TooLarge(_)));
}

#[tokio::test]
async fn a_start_without_its_descriptors_is_stopped_and_told_as_a_failure() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let link = launcher(move |_, request, _| told.send(request).unwrap());
    let exec = ExecKey(3);
    let leader = Event::LeaderExited {
        exec,
        status: LeaderStatus::Exited(0),
    };
    for (event, fds_lost, fails) in [
        (started(exec), false, false),
        (started(exec), true, true),
        (leader, true, false),
    ] {
        let received = Received {
            message: event.clone(),
            fds: Vec::new(),
            fds_lost,
        };
        let delivered = whole(&link, received).event;
        if fails {
            let told = matches!(
                &delivered,
                Event::SetupFailed { exec: ExecKey(3), failure } if failure.detail.contains("open files")
            );
            assert!(told, "{delivered:?}");
            let stop = heard.recv().await.unwrap();
            let stops = matches!(
                stop,
                Request::Stop {
                    exec: ExecKey(3),
                    grace_ms: Some(0),
                    ..
                }
            );
            assert!(stops, "{stop:?}");
        } else {
            assert_eq!(delivered, event);
        }
    }
    assert!(heard.is_empty(), "nothing else is stopped");
}
