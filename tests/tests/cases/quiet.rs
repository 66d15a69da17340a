//! Connections on which nothing happens: what stands between client and daemon forgets those that are silent, so
//! both sides see to it that none is; and each finds out when the other is gone without a word.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentd_proto::v1::{self, ExitReason, disconnect_policy::Policy};
use agentd_tests::harness::{Api, Fate, Fault, Proxy, Transcript, in_every_mode_at_once, script};

use crate::room::{Room, dial, runtime};

/// What forgets idle connections here does so after this long: longer than the 20 s between the daemon's
/// pings, and shorter than what usually stands in between.
const FORGETS: Duration = Duration::from_secs(25);

/// What forgets them sooner than anybody speaks.
const SOON: Duration = Duration::from_secs(5);

/// Longer than the first: so long nothing happens on a connection.
const SILENT: u64 = 32;

/// The daemon asks after 20 s and waits 10 s for the answer; what is over that is the machine.
const NOTICED: Duration = Duration::from_secs(60);

/// One of these at a time.
struct Between {
    proxy: Proxy,
}

impl Between {
    fn new(room: &Room, (name, fault): (&str, Fault)) -> Self {
        let socket: PathBuf = room.world.base.join(format!("{name}.sock"));
        let proxy = Proxy::start(&socket, &room.daemon.socket, move |_| Fate::of(fault));
        room.world.give(&socket);
        Self { proxy }
    }

    fn socket(&self) -> &Path {
        &self.proxy.socket
    }

    #[track_caller]
    fn was_never_forgotten(&self, name: &str) {
        assert_eq!(self.proxy.connections(), 1, "{name}: it was made again");
    }
}

/// A stream of a silent command, to its end, by a client that sends no pings.
async fn silent_stream(room: &Room) {
    let between = Between::new(room, ("stream", Fault::IdleCut(FORGETS)));
    let api = Api::dial(between.socket()).await.expect("a daemon");
    let text = format!("echo begin; sleep {SILENT}; echo end");
    let spec = script(&room.world, "silent", &text);
    let mut stream = api.run(spec).await.expect("it starts");
    let (mut told, mut heartbeats) = (Transcript::default(), 0);
    while let Some(message) = stream.message().await.expect("the stream holds") {
        let event = message.event.expect("an event");
        heartbeats += u32::from(matches!(
            event.event,
            Some(v1::exec_event::Event::Heartbeat(_))
        ));
        told.take(event).expect("the contract");
    }
    assert_eq!(told.stdout.bytes(), b"begin\nend\n");
    assert!(heartbeats >= 1, "nothing was said in {SILENT} s");
    between.was_never_forgotten("a stream");
}

/// A connection without any stream: only pings can keep it, and this client sends none.
async fn silent_connection(room: &Room, (name, fault): (&str, Fault)) {
    let between = Between::new(room, (name, fault));
    let api = Api::dial(between.socket()).await.expect("a daemon");
    assert!(!api.has_feature("no such feature").await);
    tokio::time::sleep(Duration::from_secs(SILENT)).await;
    let late = tokio::time::timeout(Duration::from_secs(20), api.has_feature("attach"));
    assert!(late.await.expect("an answer"), "{name}");
    between.was_never_forgotten(name);
}

/// The client's own pings keep its connection, too.
async fn silent_client(room: &Room) {
    let between = Between::new(room, ("client", Fault::IdleHole(FORGETS)));
    let text = format!("echo begin; sleep {SILENT}; echo end");
    let ended = by_client(room, between.socket(), &text).await;
    assert_eq!(ended, (0, "begin\nend\n".to_owned()));
    between.was_never_forgotten("a client");
}

/// `agent-cli exec` through what stands between: its code and its output.
async fn by_client(room: &Room, socket: &Path, text: &str) -> (i32, String) {
    let url = format!("unix://{}", socket.display());
    let client = room.world.cli(["--connect", &url, "exec", "--", text]);
    let mut client = client.start();
    while client.try_wait().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = client.wait(Duration::from_secs(1));
    (ended.code, ended.stdout)
}

/// What forgets sooner than anybody speaks costs connections, and no output and no second run.
async fn forgetful(room: &Room, (name, fault): (&str, Fault)) {
    let between = Between::new(room, (name, fault));
    let text = format!("echo x >>{name}-ran; echo begin; sleep 12; echo end");
    let ended = by_client(room, between.socket(), &text).await;
    assert_eq!(ended, (0, "begin\nend\n".to_owned()), "{name}");
    assert!(between.proxy.connections() > 1, "{name}: nothing was cut");
    let ran = std::fs::read_to_string(room.world.workspace.join(format!("{name}-ran")));
    assert_eq!(ran.expect("it ran"), "x\n", "{name}");
}

/// A client that is gone without a word is noticed by the pings that it does not answer.
async fn gone_without_a_word(room: &Room) {
    let between = Between::new(room, ("gone", Fault::IdleHole(Duration::from_secs(5))));
    let api = Api::dial(between.socket()).await.expect("a daemon");
    let mut spec = script(&room.world, "gone", "echo begin; sleep 600");
    spec.on_disconnect = Some(v1::DisconnectPolicy {
        policy: Some(Policy::KillNow(true)),
    });
    let mut stream = api.run(spec).await.expect("it starts");
    let first = tokio::time::timeout(NOTICED, stream.message()).await;
    first.expect("in time").expect("it holds").expect("a start");
    let (began, other) = (Instant::now(), dial(room).await);
    // Not by Wait: whoever waits counts as a reader.
    let end = loop {
        if let Some(end) = other.get("gone").await.expect("it is known").result {
            break end;
        }
        assert!(began.elapsed() < NOTICED, "it is never noticed");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(end.reason(), ExitReason::Disconnected, "{end:?}");
    assert!(
        began.elapsed() > Duration::from_secs(15),
        "no silence ends a command so soon: {:?}",
        began.elapsed()
    );
    drop(stream);
}

/// modal#4121 (G1), OpenShell#2474 (G2), agent-sandbox#369 (G4), E2B#1590 (C5).
#[test]
fn silence_costs_no_connection_and_a_lost_one_costs_nothing_else() {
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        runtime().block_on(async {
            tokio::join!(
                silent_stream(&room),
                silent_connection(&room, ("idle-cut", Fault::IdleCut(FORGETS))),
                silent_connection(&room, ("idle-hole", Fault::IdleHole(FORGETS))),
                silent_client(&room),
                forgetful(&room, ("soon-cut", Fault::IdleCut(SOON))),
                forgetful(&room, ("soon-hole", Fault::IdleHole(SOON))),
                gone_without_a_word(&room),
            )
        });
        room.is_empty("silence");
    });
}
