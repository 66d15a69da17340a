//! The life of a session: opened once, kept by its lease, shared by its commands, and gone without a rest.

use std::time::Duration;

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{in_every_mode, wait_until, wire};
use tonic::Code;

use crate::site::{PROMPT, Site, close, end_of, exported, good, look, open, refused, run};

#[test]
fn a_session_is_opened_once_however_often_it_is_asked_for() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let first = open(&api, site.session("once")).await;
            assert_eq!(first.cwd, site.world.workspace.to_string_lossy());
            assert!(!first.boot_id.is_empty() && !first.instance_id.is_empty());
            run(&api, site.within("once", "mark", "export MARK=1")).await;
            let asks = (0..8).map(|_| {
                let (api, request) = (api.clone(), site.session("once"));
                tokio::spawn(async move { open(&api, request).await })
            });
            for ask in asks.collect::<Vec<_>>() {
                let again = ask.await.expect("an answer");
                assert_eq!(again.created_at, first.created_at);
                assert_eq!(exported(&again), ["MARK"]);
            }
            let list = v1::ListSessionsRequest::default();
            let list = api.sessions().list(list).await.expect("a list");
            assert_eq!(list.get_ref().sessions.len(), 1);
            let others: [fn(&mut v1::CreateSessionRequest); 4] = [
                |request| request.lease = wire(Duration::from_secs(77)),
                |request| request.cwd = "sub".to_owned(),
                |request| drop(request.labels.insert("a".to_owned(), "b".to_owned())),
                |request| request.env = None,
            ];
            for other in others {
                let mut request = site.session("once");
                other(&mut request);
                let answer = api.sessions().create(request).await;
                refused(answer, Code::AlreadyExists, "SESSION_ID_CONFLICT");
            }
            let own = [
                open(&api, site.session("")).await,
                open(&api, site.session("")).await,
            ];
            assert_ne!(own[0].session_id, own[1].session_id);
            for bad in ["a b", "../x", "ü", &"x".repeat(65)] {
                let answer = api.sessions().create(site.session(bad)).await;
                assert_eq!(answer.expect_err(bad).code(), Code::InvalidArgument);
            }
        });
    });
}

#[test]
fn temporary_files_belong_to_a_session_and_go_with_it() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for id in ["a", "b"] {
                open(&api, site.session(id)).await;
            }
            let write = "cd ${TMPDIR:-/tmp} && mkdir -p d && echo of-a >d/f && pwd";
            let place = good(&run(&api, site.within("a", "w", write)).await);
            let read = format!("cat {}/d/f", place.trim());
            for id in ["r1", "r2"] {
                let told = run(&api, site.within("a", id, &read)).await;
                assert_eq!(good(&told), "of-a\n");
            }
            let outside = agentd_tests::harness::script(&site.world, "o", &read);
            for spec in [site.within("b", "o2", &read), outside] {
                let told = run(&api, spec).await;
                let code = told.exited.as_ref().expect("an end").exit_code;
                assert_eq!(code, Some(1), "{told:?}");
            }
            close(&api, "a").await.expect("it is there");
            open(&api, site.session("a")).await;
            let again = format!(
                "ls {}/d 2>&1; ls -A ${{TMPDIR:-/tmp}} | grep -x d",
                place.trim()
            );
            let told = run(&api, site.within("a", "r3", &again)).await;
            assert_eq!(
                told.exited.as_ref().expect("an end").exit_code,
                Some(1),
                "{told:?}"
            );
        });
    });
}

#[test]
fn a_lease_that_runs_out_ends_everything_in_its_session() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        let before = site.directories();
        site.call(|api| async move {
            let mut request = site.session("short");
            request.lease = wire(Duration::from_secs(1));
            open(&api, request).await;
            let tree = "trap '' TERM HUP; echo x >${TMPDIR:-/tmp}/f; setsid sleep 600 & sleep 600";
            api.start(site.behind("short", "tree", tree))
                .await
                .expect("it starts");
            api.start(site.behind("short", "plain", "sleep 600"))
                .await
                .expect("it starts");
            let runs = wait_until(PROMPT, || site.world.processes().len() >= 3);
            assert!(runs, "{:?}", site.world.processes());
            assert_ne!(site.directories(), before);
            let gone = wait_until(PROMPT, || site.world.processes().is_empty());
            assert!(gone, "{:?}", site.world.processes());
            let gone = wait_until(PROMPT, || site.directories() == before);
            assert!(gone, "{:?}", site.directories());
            refused(look(&api, "short").await, Code::NotFound, "SESSION_EXPIRED");
            for id in ["tree", "plain"] {
                let end = end_of(api.wait(id).await.expect("its end is still told"));
                assert_eq!(end.reason(), ExitReason::Disconnected, "{end:?}");
            }
            let late = api.start(site.within("short", "late", "true")).await;
            refused(late, Code::NotFound, "SESSION_EXPIRED");
        });
    });
}

#[test]
fn a_deleted_session_is_empty_when_the_answer_comes() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        let before = site.directories();
        site.call(|api| async move {
            for (round, tree) in [
                "sleep 600",
                "trap '' TERM; while :; do sleep 0.1; done",
                "setsid sleep 600 & sleep 600",
            ]
            .iter()
            .enumerate()
            {
                open(&api, site.session("gone")).await;
                for n in 0..3 {
                    let spec = site.behind("gone", &format!("x{round}-{n}"), tree);
                    api.start(spec).await.expect("it starts");
                }
                let session = look(&api, "gone").await.expect("it is there");
                assert_eq!(session.running_execs, 3);
                assert_eq!(close(&api, "gone").await.expect("it is there"), 3, "{tree}");
                site.is_empty_now(tree);
                assert_eq!(site.directories(), before, "{tree}");
                let end = end_of(api.wait(&format!("x{round}-0")).await.expect("known"));
                assert_eq!(end.reason(), ExitReason::Cancelled, "{tree}");
                refused(look(&api, "gone").await, Code::NotFound, "SESSION_EXPIRED");
            }
            refused(
                close(&api, "never").await,
                Code::NotFound,
                "SESSION_EXPIRED",
            );
        });
    });
}

#[test]
fn a_silent_command_keeps_the_lease_of_its_session() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let mut request = site.session("lease");
            request.lease = wire(Duration::from_secs(2));
            open(&api, request).await;
            let told = run(&api, site.within("lease", "silent", "sleep 10; echo end")).await;
            assert_eq!(good(&told), "end\n");
            // The lease counts from its end.
            look(&api, "lease").await.expect("it is still there");
        });
    });
}

#[test]
fn a_stuck_command_is_in_no_other_commands_way() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("busy")).await;
            let stuck = [
                "trap '' TERM INT HUP; while :; do sleep 1; done",
                "kill -STOP $$",
                "mkfifo p; cat <p",
                "yes",
            ];
            for (n, text) in stuck.iter().enumerate() {
                let spec = site.within("busy", &format!("stuck{n}"), text);
                api.start(spec).await.expect("it starts");
            }
            for n in 0..3 {
                let spec = site.within("busy", &format!("free{n}"), "echo free");
                let told = tokio::time::timeout(PROMPT, run(&api, spec)).await;
                assert_eq!(good(&told.expect("nothing is in its way")), "free\n");
            }
            for n in 0..stuck.len() {
                let id = format!("stuck{n}");
                let ended = tokio::time::timeout(PROMPT, api.terminate(&id)).await;
                ended.expect("in time").expect("it is known");
            }
            site.is_empty_now("terminated");
        });
    });
}
