//! Executions across connections that break: a real transport, a daemon without a jail.

use std::{sync::atomic::Ordering, time::Duration};

use super::Patience;
use crate::daemon::{
    DaemonError, ExecCommand, ExecEvent, ExecInput, ExecPlace, ExecRequest, ExecStream, ExitReason,
    Lost, SandboxChoice,
    fake::{self, How, Running},
};

/// Long enough for a busy machine.
const PATIENT: Patience = Patience {
    silence: Duration::from_secs(20),
    broken: Duration::from_secs(20),
    nobody: Duration::from_secs(1),
};
/// Short enough for a test that has to wait for it.
const SOON: Patience = Patience {
    silence: Duration::from_millis(250),
    ..PATIENT
};

fn request() -> ExecRequest {
    ExecRequest {
        exec_id: "e-1".into(),
        command: ExecCommand::Script(b"true".into()),
        place: ExecPlace::Sandbox(SandboxChoice {
            profile: None,
            workspace: "/w".into(),
        }),
        cwd: "/w".into(),
        env: Vec::new(),
        timeout: None,
        queue: Some(Duration::ZERO),
        input: ExecInput::Nothing,
        output_file_bytes: 0,
    }
}

/// What arrived, and how it ended.
async fn follow(mut stream: ExecStream) -> (String, Result<ExitReason, DaemonError>) {
    let mut text = String::new();
    loop {
        match stream.next().await {
            Ok(Some(ExecEvent::Started(_))) => text.push('>'),
            Ok(Some(ExecEvent::Output { data, .. })) => {
                text.push_str(std::str::from_utf8(&data).unwrap());
            }
            Ok(Some(ExecEvent::Lost { .. })) => text.push('?'),
            Ok(Some(ExecEvent::Ended(outcome))) => {
                assert!(stream.next().await.unwrap().is_none());
                return (text, Ok(outcome.reason));
            }
            Ok(None) => panic!("an end without an end"),
            Err(error) => return (text, Err(error)),
        }
    }
}

async fn run(fake: &Running) -> (String, Result<ExitReason, DaemonError>) {
    follow(ExecStream::start(&fake.link, request()).unwrap()).await
}

fn begun(fake: &Running) -> u32 {
    fake.told.begun.load(Ordering::Relaxed)
}

#[tokio::test]
async fn wherever_the_stream_breaks_there_is_one_execution_and_all_of_its_output() {
    for how in [
        How::Quietly,
        How::Unavailable,
        How::TooSlow,
        How::Stall,
        How::Reset,
    ] {
        for cuts in [
            vec![0],
            vec![1],
            vec![2],
            vec![3],
            vec![1, 1, 0, 1],
            vec![0, 0, 0],
        ] {
            let patience = if how == How::Stall { SOON } else { PATIENT };
            let fake = fake::start_with(patience).await;
            let plan = cuts.iter().map(|until| (*until, how));
            fake.told.cuts.lock().unwrap().extend(plan);
            let (text, end) = run(&fake).await;
            assert_eq!(text, ">one\ntwo\n", "{how:?} {cuts:?}");
            assert_eq!(end.unwrap(), ExitReason::Exited, "{how:?} {cuts:?}");
            assert_eq!(begun(&fake), 1, "{how:?} {cuts:?}");
        }
    }
}

#[tokio::test]
async fn a_daemon_that_was_restarted_is_never_asked_to_run_it_again() {
    for until in 0..4 {
        let fake = fake::start_with(PATIENT).await;
        fake.told
            .cuts
            .lock()
            .unwrap()
            .push_back((until, How::Restart));
        let (text, end) = run(&fake).await;
        assert!(">one\ntwo\n".starts_with(&text), "{until}: {text}");
        let error = end.unwrap_err();
        assert!(
            matches!(error, DaemonError::Lost(Lost::Restarted)),
            "{until}: {error}"
        );
        assert!(error.to_string().contains("stays done"), "{error}");
        assert_eq!(begun(&fake), 1, "{until}");
    }
}

#[tokio::test]
async fn a_daemon_that_was_restarted_before_is_asked_as_any_other() {
    let fake = fake::start_with(PATIENT).await;
    fake.told.restart();
    // The broken connection is noticed by the first request, which was then never sent, or earlier.
    let (text, end) = run(&fake).await;
    match end {
        Ok(reason) => assert_eq!((text.as_str(), reason), (">one\ntwo\n", ExitReason::Exited)),
        Err(error) => assert!(
            matches!(error, DaemonError::Lost(Lost::Restarted)),
            "{error}"
        ),
    }
    assert!(begun(&fake) <= 1);
    let again = ExecRequest {
        exec_id: "e-2".into(),
        ..request()
    };
    let (text, end) = follow(ExecStream::start(&fake.link, again).unwrap()).await;
    assert_eq!(text, ">one\ntwo\n");
    assert_eq!(end.unwrap(), ExitReason::Exited);
}

#[tokio::test]
async fn a_daemon_that_took_the_others_place_on_the_same_connection_starts_nothing() {
    for (until, how) in [
        (0, How::Unavailable),
        (2, How::Unavailable),
        (2, How::TooSlow),
    ] {
        let fake = fake::start_with(PATIENT).await;
        fake.told.replace();
        let (text, end) = run(&fake).await;
        assert_eq!(text, "");
        let error = end.unwrap_err();
        assert!(error.is_session_gone(), "{error}");
        assert_eq!(begun(&fake), 0);

        // The same when it happens on the way: it cannot be known what the first one did.
        let fake = fake::start_with(PATIENT).await;
        fake.told.cuts.lock().unwrap().push_back((until, how));
        let mut stream = ExecStream::start(&fake.link, request()).unwrap();
        if until > 0 {
            assert!(stream.next().await.unwrap().is_some());
        }
        fake.told.replace();
        let (_text, end) = follow(stream).await;
        assert!(end.is_err(), "{until} {how:?}");
        assert!(begun(&fake) <= 1, "{until} {how:?}");
    }
}

#[tokio::test]
async fn what_was_started_before_can_be_followed_from_its_first_event_on() {
    let fake = fake::start_with(PATIENT).await;
    let unknown = follow(ExecStream::attach(&fake.link, "e-1")).await;
    assert!(
        matches!(unknown.1, Err(DaemonError::Lost(Lost::Forgotten))),
        "{unknown:?}"
    );
    let (first, _end) = run(&fake).await;
    for _ in 0..5 {
        fake.told.cuts.lock().unwrap().push_back((2, How::Reset));
        let (text, end) = follow(ExecStream::attach(&fake.link, "e-1")).await;
        assert_eq!(text, first);
        assert_eq!(end.unwrap(), ExitReason::Exited);
    }
    assert_eq!(begun(&fake), 1);
}

#[tokio::test]
async fn a_daemon_that_is_gone_leaves_an_unknown_end_soon() {
    let fake = fake::start_with(SOON).await;
    fake.told.cuts.lock().unwrap().push_back((2, How::Stall));
    let mut stream = ExecStream::start(&fake.link, request()).unwrap();
    assert!(stream.next().await.unwrap().is_some());
    let before = std::time::Instant::now();
    drop(fake);
    let (_text, end) = follow(stream).await;
    let error = end.unwrap_err();
    assert!(
        matches!(error, DaemonError::Lost(Lost::Unreachable)),
        "{error}"
    );
    assert!(before.elapsed() < Duration::from_secs(15));
}
