//! Streams, readers, ids: what clients of the API met elsewhere.

use std::time::{Duration, Instant};

use agentd_proto::v1::{self, ExitReason, TerminateOutcome};
use agentd_tests::harness::{
    Api, Mode, Transcript, follow, in_every_mode, in_every_mode_at_once, members_of_cgroups,
    script, wait_until, wire,
};
use tonic::Code;

use crate::room::{Gate, PROMPT, Room, attach, dial, read, read_to, runtime};

/// fountain#691, agent-sandbox B8: each reconnect replayed another part.
#[test]
fn every_reader_of_a_finished_command_reads_the_same() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (index, command) in ["seq 5000", "seq 2000 >&2; seq 3", "true"]
            .iter()
            .enumerate()
        {
            let id = format!("same-{index}");
            runtime.block_on(async {
                let api = dial(&room).await;
                api.start(script(&room.world, &id, command))
                    .await
                    .expect("it starts");
                api.wait(&id).await.expect("it is known");
                let first = read(attach(&api, &id, 0).await, Transcript::default()).await;
                assert!(first.exited.is_some(), "{command}");
                for _ in 0..5 {
                    let again = read(
                        attach(&dial(&room).await, &id, 0).await,
                        Transcript::default(),
                    );
                    let again = again.await;
                    assert_eq!(again.stdout.bytes(), first.stdout.bytes(), "{command}");
                    assert_eq!(again.stderr.bytes(), first.stderr.bytes(), "{command}");
                    assert_eq!(again.exited, first.exited, "{command}");
                }
            });
        }
    });
}

/// How a command goes on while nobody reads it.
struct Away {
    name: &'static str,
    policy: Option<v1::disconnect_policy::Policy>,
    io: v1::IoSpec,
    /// What it prints meanwhile, and how it looks to a reader.
    prints: (&'static str, String),
}

fn aways() -> Vec<Away> {
    use v1::disconnect_policy::Policy;
    let numbers = |end: &str| (1..=1000).fold(String::new(), |text, n| text + &n.to_string() + end);
    vec![
        Away {
            name: "by itself",
            policy: None,
            io: v1::IoSpec::default(),
            prints: ("seq 1 1000", numbers("\n")),
        },
        Away {
            name: "kept",
            policy: Some(Policy::Keep(true)),
            io: v1::IoSpec::default(),
            prints: ("printf 'no newline'", "no newline".to_owned()),
        },
        Away {
            name: "with a grace",
            policy: wire(Duration::from_secs(60)).map(Policy::Grace),
            io: v1::IoSpec {
                stdin: true,
                ..v1::IoSpec::default()
            },
            prints: ("printf '\\xe6\\xbc'; printf '\\xa2'", "漢".to_owned()),
        },
        Away {
            name: "on a terminal",
            policy: None,
            io: v1::IoSpec {
                pty: Some(v1::PtySize {
                    columns: 80,
                    rows: 24,
                }),
                ..v1::IoSpec::default()
            },
            prints: ("seq 1 1000", numbers("\r\n")),
        },
    ]
}

/// e2b infra#2639: what was printed while nobody was there was lost. Also Gym#2893, E2B#1074.
#[test]
fn a_reader_that_comes_back_gets_what_was_printed_meanwhile() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (n, away) in aways().into_iter().enumerate() {
            let (id, name) = (format!("back-{n}"), away.name);
            let gate = Gate::new(&room.world, &id);
            let (command, printed) = away.prints;
            let text = format!("printf first; : <{id}; {command}; printf last");
            let whole = format!("first{printed}last");
            let mut spec = script(&room.world, &id, &text);
            spec.on_disconnect = away.policy.map(|policy| v1::DisconnectPolicy {
                policy: Some(policy),
            });
            spec.io = Some(away.io);
            let open = runtime.block_on(async {
                let api = dial(&room).await;
                api.start(spec).await.expect("it starts");
                let mut told = Transcript::default();
                let mut stream = attach(&api, &id, 0).await;
                read_to(&mut stream, &mut told, 5).await;
                drop((stream, api));
                // It prints while nobody is there, and nobody asks how it does until it has.
                let open = gate.open();
                tokio::time::sleep(Duration::from_millis(300)).await;
                // Two readers at once, while the daemon may still think the first one is there.
                let api = dial(&room).await;
                let other = attach(&api, &id, 0).await;
                let told = read(attach(&api, &id, told.last_seq).await, told).await;
                let other = read(other, Transcript::default()).await;
                for told in [told, other] {
                    let bytes = [told.stdout.bytes(), told.pty.bytes()].concat();
                    assert_eq!(String::from_utf8_lossy(&bytes), whole, "{name}");
                    assert_eq!(told.reason(), ExitReason::Exited, "{name}");
                }
                open
            });
            drop(open);
        }
    });
}

/// opensandbox#1547, coder#27102, arcbox#519: a lost answer made a second run or an orphan.
#[test]
fn the_same_request_is_one_command_and_another_one_is_refused() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        runtime.block_on(async {
            let spec = script(&room.world, "once", "echo ran >>runs; sleep 0.3");
            let mut created = 0;
            for _ in 0..4 {
                // The answer is lost: the connection goes away while it is on its way.
                let api = dial(&room).await;
                let (spec, api) = (spec.clone(), api);
                let early = tokio::time::timeout(Duration::from_millis(5), api.start(spec)).await;
                created += u32::from(matches!(early, Ok(Ok(answer)) if answer.created));
            }
            let api = dial(&room).await;
            let answer = api.start(spec.clone()).await.expect("it is known");
            created += u32::from(answer.created);
            assert!(created <= 1, "{created} created");
            let told = follow(&room.daemon.socket, &spec, PROMPT)
                .await
                .expect("it ends");
            assert_eq!(told.reason(), ExitReason::Exited);
            let other = script(&room.world, "once", "echo other >>runs");
            let refused = api.start(other).await.expect_err("another request");
            assert_eq!(refused.code(), Code::AlreadyExists);
            let runs = std::fs::read_to_string(room.world.workspace.join("runs"));
            assert_eq!(runs.expect("it ran"), "ran\n");
        });
    });
}

/// flameox#77, nomad#5593: after a restart an id was run again in silence.
#[test]
fn after_a_restart_a_command_is_unknown_and_a_retry_of_it_is_refused() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let mut room = Room::new(mode);
        let mut spec = script(&room.world, "before", "echo ran >>runs; sleep 600");
        runtime.block_on(async {
            let api = dial(&room).await;
            let started = api.start(spec.clone()).await.expect("it starts").exec;
            spec.expected_boot_id = started.expect("an execution").boot_id;
        });
        let runs = room.world.workspace.join("runs");
        assert!(wait_until(PROMPT, || runs.exists()), "it runs");
        let launcher = room.daemon.launcher();
        room.daemon.signal(nix::sys::signal::Signal::SIGKILL);
        let gone = wait_until(PROMPT, || !room.daemon.is_running());
        assert!(gone, "it is killed");
        room.daemon = agentd_tests::harness::Daemon::start(&room.world);
        room.is_empty("after a restart");
        // What is listed and what the kernel has agree: nothing of the old one.
        let members = members_of_cgroups(launcher);
        assert!(members.is_empty(), "{members:?}");
        runtime.block_on(async {
            let api = dial(&room).await;
            let unknown = api
                .get("before")
                .await
                .expect_err("executions end with the daemon");
            assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
            let request = v1::AttachRequest {
                exec_id: "before".to_owned(),
                ..v1::AttachRequest::default()
            };
            let unknown = api.execs().attach(request).await.expect_err("unknown");
            assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
            let list = api
                .execs()
                .list(v1::ListExecsRequest::default())
                .await
                .expect("a list");
            assert!(list.get_ref().execs.is_empty(), "{list:?}");
            for refused in send_again(&api, &spec).await {
                assert_eq!(refused.code(), Code::NotFound, "{refused}");
                assert!(refused.message().contains("expected_boot_id"), "{refused}");
            }
            let list = api
                .execs()
                .list(v1::ListExecsRequest::default())
                .await
                .expect("a list");
            assert!(list.get_ref().execs.is_empty(), "{list:?}");
        });
        room.is_empty("after the retries");
        assert_eq!(std::fs::read_to_string(&runs).expect("it ran"), "ran\n");
    });
}

/// A client that does not know of the restart asks again, by every call that starts something.
async fn send_again(api: &Api, spec: &v1::ExecSpec) -> Vec<tonic::Status> {
    let tool = v1::CallToolRequest {
        name: "bash".to_owned(),
        input_json: r#"{"command":"echo ran >>runs"}"#.to_owned(),
        sandbox: spec.sandbox.clone(),
        call_id: spec.exec_id.clone(),
        expected_boot_id: spec.expected_boot_id.clone(),
        ..v1::CallToolRequest::default()
    };
    let run = v1::RunRequest {
        spec: Some(spec.clone()),
    };
    vec![
        api.start(spec.clone()).await.expect_err("not again"),
        api.execs().run(run).await.expect_err("not again"),
        api.tools().call_tool(tool).await.expect_err("not again"),
    ]
}

/// `huggingface_hub`#4836: kill said OK and killed nothing.
#[test]
fn terminate_says_what_it_found() {
    in_every_mode_at_once(|mode| {
        let runtime = runtime();
        let room = Room::new(mode);
        runtime.block_on(async {
            let api = dial(&room).await;
            let unknown = api.terminate("no-such-id").await.expect_err("unknown");
            assert_eq!(unknown.code(), Code::NotFound);
            api.start(script(&room.world, "over", "true"))
                .await
                .expect("it starts");
            api.wait("over").await.expect("it is known");
            let over = api.terminate("over").await.expect("it is known");
            assert_eq!(over.outcome(), TerminateOutcome::AlreadyExited);
            let tree = "trap '' TERM; setsid sleep 600 & (setsid nohup sleep 600 &) ; sleep 600";
            let mut spec = script(&room.world, "tree", tree);
            let limits = spec.limits.insert(v1::LimitRequest::default());
            limits.kill_grace = wire(Duration::from_millis(100));
            api.start(spec).await.expect("it starts");
            let answer = api.terminate("tree").await.expect("it is known");
            let proven = answer.outcome() == TerminateOutcome::Killed;
            assert!(proven || mode == Mode::Nested, "{answer:?}");
            if mode != Mode::Nested {
                assert!(
                    room.world.processes().is_empty(),
                    "{:?}",
                    room.world.processes()
                );
            }
            let end = answer.exec.and_then(|exec| exec.result).expect("an end");
            assert_eq!(end.reason(), ExitReason::Cancelled);
        });
        room.is_empty("terminate");
    });
}

/// agentuity#1218, codex#38495: waiting answered "running" as if it were an end, or had to be polled.
#[test]
fn wait_answers_at_the_end_or_says_that_it_is_still_running() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let table = [
            ("exit 4", ExitReason::Exited, Some(4)),
            ("echo out; echo err >&2", ExitReason::Exited, Some(0)),
            ("kill -SEGV $$", ExitReason::Signaled, None),
            ("setsid sleep 600 & exit 9", ExitReason::Exited, Some(9)),
        ];
        for (n, (command, reason, code)) in table.into_iter().enumerate() {
            let id = format!("wait-{n}");
            let gate = Gate::new(&room.world, &id);
            let spec = script(&room.world, &id, &format!(": <{id}; {command}"));
            let open = runtime.block_on(async {
                let api = dial(&room).await;
                api.start(spec).await.expect("it starts");
                for wait in [
                    Duration::ZERO,
                    Duration::from_millis(50),
                    Duration::from_millis(300),
                ] {
                    let request = v1::WaitRequest {
                        exec_id: id.clone(),
                        wait: wire(wait),
                    };
                    let began = Instant::now();
                    let early = api.execs().wait(request).await.expect("it is known");
                    assert!(began.elapsed() >= wait, "{command}: {:?}", began.elapsed());
                    let early = early.into_inner().exec.expect("an execution");
                    assert_eq!(early.state(), v1::ExecState::Running, "{early:?}");
                    assert!(early.result.is_none(), "{early:?}");
                }
                // Two that wait already are told when it happens, without asking again.
                let waits = [0, 1].map(|_| {
                    let (api, id) = (api.clone(), id.clone());
                    tokio::spawn(async move { api.wait(&id).await.expect("it is known") })
                });
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(waits.iter().all(|wait| !wait.is_finished()), "{command}");
                let open = gate.open();
                let began = Instant::now();
                for wait in waits {
                    let end = wait.await.expect("an answer").result.expect("an end");
                    assert_eq!((end.reason(), end.exit_code), (reason, code), "{command}");
                }
                assert!(began.elapsed() < PROMPT, "{command}: {:?}", began.elapsed());
                open
            });
            drop(open);
        }
    });
}

/// e2b infra#2579, #2596, #3256: a client that went away at the wrong moment broke the server.
#[test]
fn a_client_may_go_away_at_any_moment() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let mut room = Room::new(mode);
        for round in 0..40_u64 {
            runtime.block_on(async {
                let api = dial(&room).await;
                let mut spec = script(
                    &room.world,
                    &format!("gone-{round}"),
                    "seq 20000; sleep 600",
                );
                spec.on_disconnect = Some(v1::DisconnectPolicy {
                    policy: Some(v1::disconnect_policy::Policy::KillNow(true)),
                });
                let whole = async {
                    let mut stream = api.run(spec).await.expect("it starts");
                    while stream.message().await.expect("it holds").is_some() {}
                };
                let moment = Duration::from_millis(round * 4);
                drop(tokio::time::timeout(moment, whole).await);
            });
        }
        let gone = wait_until(PROMPT, || room.world.processes().is_empty());
        assert!(gone, "{:?}", room.world.processes());
        assert!(room.daemon.is_running(), "{}", room.daemon.log());
        assert!(
            !room.daemon.log().contains("panicked"),
            "{}",
            room.daemon.log()
        );
    });
}

/// go-judge#96: 7 MB of output failed the call as an exhausted resource.
#[test]
fn no_output_is_too_large_for_a_message() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let sizes = [7_100_036, 9_000_000, 4_194_305, 20_000_001];
        for (index, command) in [
            "head -c 7100036 /dev/zero",
            "python3 -c \"import os, sys; sys.stdout.buffer.write(b'x' * 9000000)\"",
            "head -c 4194305 /dev/zero",
            "yes | head -c 20000001",
        ]
        .iter()
        .enumerate()
        {
            let spec = script(&room.world, &format!("large-{index}"), command);
            let told = runtime.block_on(follow(&room.daemon.socket, &spec, PROMPT * 3));
            let told = told.unwrap_or_else(|why| panic!("{command}: {why}"));
            assert_eq!(told.reason(), ExitReason::Exited, "{command}");
            assert_eq!(told.stdout.offset, sizes[index], "{command}");
        }
    });
}

/// OpenHands#9197: silence ended a command that was only thinking. It does so only when asked for.
#[test]
fn silence_ends_a_command_only_when_asked_for() {
    let ms = Duration::from_millis;
    let table = [
        ("quiet", "sleep 1.5; echo end", None, ExitReason::Exited),
        (
            "quiet-after-a-word",
            "echo a; sleep 1.5",
            None,
            ExitReason::Exited,
        ),
        (
            "idle",
            "echo a; sleep 600",
            Some(ms(500)),
            ExitReason::IdleTimeout,
        ),
        (
            "never-a-word",
            "sleep 600",
            Some(ms(500)),
            ExitReason::IdleTimeout,
        ),
        (
            "busy-and-silent",
            "while :; do :; done",
            Some(ms(500)),
            ExitReason::IdleTimeout,
        ),
        (
            "a-word-in-time",
            "for n in 1 2 3 4 5 6 7 8; do sleep 0.2; echo $n >&2; done",
            Some(ms(1400)),
            ExitReason::Exited,
        ),
    ];
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        runtime().block_on(async {
            let api = dial(&room).await;
            for (id, text, idle, _) in table {
                let mut spec = script(&room.world, id, text);
                let limits = spec.limits.insert(v1::LimitRequest::default());
                limits.idle_timeout = idle.and_then(wire);
                api.start(spec).await.expect("it starts");
            }
            for (id, _, _, reason) in table {
                let end = api.wait(id).await.expect("it is known").result;
                let end = end.expect("an end");
                assert_eq!(end.reason(), reason, "{id}: {end:?}");
            }
        });
        room.is_empty("idle");
    });
}

/// OpenSandbox#217, codex#6965, cc#34138: no timeout at all, one that nobody could change, or one that was
/// not heeded.
#[test]
fn every_command_has_a_timeout_that_can_be_asked_for_and_is_told() {
    in_every_mode_at_once(|mode| {
        let runtime = runtime();
        let room = Room::new(mode);
        let table = [
            (None, 120),
            (Some(5), 5),
            (Some(600), 600),
            (Some(1_000_000), 3600),
        ];
        for (index, (asked, told)) in table.into_iter().enumerate() {
            let id = format!("limit-{index}");
            let mut spec = script(&room.world, &id, "true");
            let limits = spec.limits.insert(v1::LimitRequest::default());
            limits.timeout = asked.and_then(|seconds| wire(Duration::from_secs(seconds)));
            let exec = runtime.block_on(async {
                let api = dial(&room).await;
                api.start(spec).await.expect("it starts");
                api.wait(&id).await.expect("it is known")
            });
            let limits = exec.limits.expect("limits");
            let timeout = limits.timeout.expect("a timeout");
            assert_eq!((timeout.seconds, timeout.nanos), (told, 0), "{asked:?}");
        }
    });
}

/// go-judge#96: 7 MB of input did not fit into a message. A retry must not write twice either.
#[test]
fn seven_megabytes_of_input_arrive_once_however_often_they_are_sent() {
    const PIECE: usize = 64 * 1024;
    let input: Vec<u8> = (0..7_100_036_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let end = runtime.block_on(async {
            let api = dial(&room).await;
            let mut spec = script(&room.world, "input", "cat >got; cmp got sent && wc -c <got");
            spec.io = Some(v1::IoSpec {
                stdin: true,
                ..v1::IoSpec::default()
            });
            std::fs::write(room.world.workspace.join("sent"), &input).expect("a file");
            room.world.give(&room.world.workspace.join("sent"));
            api.start(spec).await.expect("it starts");
            let (mut offset, mut sent) = (0_usize, 0_u32);
            while offset < input.len() {
                let piece = &input[offset..input.len().min(offset + PIECE)];
                let request = v1::WriteStdinRequest {
                    exec_id: "input".to_owned(),
                    offset: offset as u64,
                    data: piece.to_vec().into(),
                    eof: offset + piece.len() == input.len(),
                };
                let again = request.clone();
                let answer = api
                    .execs()
                    .write_stdin(request)
                    .await
                    .expect("accepted")
                    .into_inner();
                offset = usize::try_from(answer.accepted_offset).expect("an offset");
                sent += 1;
                if sent.is_multiple_of(7) && !again.eof {
                    // Its answer was lost: the same piece once more.
                    let answer = api.execs().write_stdin(again).await.expect("acknowledged");
                    let accepted = usize::try_from(answer.get_ref().accepted_offset);
                    assert!(accepted.expect("an offset") >= offset, "{answer:?}");
                    offset = usize::try_from(answer.get_ref().accepted_offset).expect("small");
                }
            }
            api.wait("input")
                .await
                .expect("it is known")
                .result
                .expect("an end")
        });
        assert_eq!(
            (end.reason(), end.exit_code),
            (ExitReason::Exited, Some(0)),
            "{end:?}"
        );
        let got = std::fs::read(room.world.workspace.join("got")).expect("it was written");
        assert!(got == input, "{} bytes of {}", got.len(), input.len());
    });
}
