//! More commands than may run: they wait, are told so, and can be read, ended and forgotten meanwhile.

use std::time::{Duration, Instant};

use agentd_proto::v1::{self, ExecState, ExitReason};
use agentd_tests::harness::{Api, Transcript, in_every_mode, script, wire};
use tonic::{Code, Status};

use crate::site::{PROMPT, Site, attach, carries, end_of, printed, read_until, refused};

const ONE: &str = "max-execs = 1\nmax-queued = 3\n";

type Started = tokio::task::JoinHandle<Result<v1::StartResponse, Status>>;

/// Starts a command that has to wait, and returns when it does.
async fn enqueue(site: &Site, api: &Api, id: &str, text: &str) -> Started {
    let spec = v1::ExecSpec {
        queue_timeout: wire(Duration::from_secs(120)),
        ..script(&site.world, id, text)
    };
    let other = api.clone();
    let started = tokio::spawn(async move { other.start(spec).await });
    let end = Instant::now() + PROMPT;
    loop {
        if let Ok(exec) = api.get(id).await {
            assert_eq!(exec.state(), ExecState::Queued, "{exec:?}");
            return started;
        }
        assert!(Instant::now() < end, "{id} is never there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_second_command_waits_for_the_first_and_one_that_may_not_wait_is_refused() {
    in_every_mode(|mode| {
        let site = &Site::with(mode, ONE);
        site.call(|api| async move {
            api.start(script(&site.world, "first", "sleep 600"))
                .await
                .expect("it starts");
            let second = enqueue(site, &api, "second", "echo second").await;
            let list = v1::ListExecsRequest {
                state: ExecState::Queued.into(),
                ..v1::ListExecsRequest::default()
            };
            let list = api.execs().list(list).await.expect("a list").into_inner();
            assert_eq!(list.execs.len(), 1, "{list:?}");
            for patience in [Duration::ZERO, Duration::from_millis(300)] {
                let began = Instant::now();
                let spec = v1::ExecSpec {
                    queue_timeout: wire(patience),
                    ..script(&site.world, "late", "true")
                };
                let status = refused(
                    api.start(spec).await,
                    Code::ResourceExhausted,
                    "LIMIT_EXECS",
                );
                assert!(carries(&status, "google.rpc.RetryInfo"), "{status:?}");
                assert!(began.elapsed() >= patience && began.elapsed() < PROMPT);
            }
            for id in ["third", "fourth"] {
                drop(enqueue(site, &api, id, "true").await);
            }
            let full = api.start(script(&site.world, "fifth", "true")).await;
            let status = refused(full, Code::ResourceExhausted, "LIMIT_EXECS");
            assert!(carries(&status, "google.rpc.RetryInfo"), "{status:?}");
            api.terminate("first").await.expect("it is known");
            let started = second.await.expect("an answer").expect("it starts");
            assert!(started.created);
            for id in ["second", "third", "fourth"] {
                let end = end_of(api.wait(id).await.expect("it is known"));
                assert_eq!(end.exit_code, Some(0), "{id}");
            }
            // A refused id was never used.
            api.start(script(&site.world, "late", "true"))
                .await
                .expect("it starts");
        });
    });
}

#[test]
fn a_command_that_waits_can_be_read_ended_and_forgotten() {
    in_every_mode(|mode| {
        let site = &Site::with(mode, ONE);
        site.call(|api| async move {
            api.start(script(&site.world, "first", "sleep 600"))
                .await
                .expect("it starts");
            let read = enqueue(site, &api, "read", "echo ran").await;
            let ended = enqueue(site, &api, "ended", "touch ran-ended").await;
            let forgotten = enqueue(site, &api, "forgotten", "touch ran-forgotten").await;
            let (mut reader, mut told) = (attach(&api, "read").await, Transcript::default());
            let wait = v1::WaitRequest {
                exec_id: "read".to_owned(),
                wait: wire(Duration::from_millis(50)),
            };
            let wait = api.execs().wait(wait).await.expect("known").into_inner();
            assert_eq!(wait.exec.expect("an execution").state(), ExecState::Queued);
            let answer = api.terminate("ended").await.expect("it is known");
            let end = end_of(answer.exec.expect("an execution"));
            assert_eq!((end.reason(), end.exit_code), (ExitReason::Cancelled, None));
            assert!(end.notes.join("").contains("nothing ran"), "{end:?}");
            // Whoever waits for the start hears of the end.
            let ended = tokio::time::timeout(PROMPT, ended)
                .await
                .expect("an answer");
            let ended = ended.expect("no panic").expect("it is known");
            assert_eq!(ended.exec.expect("an execution").state(), ExecState::Ended);
            let soft = v1::DeleteExecRequest {
                exec_id: "forgotten".to_owned(),
                force: false,
            };
            let soft = api.execs().delete(soft).await.expect_err("it waits");
            assert_eq!(soft.code(), Code::FailedPrecondition, "{soft:?}");
            api.delete("forgotten").await.expect("it is known");
            assert_eq!(
                api.get("forgotten").await.expect_err("gone").code(),
                Code::NotFound
            );
            tokio::time::timeout(PROMPT, forgotten)
                .await
                .expect("an answer")
                .expect("no panic")
                .ok();
            api.terminate("first").await.expect("it is known");
            read_until(&mut reader, &mut told, |_| false).await;
            assert_eq!(printed(&told), "ran\n");
            read.await.expect("an answer").expect("it starts");
            for file in ["ran-ended", "ran-forgotten"] {
                assert!(!site.world.workspace.join(file).exists(), "{file}");
            }
        });
    });
}
