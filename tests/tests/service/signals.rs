//! Signals: whom they reach, and which there are.

use agentd_proto::v1::{self, ExitReason, SignalScope};
use agentd_tests::harness::{Api, Transcript, in_every_mode, script, state_of, wait_until};
use tonic::Code;

use crate::site::{PROMPT, Site, attach, end_of, printed, read_until};

async fn try_signal(
    api: &Api,
    id: &str,
    signal: i32,
    scope: SignalScope,
) -> Result<bool, tonic::Status> {
    let request = v1::SignalRequest {
        exec_id: id.to_owned(),
        signal,
        scope: scope.into(),
    };
    Ok(api.execs().signal(request).await?.get_ref().delivered)
}

async fn signal(api: &Api, id: &str, number: i32, scope: SignalScope) {
    let delivered = try_signal(api, id, number, scope).await;
    assert!(delivered.expect("it is known"), "{number} {scope:?}");
}

/// A program that says when it runs: bash before it would ignore some signals.
const UP: &str = r#"exec perl -e '$| = 1; print "up\n"; sleep 600'"#;

/// The leader, a child in its group and one in a session of its own, each of which says what it gets.
const FAMILY: &str = "
report() { trap \"echo $1:USR1\" USR1; trap \"echo $1:USR2\" USR2; trap \"echo $1:HUP\" HUP; }
member() { report $1; echo up; while :; do sleep 0.05; done; }
export -f report member
bash -c 'member child' &
setsid bash -c 'member away' &
member leader
";

#[test]
fn a_signal_reaches_its_scope_and_nobody_else() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let table: [(SignalScope, &[&str]); 3] = [
                (SignalScope::Leader, &["leader"]),
                (SignalScope::Group, &["leader", "child"]),
                (SignalScope::Tree, &["leader", "child", "away"]),
            ];
            for (n, (scope, reached)) in table.into_iter().enumerate() {
                let id = format!("family{n}");
                api.start(script(&site.world, &id, FAMILY))
                    .await
                    .expect("it starts");
                let (mut reader, mut told) = (attach(&api, &id).await, Transcript::default());
                let ups = |told: &Transcript| printed(told).matches("up\n").count() == 3;
                read_until(&mut reader, &mut told, ups).await;
                for (number, name) in [(10, "USR1"), (12, "USR2")] {
                    signal(&api, &id, number, scope).await;
                    let all = |told: &Transcript| {
                        reached
                            .iter()
                            .all(|who| printed(told).contains(&format!("{who}:{name}\n")))
                    };
                    read_until(&mut reader, &mut told, all).await;
                }
                // Whoever else it went to would have said so by the time that all have heard this one.
                signal(&api, &id, 1, SignalScope::Tree).await;
                let heard = |told: &Transcript| printed(told).matches(":HUP\n").count() == 3;
                read_until(&mut reader, &mut told, heard).await;
                for who in ["leader", "child", "away"] {
                    let times = printed(&told).matches(&format!("{who}:USR1\n")).count();
                    assert_eq!(
                        times,
                        usize::from(reached.contains(&who)),
                        "{scope:?}: {who}: {}",
                        printed(&told)
                    );
                }
                api.terminate(&id).await.expect("it is known");
            }
        });
    });
}

#[test]
fn a_stopped_command_goes_on_where_it_was() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for (n, scope) in [SignalScope::Tree, SignalScope::Group]
                .into_iter()
                .enumerate()
            {
                let id = format!("stop{n}");
                let text = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done";
                api.start(script(&site.world, &id, text))
                    .await
                    .expect("it starts");
                let (mut reader, mut told) = (attach(&api, &id).await, Transcript::default());
                read_until(&mut reader, &mut told, |told| printed(told).contains("3\n")).await;
                signal(&api, &id, 19, scope).await;
                let stopped = || {
                    let all = site.world.processes();
                    let shells = all.iter().filter(|process| process.name == "bash");
                    shells
                        .map(|shell| state_of(shell.pid))
                        .all(|state| state == Some('T'))
                };
                assert!(wait_until(PROMPT, stopped), "{:?}", site.world.processes());
                signal(&api, &id, 18, scope).await;
                let before = told.stdout.offset;
                read_until(&mut reader, &mut told, |told| {
                    told.stdout.offset > before + 40
                })
                .await;
                let lines: Vec<u32> = printed(&told)
                    .lines()
                    .filter_map(|line| line.parse().ok())
                    .collect();
                assert!(
                    lines.windows(2).all(|pair| pair[0] + 1 == pair[1]),
                    "{lines:?}"
                );
                // Stopped again, it can still be ended.
                signal(&api, &id, 19, SignalScope::Tree).await;
                let ended = api.terminate(&id).await.expect("it is known");
                assert_eq!(
                    end_of(ended.exec.expect("an execution")).reason(),
                    ExitReason::Cancelled
                );
                site.is_empty_now("stopped");
            }
        });
    });
}

#[test]
fn a_deadly_signal_is_the_end_that_it_is_and_after_the_end_nothing_is_delivered() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for number in [1, 2, 3, 9, 10, 12, 15] {
                let id = format!("dies{number}");
                api.start(script(&site.world, &id, UP))
                    .await
                    .expect("it starts");
                let (mut reader, mut told) = (attach(&api, &id).await, Transcript::default());
                read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
                signal(&api, &id, number, SignalScope::Leader).await;
                let end = end_of(api.wait(&id).await.expect("it is known"));
                assert_eq!(
                    (end.reason(), end.signal),
                    (ExitReason::Signaled, Some(number)),
                    "{end:?}"
                );
                for scope in [SignalScope::Tree, SignalScope::Group, SignalScope::Leader] {
                    assert!(!try_signal(&api, &id, 15, scope).await.expect("it is known"));
                }
            }
            api.start(script(&site.world, "odd", "sleep 600"))
                .await
                .expect("it starts");
            for number in [0, -1, 4, 11, 13, 17, 32, 64, 65, i32::MAX, i32::MIN] {
                let refused = try_signal(&api, "odd", number, SignalScope::Tree).await;
                let refused = refused.expect_err("no such signal");
                assert_eq!(refused.code(), Code::InvalidArgument, "{number}");
                assert!(refused.message().contains("TERM 15"), "{refused:?}");
            }
            let refused = try_signal(&api, "odd", 15, SignalScope::Unspecified).await;
            assert_eq!(refused.expect_err("no scope").code(), Code::InvalidArgument);
            let unknown = try_signal(&api, "nobody", 15, SignalScope::Tree).await;
            assert_eq!(unknown.expect_err("unknown").code(), Code::NotFound);
            api.terminate("odd").await.expect("it is known");
        });
    });
}
