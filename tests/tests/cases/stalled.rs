//! Readers that take nothing, or next to nothing: they hold up neither the command nor anybody who reads, and
//! cost the daemon a constant.

use std::time::{Duration, Instant};

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{Mode, Transcript, World, in_every_mode, script};
use nix::sys::signal::Signal;

use crate::room::{Gate, PROMPT, Room, attach, dial, read, runtime};

/// What is printed on standard output; beside it a line on standard error.
const FLOOD: u64 = 48_000_000;

/// Rounds of which one must be without any gap: others share the machine, and a reader that did not get a
/// processor for long is behind by its own fault.
const ROUNDS: usize = 3;

/// What memory may grow by: the windows of two connections, and nothing that grows with the output.
const GROWTH_KIB: u64 = 24 * 1024;

/// A reader that is no help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stalled {
    /// There is none: the control.
    Nobody,
    /// Holds its stream and never takes anything.
    Never,
    /// Takes a message now and then.
    Drips,
    /// Is a process that was stopped while it read.
    Stopped,
}

/// What the reader who reads was told, and how long it took from the first byte on.
async fn one(room: &Room, id: &str, stalled: Stalled) -> (Transcript, Duration) {
    let gate = Gate::new(&room.world, id);
    let text = format!("echo up >&2; : <{id}; yes | head -c {FLOOD}; echo end >&2");
    let api = dial(room).await;
    // The user of this test: executions are their users' own.
    let person = World::new(*Mode::possible().first().expect("some kind of host"));
    let mut client = None;
    if stalled == Stalled::Stopped {
        let command = format!("echo {id} >&2; {text}");
        let url = format!("unix://{}", room.daemon.socket.display());
        let started = person.cli(["--connect", &url, "exec", "--", &command]);
        let started = started.current_dir(&room.world.workspace).start();
        let up = agentd_tests::harness::wait_until(PROMPT, || started.stderr().contains("up"));
        assert!(up, "{}", started.stderr());
        started.signal(Signal::SIGSTOP);
        client = Some(started);
    } else {
        let spec = script(&room.world, id, &text);
        api.start(spec).await.expect("it starts");
    }
    // The client chose the id of its command: it is the only one that runs.
    let all = v1::ListExecsRequest::default();
    let all = api.execs().list(all).await.expect("a list").into_inner();
    let running = v1::ExecState::Running;
    let mut running = all.execs.iter().filter(|exec| exec.state() == running);
    let name = match (running.next(), running.next()) {
        (Some(one), None) => one.exec_id.clone(),
        _ => panic!("{stalled:?}: {all:?}"),
    };
    // On a connection of its own: flow control is per connection, too.
    let other = dial(room).await;
    let held = match stalled {
        Stalled::Nobody | Stalled::Stopped => None,
        Stalled::Never | Stalled::Drips => Some(attach(&other, &name, 0).await),
    };
    let (mut drip, held) = match stalled {
        Stalled::Drips => (held, None),
        Stalled::Nobody | Stalled::Never | Stalled::Stopped => (None, held),
    };
    let drips = tokio::spawn(async move {
        while let Some(stream) = &mut drip {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if !matches!(stream.message().await, Ok(Some(_))) {
                return;
            }
        }
    });
    let live = attach(&api, &name, 0).await;
    let open = gate.open();
    let began = Instant::now();
    let told = tokio::time::timeout(PROMPT * 4, read(live, Transcript::default()));
    let told = told
        .await
        .unwrap_or_else(|_| panic!("{stalled:?} holds it up"));
    let took = began.elapsed();
    drips.abort();
    drop((held, open));
    if let Some(client) = client {
        // It goes on where it was, and is told of the same end.
        client.signal(Signal::SIGCONT);
        client.wait(PROMPT * 2).expect_code(0);
    }
    (told, took)
}

/// e2b infra#3292, grpc#37715, arcbox#519, codex#37207: one reader that takes nothing held up all others, lost
/// bytes without counting them, or filled the server's memory.
#[test]
fn a_reader_that_takes_nothing_holds_up_nobody() {
    let runtime = runtime();
    in_every_mode(|mode: Mode| {
        let room = Room::new(mode);
        // Whatever memory a flood takes once is taken, and how long it takes alone is known.
        let mut alone = Duration::MAX;
        for round in 0..2 {
            let (told, took) =
                runtime.block_on(one(&room, &format!("alone-{round}"), Stalled::Nobody));
            assert_eq!(told.stdout.offset, FLOOD);
            alone = alone.min(took);
        }
        let before = room.daemon.peak_memory_kib();
        for stalled in [Stalled::Never, Stalled::Drips, Stalled::Stopped] {
            let mut tries = Vec::new();
            for round in 0..ROUNDS {
                let id = format!("{stalled:?}-{round}");
                let (told, took) = runtime.block_on(one(&room, &id, stalled));
                assert_eq!(told.stdout.offset, FLOOD, "{stalled:?}");
                assert!(told.stderr.bytes().ends_with(b"end\n"), "{stalled:?}");
                assert_eq!(told.reason(), ExitReason::Exited, "{stalled:?}");
                let (lost, most) = (told.stdout.lost, FLOOD / 4);
                assert!(lost < most, "{stalled:?}, {mode:?}: {lost} bytes lost");
                tries.push((lost, took));
                if lost == 0 {
                    break;
                }
            }
            assert!(
                tries.iter().any(|(lost, _)| *lost == 0),
                "{stalled:?}, {mode:?}: never without a gap: {tries:?}"
            );
            let took = tries.iter().map(|(_, took)| *took).min().expect("one");
            assert!(
                took < alone * 3 + Duration::from_secs(1),
                "{stalled:?}, {mode:?}: {took:?}, and {alone:?} without it"
            );
        }
        let grown = room.daemon.peak_memory_kib() - before;
        assert!(grown < GROWTH_KIB, "{mode:?}: {grown} KiB more");
    });
}
