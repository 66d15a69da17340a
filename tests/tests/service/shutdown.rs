//! The daemon is told to stop: new work is refused, running work may finish, and then it is ended.

use std::time::{Duration, Instant};

use agentd_proto::v1::ExitReason;
use agentd_tests::harness::{Transcript, in_every_mode, script, wait_until};
use nix::sys::signal::Signal;
use tonic::Code;

use crate::site::{PROMPT, Site, attach, open, printed, read_until, refused};

#[test]
fn commands_finish_within_the_drain_timeout_and_are_ended_after_it() {
    in_every_mode(|mode| {
        let site = Site::with(mode, "drain-timeout = '3s'\n");
        let told = site.call(async |api: agentd_tests::harness::Api| {
            open(&api, site.session("s")).await;
            let soon = "echo up; until [ -e go ]; do sleep 0.05; done; echo finished";
            let never = "trap '' TERM; echo up; setsid sleep 600 & while :; do sleep 0.05; done";
            for (id, text) in [("soon", soon), ("never", never)] {
                api.start(script(&site.world, id, text))
                    .await
                    .expect("it starts");
            }
            api.start(site.behind("s", "behind", "sleep 600"))
                .await
                .expect("it starts");
            let mut readers = Vec::new();
            for id in ["soon", "never"] {
                let (mut reader, mut told) = (attach(&api, id).await, Transcript::default());
                read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
                readers.push((reader, told));
            }
            let began = Instant::now();
            site.daemon.signal(Signal::SIGTERM);
            // Refused while those that run may finish.
            let late = loop {
                let late = api.start(script(&site.world, "", "true")).await;
                if late.is_err() || began.elapsed() > Duration::from_secs(2) {
                    break late;
                }
            };
            refused(late, Code::Unavailable, "DRAINING");
            let late = api.sessions().create(site.session("late")).await;
            refused(late, Code::Unavailable, "DRAINING");
            site.world.file("go", "");
            let mut all = Vec::new();
            for (mut reader, mut told) in readers {
                read_until(&mut reader, &mut told, |_| false).await;
                all.push(told);
            }
            assert!(
                began.elapsed() >= Duration::from_millis(2900),
                "{:?}",
                began.elapsed()
            );
            all
        });
        assert_eq!(printed(&told[0]), "up\nfinished\n");
        assert_eq!(told[0].reason(), ExitReason::Exited);
        assert_eq!(told[1].reason(), ExitReason::Drained);
        let mut site = site;
        assert!(
            wait_until(PROMPT, || !site.daemon.is_running()),
            "{}",
            site.daemon.log()
        );
        site.is_empty_now("drained");
        // The socket that it may not remove is in nobody's way.
        site.restart();
        site.call(async |api: agentd_tests::harness::Api| {
            refused(api.get("soon").await, Code::NotFound, "EXEC_EXPIRED");
        });
    });
}

#[test]
fn told_twice_it_stops_at_once_and_told_without_work_too() {
    in_every_mode(|mode| {
        for (name, text, signals) in [
            (
                "busy",
                Some("trap '' TERM; echo up; sleep 600 & wait; sleep 600"),
                2,
            ),
            ("idle", None, 1),
        ] {
            let mut site = Site::with(mode, "drain-timeout = '300s'\n");
            site.call(async |api: agentd_tests::harness::Api| {
                if let Some(text) = text {
                    api.start(script(&site.world, name, text))
                        .await
                        .expect("it starts");
                    let (mut reader, mut told) = (attach(&api, name).await, Transcript::default());
                    read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
                }
            });
            for n in 0..signals {
                if n > 0 {
                    // The first one has been heard when new work is refused.
                    site.call(
                        async |api: agentd_tests::harness::Api| {
                            while api.start(script(&site.world, "", "true")).await.is_ok() {}
                        },
                    );
                }
                site.daemon.signal(Signal::SIGTERM);
            }
            assert!(wait_until(PROMPT, || !site.daemon.is_running()), "{name}");
            site.is_empty_now(name);
        }
    });
}
