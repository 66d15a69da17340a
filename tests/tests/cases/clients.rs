//! The client: it ends with its command, never with an invented result, and never hangs.

use std::{fs, thread, time::Duration};

use agentd_proto::v1::ExitReason;
use agentd_tests::harness::{
    Mode, Transcript, in_every_mode, in_every_mode_at_once, script, state_of, wait_until,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::room::{Gate, PROMPT, Room, attach, dial, read, runtime};

/// OpenShell#828: the client had everything and still waited for its own input.
#[test]
fn an_open_input_does_not_keep_the_client() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for script in ["echo hi", "exit 3", "sleep 600 & echo hi"] {
            let mut client = room.exec(&[], script).piped().start();
            let _open = client.input();
            let code = i32::from(script == "exit 3") * 3;
            client.wait(PROMPT).expect_code(code);
        }
    });
}

/// OpenShell#2732, sandbox-sdk#873: the server died and the client exited 0.
#[test]
fn a_daemon_that_dies_is_never_a_success() {
    for victim in ["agentd", "agentd-launcher"] {
        in_every_mode(|mode| {
            let room = Room::new(mode);
            let client = room
                .exec(&["--json"], "echo up >started; sleep 600")
                .start();
            let started = room.world.workspace.join("started");
            assert!(wait_until(PROMPT, || started.exists()), "it starts");
            let pid = if victim == "agentd" {
                room.daemon.pid()
            } else {
                room.daemon.launcher()
            };
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
            // A client may look for the daemon for as long as the daemon would have kept the command.
            let ended = client.wait(Duration::from_secs(90));
            ended.expect_code(125);
            assert!(!ended.stdout.contains("\"exited\""), "{victim}: {ended:?}");
            room.is_empty(victim);
        });
    }
}

/// E2B#1128: a daemon that stands still is not a reason to lose a result. Also codex#28512.
#[test]
fn a_daemon_that_was_stopped_for_a_while_goes_on() {
    let table = [
        ("echo up; sleep 1; echo down", "up\ndown\n", 0),
        ("echo up; sleep 0.5; exit 3", "up\n", 3),
        ("echo up; seq 300000 >&2; echo down", "up\ndown\n", 0),
    ];
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        for (script, out, code) in table {
            let client = room.exec(&[], script).start();
            client.wait_for_stdout("up");
            room.daemon.signal(Signal::SIGSTOP);
            // Longer than the command, so that its end falls into the pause.
            thread::sleep(Duration::from_millis(1500));
            room.daemon.signal(Signal::SIGCONT);
            let ended = client.wait(PROMPT);
            ended.expect_code(code);
            assert_eq!(ended.stdout, out, "{script}: {}", ended.stderr.len());
        }
    });
}

/// Longer than any heartbeat (15 s), than a client waits for the answer to a ping (15 s and 10 s) and than the
/// daemon does (20 s and 10 s), by their clocks, which go on.
const FROZEN: Duration = Duration::from_secs(33);

/// What stands still.
#[derive(Debug, Clone, Copy)]
enum Frozen {
    /// agentd alone: commands go on.
    Agentd,
    /// The daemon and everything below it, as when a virtual machine is paused.
    Everything,
}

/// Runs before the freeze, and what is seen of it at the end. Each waits at the gate but one.
const RUNNING: &[(&str, &str, &str)] = &[
    ("quiet", "echo up; : <gate; echo down", "up\ndown\n"),
    (
        "ends-meanwhile",
        "echo up; sleep 3; echo down",
        "up\ndown\n",
    ),
    ("loud", "echo up; : <gate; seq 1000 | tail -1", "up\n1000\n"),
];

/// E2B#1587: nothing came after a pause, not even to readers on fresh connections.
#[test]
fn after_a_freeze_beyond_every_heartbeat_and_ping_old_readers_and_new_ones_are_served() {
    in_every_mode_at_once(|mode| {
        thread::scope(|scope| {
            for frozen in [Frozen::Agentd, Frozen::Everything] {
                scope.spawn(move || freeze(mode, frozen));
            }
        });
    });
}

fn freeze(mode: Mode, frozen: Frozen) {
    let room = Room::new(mode);
    let gate = Gate::new(&room.world, "gate");
    let runtime = runtime();
    // Followed by the client, which has its own limits, and by a reader that has none.
    let clients: Vec<_> = RUNNING
        .iter()
        .map(|(name, text, out)| {
            let client = room.daemon.cli(&room.world, &["exec", "--", text]).start();
            client.wait_for_stdout("up");
            (*name, *out, client)
        })
        .collect();
    let old = runtime.block_on(async {
        let api = dial(&room).await;
        let (_, text, _) = RUNNING[0];
        api.start(script(&room.world, "old", text))
            .await
            .expect("it starts");
        attach(&api, "old", 0).await
    });
    let old = runtime.spawn(read(old, Transcript::default()));
    let mut pids = vec![room.daemon.pid()];
    if let Frozen::Everything = frozen {
        pids.push(room.daemon.launcher());
        pids.extend(room.world.everything().into_iter().map(|one| one.pid));
    }
    for pid in &pids {
        // One that ends meanwhile is none to stop.
        let _gone = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
    }
    let stands = || pids.iter().all(|pid| state_of(*pid) != Some('R'));
    assert!(wait_until(PROMPT, stands), "{frozen:?}: it stands still");
    assert_eq!(state_of(room.daemon.pid()), Some('T'), "{frozen:?}");
    thread::sleep(FROZEN);
    for pid in pids.iter().rev() {
        // What was killed meanwhile would be a failure below.
        let _gone = kill(Pid::from_raw(*pid), Signal::SIGCONT);
    }
    // A fresh connection gets what was printed before; new commands run.
    let new = runtime.block_on(async {
        let api = dial(&room).await;
        attach(&api, "old", 0).await
    });
    let new = runtime.spawn(read(new, Transcript::default()));
    for (text, out, code) in [
        ("echo new", "new\n", 0),
        ("exit 4", "", 4),
        ("seq 3 | tail -1", "3\n", 0),
    ] {
        let ended = room.daemon.cli(&room.world, &["exec", "--", text]).run();
        assert_eq!(
            (ended.code, &*ended.stdout),
            (code, out),
            "{frozen:?}, {mode:?}: {ended:?}"
        );
        assert!(ended.elapsed < PROMPT, "{frozen:?}: {:?}", ended.elapsed);
    }
    let open = gate.open();
    for (name, out, client) in clients {
        let ended = client.wait(PROMPT * 4);
        assert_eq!(ended.code, 0, "{frozen:?}, {mode:?}, {name}: {ended:?}");
        assert_eq!(ended.stdout, out, "{frozen:?}, {mode:?}, {name}: {ended:?}");
    }
    for reader in [old, new] {
        let told = runtime.block_on(reader).expect("its stream held");
        assert_eq!(told.stdout.bytes(), b"up\ndown\n", "{frozen:?}, {mode:?}");
        assert_eq!(told.reason(), ExitReason::Exited, "{frozen:?}, {mode:?}");
    }
    drop(open);
    let log = fs::read_to_string(format!("/proc/{}/comm", room.daemon.pid()));
    assert_eq!(log.expect("it runs").trim(), "agentd");
    room.is_empty("a freeze");
}
