//! Streams, readers, ids: what clients of the API met elsewhere.

use std::time::Duration;

use agentd_proto::v1::{self, ExitReason, TerminateOutcome};
use agentd_tests::harness::{
    Api, Mode, Transcript, follow, in_every_mode, script, wait_until, wire,
};
use tonic::{Code, Streaming};

use crate::room::{PROMPT, Room};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

async fn dial(room: &Room) -> Api {
    Api::dial(&room.daemon.socket).await.expect("a daemon")
}

async fn attach(api: &Api, id: &str, after_seq: u64) -> Streaming<v1::AttachResponse> {
    let request = v1::AttachRequest {
        exec_id: id.to_owned(),
        after_seq,
        strict: false,
    };
    let answer = api.execs().attach(request).await.expect("it is known");
    answer.into_inner()
}

async fn read(mut stream: Streaming<v1::AttachResponse>, mut told: Transcript) -> Transcript {
    while let Some(message) = stream.message().await.expect("the stream holds") {
        told.take(message.event.expect("an event"))
            .expect("the contract");
    }
    told
}

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

/// e2b infra#2639: what was printed while nobody was there was lost. Also Gym#2893, E2B#1074.
#[test]
fn a_reader_that_comes_back_gets_what_was_printed_meanwhile() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        runtime.block_on(async {
            let api = dial(&room).await;
            let command = "echo first; until [ -e go ]; do sleep 0.02; done; seq 1 1000; echo last";
            let spec = script(&room.world, "back", command);
            api.start(spec).await.expect("it starts");
            let mut told = Transcript::default();
            let mut stream = attach(&api, "back", 0).await;
            while told.stdout.offset < 6 {
                let message = stream.message().await.expect("holds").expect("goes on");
                told.take(message.event.expect("an event"))
                    .expect("the contract");
            }
            drop((stream, api));
            room.world.file("go", "");
            // A second reader at once, while the daemon may still think the first one is there.
            let api = dial(&room).await;
            let other = attach(&api, "back", 0).await;
            let told = read(attach(&api, "back", told.last_seq).await, told).await;
            let numbers: Vec<String> = (1..=1000).map(|n| n.to_string()).collect();
            let whole = format!("first\n{}\nlast\n", numbers.join("\n"));
            assert_eq!(told.stdout.bytes(), whole.as_bytes());
            let other = read(other, Transcript::default()).await;
            assert_eq!(other.stdout.bytes(), whole.as_bytes());
        });
    });
}

/// e2b infra#3292, grpc#37715, arcbox#519: one reader that takes nothing held up all others.
#[test]
fn a_reader_that_takes_nothing_holds_up_nobody() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        runtime.block_on(async {
            let api = dial(&room).await;
            let spec = script(
                &room.world,
                "stalled",
                "yes | head -c 30000000; echo end >&2",
            );
            let stalled = dial(&room).await;
            api.start(spec).await.expect("it starts");
            // Never read from: its windows fill up and stay full.
            let held = attach(&stalled, "stalled", 0).await;
            let told = read(attach(&api, "stalled", 0).await, Transcript::default());
            let told = tokio::time::timeout(PROMPT * 4, told)
                .await
                .expect("it is not held up");
            assert_eq!(told.stdout.offset, 30_000_000);
            assert_eq!(told.reason(), ExitReason::Exited);
            drop(held);
        });
        let before = room.daemon.peak_memory_kib();
        assert!(before < 400 * 1024, "{before} KiB");
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
        room.daemon.signal(nix::sys::signal::Signal::SIGKILL);
        let gone = wait_until(PROMPT, || !room.daemon.is_running());
        assert!(gone, "it is killed");
        room.daemon = agentd_tests::harness::Daemon::start(&room.world);
        room.is_empty("after a restart");
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
    let runtime = runtime();
    in_every_mode(|mode| {
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
        runtime.block_on(async {
            let api = dial(&room).await;
            api.start(script(&room.world, "long", "sleep 1; exit 4"))
                .await
                .expect("it starts");
            let request = v1::WaitRequest {
                exec_id: "long".to_owned(),
                wait: wire(Duration::from_millis(50)),
            };
            let early = api
                .execs()
                .wait(request)
                .await
                .expect("it is known")
                .into_inner();
            let early = early.exec.expect("an execution");
            assert_eq!(early.state(), v1::ExecState::Running, "{early:?}");
            assert!(early.result.is_none(), "{early:?}");
            let late = api.wait("long").await.expect("it is known");
            assert_eq!(late.result.expect("an end").exit_code, Some(4));
        });
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
                    let request = v1::RunRequest { spec: Some(spec) };
                    let mut stream = api
                        .execs()
                        .run(request)
                        .await
                        .expect("it starts")
                        .into_inner();
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
        for (index, command) in [
            "head -c 7100036 /dev/zero",
            "python3 -c \"import os; os.write(1, b'x' * 9000000)\"",
        ]
        .iter()
        .enumerate()
        {
            let spec = script(&room.world, &format!("large-{index}"), command);
            let told = runtime.block_on(follow(&room.daemon.socket, &spec, PROMPT * 3));
            let told = told.unwrap_or_else(|why| panic!("{command}: {why}"));
            assert_eq!(told.reason(), ExitReason::Exited, "{command}");
            assert!(told.stdout.offset >= 7_100_036, "{command}");
        }
    });
}

/// OpenHands#9197: silence ended a command that was only thinking. It does so only when asked for.
#[test]
fn silence_ends_a_command_only_when_asked_for() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        runtime.block_on(async {
            let api = dial(&room).await;
            let quiet = script(&room.world, "quiet", "sleep 1.5; echo end");
            let mut idle = script(&room.world, "idle", "echo a; sleep 600");
            let limits = idle.limits.insert(v1::LimitRequest::default());
            limits.idle_timeout = wire(Duration::from_millis(500));
            api.start(quiet).await.expect("it starts");
            api.start(idle).await.expect("it starts");
            let quiet = api
                .wait("quiet")
                .await
                .expect("it is known")
                .result
                .expect("an end");
            assert_eq!(quiet.reason(), ExitReason::Exited, "{quiet:?}");
            let idle = api
                .wait("idle")
                .await
                .expect("it is known")
                .result
                .expect("an end");
            assert_eq!(idle.reason(), ExitReason::IdleTimeout, "{idle:?}");
        });
        room.is_empty("idle");
    });
}

/// OpenSandbox#217, codex#6965, cc#34138: no timeout at all, one that nobody could change, or one that was
/// not heeded.
#[test]
fn every_command_has_a_timeout_that_can_be_asked_for_and_is_told() {
    let runtime = runtime();
    in_every_mode(|mode| {
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

/// microsandbox#1011, H6: health was starved by output.
#[test]
fn the_daemon_answers_while_commands_print_as_fast_as_they_can() {
    let runtime = runtime();
    let room = Room::new(*Mode::possible().first().expect("some kind of host"));
    runtime.block_on(async {
        let api = dial(&room).await;
        for n in 0..3 {
            let mut spec = script(&room.world, &format!("loud-{n}"), "yes");
            let limits = spec.limits.insert(v1::LimitRequest::default());
            limits.timeout = wire(Duration::from_secs(3));
            api.start(spec).await.expect("it starts");
        }
        let mut asked = 0;
        let end = tokio::time::Instant::now() + Duration::from_secs(2);
        while tokio::time::Instant::now() < end {
            let answer = tokio::time::timeout(Duration::from_secs(2), api.get("loud-0")).await;
            answer.expect("an answer in time").expect("it is known");
            asked += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(asked > 5, "{asked} answers in two seconds");
        for n in 0..3 {
            let exec = api.wait(&format!("loud-{n}")).await.expect("it is known");
            assert_eq!(exec.result.expect("an end").reason(), ExitReason::Timeout);
        }
    });
    room.is_empty("loud");
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
