//! Health is answered whatever the daemon has to do: it runs on one thread, which nothing may keep for itself.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use agentd_proto::v1::{self, ExitReason, exec_event::Event};
use agentd_tests::harness::{Api, Pings, Transcript, in_every_mode, script, wire};
use tonic::Streaming;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::room::{Room, attach, dial, read, runtime};

/// An answer takes at most this long, nine times out of ten: what is over that is a machine whose processors
/// all have something else to do.
const BOUND: Duration = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 50 });

/// And never longer than this.
const NEVER: Duration = Duration::from_secs(if cfg!(debug_assertions) { 8 } else { 2 });

/// Times that it is measured while it looks slow: other tests share the machine.
const TRIES: usize = 6;

/// How long each load is kept up.
const LOADED: Duration = Duration::from_secs(2);

/// A load: commands, and how each is read.
const LOADS: &[(&str, &str, usize)] = &[
    ("SWE-ReX: a command runs", "sleep 600", 1),
    ("microsandbox#1011: floods", "yes", 3),
    (
        "microsandbox#1011: short lines",
        "while :; do echo line; echo error >&2; done",
        2,
    ),
    ("one line without an end", "tr '\\0' x </dev/zero", 2),
];

/// Asks again and again on a connection of its own, from a thread of its own: how long each answer took.
fn probe(socket: &Path) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let api = Api::dial(socket).await.expect("a daemon");
        let mut health = HealthClient::new(api.channel());
        let (mut took, end) = (Vec::new(), Instant::now() + LOADED);
        while Instant::now() < end {
            let began = Instant::now();
            let answer = tokio::time::timeout(NEVER, health.check(HealthCheckRequest::default()));
            let answer = answer.await.expect("an answer in time").expect("an answer");
            assert_eq!(answer.get_ref().status(), ServingStatus::Serving);
            took.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        took.sort();
        took
    })
}

/// Reads to the end and keeps nothing: how many bytes came.
async fn drain(mut stream: Streaming<v1::AttachResponse>) -> usize {
    let mut read = 0;
    while let Some(message) = stream.message().await.expect("the stream holds") {
        if let Some(Event::Output(output)) = message.event.and_then(|event| event.event) {
            read += output.data.len();
        }
    }
    read
}

/// microsandbox#1011, H6: health and heartbeats were starved by output.
#[test]
fn health_is_answered_while_commands_print_as_fast_as_they_are_read() {
    let runtime = runtime();
    in_every_mode(|mode| {
        let room = Room::new(mode);
        // A connection that gives up soon when the daemon does not answer its pings, with a stream on which
        // nothing comes.
        let pings = Pings {
            after: Duration::from_millis(200),
            within: NEVER,
        };
        let quiet = runtime.block_on(async {
            let api = Api::dial_with_pings(&room.daemon.socket, pings).await;
            let api = api.expect("a daemon");
            let spec = script(&room.world, "quiet", "until [ -e end ]; do sleep 0.2; done");
            api.start(spec).await.expect("it starts");
            let stream = attach(&api, "quiet", 0).await;
            (tokio::spawn(read(stream, Transcript::default())), api)
        });
        for (n, (name, command, count)) in LOADS.iter().enumerate() {
            let ids: Vec<String> = (0..*count).map(|k| format!("load-{n}-{k}")).collect();
            let readers = runtime.block_on(async {
                let mut readers = Vec::new();
                for id in &ids {
                    let api = dial(&room).await;
                    let mut spec = script(&room.world, id, command);
                    let limits = spec.limits.insert(v1::LimitRequest::default());
                    limits.timeout = wire(Duration::from_secs(60));
                    api.start(spec).await.expect("it starts");
                    let stream = attach(&api, id, 0).await;
                    readers.push(tokio::spawn(drain(stream)));
                }
                readers
            });
            let nine_of_ten = |took: &[Duration]| took[took.len() * 9 / 10];
            let mut took = probe(&room.daemon.socket);
            for _ in 1..TRIES {
                if nine_of_ten(&took) < BOUND {
                    break;
                }
                took = probe(&room.daemon.socket);
            }
            let often = nine_of_ten(&took);
            assert!(
                often < BOUND,
                "{name}, {mode:?}: {often:?} nine times out of ten, at worst {:?}, of {}",
                took.last(),
                took.len()
            );
            // The control: it was a load.
            runtime.block_on(async {
                let api = dial(&room).await;
                for (id, reader) in ids.iter().zip(readers) {
                    let ended = api.terminate(id).await.expect("it is known");
                    let end = ended.exec.and_then(|exec| exec.result).expect("an end");
                    assert_eq!(end.reason(), ExitReason::Cancelled, "{name}: {end:?}");
                    let read = reader.await.expect("it reads to the end");
                    let loud = *command != "sleep 600";
                    assert!(!loud || read > 100_000, "{name}: {read} bytes");
                    api.delete(id).await.expect("it is known");
                }
            });
        }
        room.world.file("end", "");
        let (stream, _api) = quiet;
        let told = runtime.block_on(stream).expect("its connection held");
        assert_eq!(told.reason(), ExitReason::Exited);
        room.is_empty("loads");
    });
}
