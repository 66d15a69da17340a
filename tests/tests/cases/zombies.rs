//! Zombies: what a command leaves unreaped is reaped, exit codes go to their owners, also when the daemon is
//! the first process of a container.

use std::{fs, os::unix::net::UnixStream, time::Duration};

use agentd_tests::harness::{Mode, World, in_every_mode, wait_until};
use nix::sys::signal::Signal;

use crate::room::{Room, text};

/// Counts zombies among everything a command can see, until there are none or patience ends.
const COUNT: &str = "
count() { cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c ^Z; }
for try in $(seq 50); do [ \"$(count)\" = 0 ] && break; sleep 0.1; done
echo zombies $(count)
";

#[test]
fn orphans_are_reaped_while_the_command_still_runs() {
    let table = [
        (
            "microsandbox#1201",
            "for n in $(seq 500); do sh -c 'sleep 0.01 &'; done",
        ),
        ("cc#21396", "for n in $(seq 300); do (sleep 0.01 &); done"),
        ("codex#38505", "for n in $(seq 500); do true & done; wait"),
        (
            "opencomputer#194",
            "for n in $(seq 100); do bash -c '(true &) ; (true &)'; done",
        ),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (source, script) in table {
            // Without a pid namespace a command sees other tests' zombies, so only its own count.
            let count = match mode {
                Mode::Root | Mode::Rootless => COUNT,
                Mode::Nested => "sleep 0.1; echo zombies 0",
            };
            let (answer, _) = room.run(&[], &format!("{script}\n{count}"));
            assert_eq!(answer["exit_code"], 0, "{source}: {answer}");
            assert_eq!(text(&answer, "stdout"), "zombies 0\n", "{source}: {answer}");
            room.is_empty(source);
        }
    });
}

/// daytona#4704, Decepticon#340: a reaper for everybody took the exit codes of others.
#[test]
fn two_hundred_exit_codes_reach_their_own_clients() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let script = "
for n in $(seq 200); do (exit 7) & pids=\"$pids $!\"; done
for pid in $pids; do wait $pid; echo $?; done >codes; sort codes | uniq -c";
        let (answer, _) = room.run(&[], script);
        assert_eq!(text(&answer, "stdout").trim(), "200 7", "{answer}");
        for round in 0..3 {
            let clients: Vec<_> = (0..10)
                .map(|n| {
                    (
                        n,
                        room.daemon
                            .cli(&room.world, &["exec", "--", &format!("(true &); exit {n}")])
                            .start(),
                    )
                })
                .collect();
            for (n, client) in clients {
                let ended = client.wait(Duration::from_secs(30));
                assert_eq!(ended.code, n, "round {round}: {ended:?}");
            }
        }
    });
}

/// codex#40454, cc#19901, microsandbox#1201: in a container the daemon may be process 1.
#[test]
fn a_daemon_that_is_process_one_runs_commands_and_collects_no_zombies() {
    if !Mode::possible().contains(&Mode::Root) {
        eprintln!("SKIPPED: needs root to make a pid namespace for the daemon");
        return;
    }
    let world = World::new(Mode::Root);
    let socket = world.base.join("first.sock");
    let listen = format!("unix:{}", socket.display());
    let agentd = agentd_tests::harness::binaries().join("agentd");
    let daemon = world
        .program("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .args([agentd.as_os_str()])
        .args(["serve", "--listen", &listen])
        .start();
    let listens = wait_until(Duration::from_secs(20), || {
        UnixStream::connect(&socket).is_ok()
    });
    assert!(listens, "no daemon: {}", daemon.stderr());
    let url = format!("unix://{}", socket.display());
    for n in [0, 7, 1] {
        let script = format!("for i in $(seq 20); do sh -c 'sleep 0.01 &'; done; exit {n}");
        let words = ["--connect", &url, "exec", "--", &script];
        world.cli(words).run().expect_code(n);
    }
    let parent = agentd_tests::harness::children_of(daemon.pid());
    let first = parent
        .first()
        .expect("agentd, process 1 of its namespace")
        .pid;
    let zombies = || {
        let tree = agentd_tests::harness::children_of(first);
        tree.into_iter()
            .filter(|child| agentd_tests::harness::state_of(child.pid) == Some('Z'))
            .count()
    };
    let status = fs::read_to_string(format!("/proc/{first}/status")).expect("its status");
    let ids = status.lines().find(|line| line.starts_with("NSpid:"));
    assert!(ids.is_some_and(|line| line.ends_with("\t1")), "{ids:?}");
    let none = wait_until(Duration::from_secs(5), || zombies() == 0);
    assert!(none, "{} zombies", zombies());
    daemon.signal(Signal::SIGKILL);
}
