//! Zombies: what a command leaves unreaped is reaped, exit codes go to their owners, also when the daemon is
//! the first process of a container. Counted from outside, where nothing can be hidden.

use std::{ffi::OsString, fs, path::Path, time::Duration};

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{
    Api, Daemon, Mode, World, children_of, in_every_mode, script, wait_until, zombies_below,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::task::JoinSet;

use crate::room::{Gate, Room, config_file, runtime};

/// Executions at once, each with a code of its own.
const EXECS: i32 = 200;

/// How long a zombie may be one on a busy machine.
const REAPED: Duration = Duration::from_secs(5);

/// Source and script.
const ORPHANS: &[(&str, &str)] = &[
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
    (
        "cc#42756",
        "python3 -c 'import os\nfor n in range(200):\n  if os.fork() == 0:\n    os.setsid(); os.fork(); os._exit(0)\n  os.wait()'",
    ),
];

/// Three that nobody reaps while their parent lives: what the counter must see.
const UNREAPED: &str = "python3 -c 'import os
for n in range(3):
  if os.fork() == 0: os._exit(0)
print(\"forked\", flush=True); open(\"gate\").read()'";

#[test]
fn orphans_are_reaped_while_the_command_still_runs() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let launcher = room.daemon.launcher();
        let gate = Gate::new(&room.world, "gate");
        // The control.
        let client = room.exec(&[], UNREAPED).start();
        client.wait_for_stdout("forked");
        let seen = wait_until(REAPED, || zombies_below(launcher).len() == 3);
        assert!(seen, "{:?}", zombies_below(launcher));
        let open = gate.open();
        drop((client, open));
        room.is_empty("the control");
        for (source, orphans) in ORPHANS {
            let text = format!("{orphans}\necho forked; : <gate");
            let client = room.exec(&[], &text).start();
            client.wait_for_stdout("forked");
            let none = wait_until(REAPED, || zombies_below(launcher).is_empty());
            assert!(none, "{source}: {:?}", zombies_below(launcher));
            let running = room.world.processes();
            assert!(!running.is_empty(), "{source}: it still runs");
            let open = gate.open();
            client.wait(crate::room::PROMPT).expect_code(0);
            drop(open);
            room.is_empty(source);
        }
    });
}

/// opencomputer#194: zombies filled the limit of processes, and forks failed.
#[test]
fn what_has_ended_does_not_count_against_the_limit_of_processes() {
    let runtime = runtime();
    in_every_mode(|mode| {
        if mode == Mode::Nested {
            // All processes of the user count there, other tests' included.
            return;
        }
        let room = Room::new(mode);
        for (n, forks) in [
            "for n in $(seq 300); do (exit 0 &); done",
            "for n in $(seq 150); do sh -c 'exit 0 & exit 0 &'; done",
            "for n in $(seq 300); do true; done",
        ]
        .iter()
        .enumerate()
        {
            let mut spec = script(
                &room.world,
                &format!("forks-{n}"),
                &format!("{forks}\necho end"),
            );
            let limits = spec.limits.insert(v1::LimitRequest::default());
            limits.pids = Some(100);
            let told = runtime.block_on(agentd_tests::harness::follow(
                &room.daemon.socket,
                &spec,
                crate::room::PROMPT * 4,
            ));
            let told = told.unwrap_or_else(|why| panic!("{forks}: {why}"));
            let stderr = String::from_utf8_lossy(told.stderr.bytes());
            assert_eq!(told.stdout.bytes(), b"end\n", "{forks}: {stderr}");
            assert_eq!(stderr, "", "{forks}");
            let end = told.exited.expect("an end");
            assert!(end.limits_hit.is_empty(), "{forks}: {end:?}");
        }
    });
}

/// Starts commands that all end together, each with its own code, and looks where the codes went.
fn codes_reach_their_owners(world: &World, socket: &Path, at_once: usize) {
    let gate = Gate::new(world, "codes");
    runtime().block_on(async {
        let api = Api::dial(socket).await.expect("a daemon");
        let mut starts = JoinSet::new();
        for code in 0..EXECS {
            let text = format!("(true &); : <codes; exit {code}");
            let (api, spec) = (api.clone(), script(world, &format!("code-{code}"), &text));
            starts.spawn(async move { api.start(spec).await.map(drop) });
        }
        // All that may run at once do, and none has ended: then they go.
        for _ in 0..at_once {
            let started = starts.join_next().await.expect("as many as were asked for");
            started.expect("an answer").expect("it starts");
        }
        let open = gate.open();
        while let Some(started) = starts.join_next().await {
            started.expect("an answer").expect("it starts");
        }
        let mut ends = JoinSet::new();
        for code in 0..EXECS {
            let api = api.clone();
            ends.spawn(async move {
                let exec = api.wait(&format!("code-{code}")).await;
                (code, exec.expect("it is known").result.expect("an end"))
            });
        }
        while let Some(end) = ends.join_next().await {
            let (code, end) = end.expect("an answer");
            assert_eq!(
                (end.reason(), end.exit_code),
                (ExitReason::Exited, Some(code)),
                "{end:?}"
            );
        }
        drop(open);
    });
}

/// daytona#4712, daytona#4704, Decepticon#340: a reaper for everybody took the exit codes of others.
#[test]
fn two_hundred_exit_codes_reach_their_own_clients() {
    in_every_mode(|mode| {
        // Without namespaces the processes of all of them count against one limit.
        let at_once = if mode == Mode::Nested { 100 } else { 200 };
        let room = Room::with(mode, &format!("max-execs = {at_once}\n"));
        codes_reach_their_owners(&room.world, &room.daemon.socket, at_once);
        room.is_empty("two hundred");
        // And those of one command's own children, which only their parent may reap.
        let children = "
for n in $(seq 200); do (exit 7) & pids=\"$pids $!\"; done
for pid in $pids; do wait $pid; echo $?; done >codes-of-children
sort codes-of-children | uniq -c";
        let (answer, _) = room.run(&[], children);
        let counted = crate::room::text(&answer, "stdout").trim();
        assert_eq!(counted, "200 7", "{answer}");
    });
}

/// A container: the daemon in a pid namespace of its own, with what stands between it and process 1.
struct Container {
    name: &'static str,
    mode: Mode,
    /// Words after `unshare`.
    within: &'static [&'static str],
    /// agentd itself is process 1.
    first: bool,
}

/// Process 1 of a container, which is over when this is dropped. `unshare --kill-child` does not see to it: who
/// changes his user is no longer told of his parent's death.
struct First(i32);

impl Drop for First {
    fn drop(&mut self) {
        let _gone = kill(Pid::from_raw(self.0), Signal::SIGKILL);
    }
}

const CONTAINERS: &[Container] = &[
    Container {
        name: "process 1",
        mode: Mode::Root,
        within: &[],
        first: true,
    },
    Container {
        name: "a child of process 1",
        mode: Mode::Root,
        within: &["bash", "-c", "\"$@\" & wait", "bash"],
        first: false,
    },
    Container {
        name: "process 1 without privilege",
        mode: Mode::Rootless,
        within: &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
        ],
        first: true,
    },
];

/// codex#40454, cc#19901, microsandbox#1201, daytona#4712: in a container the daemon may be process 1.
#[test]
fn a_daemon_that_is_process_one_runs_commands_and_collects_no_zombies() {
    if !Mode::possible().contains(&Mode::Root) {
        eprintln!("SKIPPED: needs root to make a pid namespace for the daemon");
        return;
    }
    for container in CONTAINERS {
        let (outside, world) = (World::new(Mode::Root), World::new(container.mode));
        let config = config_file(&world, "max-execs = 200\n");
        let daemon = Daemon::start_by(&world, |world, agentd, words| {
            let unshare = outside.program("unshare");
            let unshare = unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
            let agentd: OsString = agentd.into();
            let inside = unshare.args(container.within).args([agentd]).args(words);
            let inside = inside.args([Path::new("--config"), &config]);
            inside
                .current_dir(&world.workspace)
                .env("HOME", &world.home.to_string_lossy())
        });
        let name = container.name;
        let children = children_of(daemon.pid());
        let first = First(children.first().expect("process 1 of the namespace").pid);
        for code in [0, 7, 1] {
            let orphans = "for i in $(seq 20); do sh -c 'sleep 0.01 &'; done";
            let words = ["exec", "--", &format!("{orphans}; exit {code}")];
            let ended = daemon.cli(&world, &words).run();
            assert_eq!(ended.code, code, "{name}: {ended:?}");
        }
        codes_reach_their_owners(&world, &daemon.socket, 200);
        let status = fs::read_to_string(format!("/proc/{}/status", first.0)).expect("its status");
        let ids = status.lines().find(|line| line.starts_with("NSpid:"));
        assert!(
            ids.is_some_and(|line| line.ends_with("\t1")),
            "{name}: {ids:?}"
        );
        let is_agentd = status.starts_with("Name:\tagentd\n");
        assert_eq!(is_agentd, container.first, "{name}: {status}");
        let none = wait_until(REAPED, || zombies_below(first.0).is_empty());
        assert!(none, "{name}: {:?}", zombies_below(first.0));
    }
}
