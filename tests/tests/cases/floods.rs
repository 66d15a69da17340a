//! A loud command and a reader that reads: how much arrives, how fast, and what it costs in memory. The
//! benchmark measures this well; here it only must not be wrong by far.

use std::{
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use agentd_proto::v1::{self, exec_event::Event};
use agentd_tests::harness::{Api, in_every_mode, script};

use crate::room::Room;

/// What is printed.
const FLOOD: u64 = 64 << 20;

/// Rounds of which the best counts: others share the machine. More are run as long as it looks slow.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=12;

/// Times as long as a raw pipe that it may take. An unoptimised build is slow, and never this slow.
const MOST_RATIO: f64 = if cfg!(debug_assertions) { 25.0 } else { 4.0 };

/// What memory may grow by, whatever is printed.
const GROWTH_KIB: u64 = 16 * 1024;

/// Floods, each as bash knows it.
fn floods() -> [(&'static str, String); 3] {
    [
        ("blocks", format!("head -c {FLOOD} /dev/zero")),
        ("lines", format!("yes line | head -c {FLOOD}")),
        (
            "a pause in the middle",
            format!(
                "head -c {0} /dev/zero; sleep 0.1; head -c {0} /dev/zero",
                FLOOD / 2
            ),
        ),
    ]
}

/// A client that reads all the time loses nothing, and costs the daemon a constant.
#[test]
fn a_reader_that_goes_on_reading_gets_a_flood_in_flat_memory_and_not_much_slower_than_by_a_pipe() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let api = runtime
            .block_on(Api::dial(&room.daemon.socket))
            .expect("a daemon");
        // Whatever memory a flood takes once is taken.
        runtime.block_on(read(&api, script(&room.world, "warm", &floods()[0].1)));
        let before = room.daemon.peak_memory_kib();
        for (name, text) in floods() {
            let mut best = (Duration::MAX, Duration::MAX, 0);
            for round in 0..*ROUNDS.end() {
                if round >= *ROUNDS.start() && ratio(best.0, best.1) < MOST_RATIO {
                    break;
                }
                let began = Instant::now();
                pipe(&text);
                best.0 = best.0.min(began.elapsed());
                let id = format!("{}-{round}", name.replace(' ', "-"));
                let began = Instant::now();
                let told = runtime.block_on(read(&api, script(&room.world, &id, &text)));
                best.1 = best.1.min(began.elapsed());
                assert_eq!(told.received + told.lost, FLOOD, "{name}");
                best.2 = best.2.max(told.received);
                let forget = v1::DeleteExecRequest {
                    exec_id: id,
                    ..v1::DeleteExecRequest::default()
                };
                let deleted = runtime.block_on(api.execs().delete(forget));
                deleted.expect("it has ended");
            }
            let (raw, ours, received) = best;
            assert!(
                received > FLOOD / 4 * 3,
                "{name}, {mode:?}: {received} of {FLOOD} bytes arrived"
            );
            assert!(
                ratio(raw, ours) < MOST_RATIO,
                "{name}, {mode:?}: {ours:?}, and {raw:?} by a pipe"
            );
        }
        let after = room.daemon.peak_memory_kib();
        assert!(
            after - before < GROWTH_KIB,
            "{mode:?}: from {before} to {after} KiB"
        );
    });
}

/// Times as long as the raw pipe.
fn ratio(raw: Duration, ours: Duration) -> f64 {
    ours.as_secs_f64() / raw.as_secs_f64()
}

#[derive(Default)]
struct Told {
    received: u64,
    lost: u64,
}

async fn read(api: &Api, spec: v1::ExecSpec) -> Told {
    let mut stream = api.run(spec).await.expect("it starts");
    let mut told = Told::default();
    let mut end = None;
    while let Some(message) = stream.message().await.expect("the stream holds") {
        match message.event.and_then(|event| event.event) {
            Some(Event::Output(output)) => told.received += output.data.len() as u64,
            Some(Event::Gap(gap)) => told.lost += gap.stdout_bytes,
            Some(Event::Exited(exited)) => end = Some(exited),
            Some(Event::Started(_) | Event::Heartbeat(_)) => {}
            None => panic!("an event of no kind"),
        }
    }
    let end = end.expect("a terminal event");
    assert_eq!(end.reason(), v1::ExitReason::Exited, "{end:?}");
    told
}

/// The same without a daemon.
fn pipe(text: &str) {
    let mut child = Command::new("bash")
        .args(["-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match stdout.read(&mut buffer).expect("a pipe can be read") {
            0 => break,
            length => total += length as u64,
        }
    }
    assert_eq!(total, FLOOD);
    child.wait().expect("it ends");
}
