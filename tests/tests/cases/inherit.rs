//! What a command inherits: nothing of the daemon's signals, descriptors, limits, environment.

use std::{fs, time::Duration};

use agentd_tests::harness::{
    Daemon, Mode, World, binaries, children_of, in_every_mode, wait_until,
};

use crate::room::{Room, text};

/// sandlock: SIGPIPE was ignored, and so were others, as the daemon had them.
#[test]
fn every_signal_is_as_a_shell_expects_it() {
    let table = [
        (
            "sandlock 01ae05b",
            "yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}",
            "141\n",
        ),
        (
            "sandlock 01ae05b",
            "bash -c 'kill -INT $$; echo ignored'; echo $?",
            "130\n",
        ),
        (
            "sandlock 01ae05b",
            "grep -E '^Sig(Ign|Blk)' /proc/self/status | grep -vc '0000000000000000$'",
            "0\n",
        ),
        (
            "sandlock 01ae05b",
            "sh -c 'kill -HUP $$; echo ignored'; echo $?",
            "129\n",
        ),
        (
            "sandlock 01ae05b",
            "python3 -c 'import signal; print(len(signal.pthread_sigmask(0, [])))'",
            "0\n",
        ),
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        // The daemon is started with signals ignored, as by nohup.
        let daemon = daemon_under(&world, "trap '' PIPE HUP USR1; exec \"$@\"");
        for (source, script, out) in table {
            let ended = daemon.cli(&world, &["exec", "--", script]).run();
            assert_eq!(ended.stdout, out, "{source}: {script}: {ended:?}");
        }
    });
}

/// Whoever ignores the end of children is told of none. A program under some supervisors, and in some containers,
/// begins like that.
#[test]
fn a_daemon_whose_parent_ignored_the_end_of_children_works_as_any_other() {
    const IGNORING: &str = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); \
                            os.execv(sys.argv[1], sys.argv[1:])";
    let table = [
        ("true & wait $!; echo $?", "0\n"),
        ("bash -c 'exit 3'; echo $?", "3\n"),
        (
            "grep -E '^SigIgn' /proc/self/status | grep -vc '0000000000000000$'; true",
            "0\n",
        ),
        ("(setsid sleep 100 >/dev/null 2>&1 &); echo left", "left\n"),
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        // Control: what such a program starts does begin with the signal ignored.
        let shown = ["-c", IGNORING, "/bin/grep", "SigIgn", "/proc/self/status"];
        let control = world.program("/usr/bin/python3").args(shown).run();
        assert!(
            !control.stdout.trim_end().ends_with("0000000000000000"),
            "{control:?}"
        );
        let daemon = Daemon::start_by(&world, |world, agentd, words| {
            let program = world.program("/usr/bin/python3").args(["-c", IGNORING]);
            program.args([agentd.as_os_str()]).args(words)
        });
        for (script, out) in table {
            let ended = daemon.cli(&world, &["exec", "--", script]).run();
            assert_eq!(
                (ended.stdout.as_str(), ended.code),
                (out, 0),
                "{script}: {ended:?}"
            );
        }
        // On T1 the last processes may take a moment.
        let left = || {
            let children = children_of(daemon.launcher()).into_iter();
            let children = children.filter(|child| child.name != "agentd-janitor");
            children.chain(world.processes()).collect::<Vec<_>>()
        };
        let gone = wait_until(Duration::from_secs(10), || left().is_empty());
        assert!(gone, "{:?}", left());
        // And a client with a daemon of its own.
        let cli = binaries().join("agent-cli");
        let embedded = world.program("/usr/bin/python3").args(["-c", IGNORING]);
        let ended = embedded
            .args([cli.as_os_str()])
            .args(["exec", "--", "echo own"])
            .run();
        assert_eq!(
            (ended.stdout.as_str(), ended.code),
            ("own\n", 0),
            "{ended:?}"
        );
    });
}

/// sandlock 52e949a: descriptors of a parent with many open ones leaked.
#[test]
fn no_descriptor_of_anybody_reaches_a_command() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let secret = world.base.join("held");
        fs::write(&secret, "held open").expect("a file");
        let open = "for n in $(seq 10 300); do eval \"exec $n<$HELD\"; done; exec \"$@\"";
        let daemon = daemon_under_with(&world, open, &[("HELD", &secret.to_string_lossy())]);
        let script = "for fd in /proc/$$/fd/*; do readlink $fd; done | grep -vE '^(pipe|/dev/null|anon|.*script|/proc|.*/dev/pts)'; ls /proc/self/fd | wc -l";
        let ended = daemon.cli(&world, &["exec", "--", script]).run();
        // 0, 1, 2 and the one that ls has on the directory.
        assert_eq!(ended.stdout, "4\n", "{ended:?}");
    });
}

/// sandlock d4a8543: a requested limit above an inherited soft one widened it.
#[test]
fn the_smaller_limit_holds() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let low = "ulimit -n 512; ulimit -S -f 2000; ulimit -S -t 900; exec \"$@\"";
        let daemon = daemon_under(&world, low);
        let ended = daemon
            .cli(&world, &["exec", "--", "ulimit -n; ulimit -f; ulimit -t"])
            .run();
        let limits: Vec<u64> = ended
            .stdout
            .lines()
            .filter_map(|l| l.parse().ok())
            .collect();
        assert_eq!(limits.len(), 3, "{ended:?}");
        assert!(
            limits[0] <= 512 && limits[1] <= 2000 && limits[2] <= 900,
            "{ended:?}"
        );
    });
}

/// codex#22124, cc#10211, cadis#2622: the environment of the daemon or client reached the command.
#[test]
fn the_environment_is_made_and_not_inherited() {
    let secrets = [
        "AWS_SECRET_ACCESS_KEY",
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "LD_PRELOAD",
        "BASH_ENV",
        "PROMPT_COMMAND",
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        let set: Vec<_> = secrets.iter().map(|name| (*name, "/none/sesame")).collect();
        let daemon = daemon_under_with(&world, "exec \"$@\" 2>/dev/null", &set);
        for script in [
            "env | grep -c sesame",
            "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c sesame",
            "bash -lc 'env | grep -c sesame'",
        ] {
            let mut client = daemon.cli(&world, &["exec", "--", script]);
            for name in &secrets[..3] {
                client = client.env(name, "sesame-of-the-client");
            }
            let ended = client.run();
            assert_eq!(ended.stdout, "0\n", "{script}: {ended:?}");
        }
    });
}

/// cc#85457: the out-of-memory killer took the daemon instead of the command.
#[test]
fn a_command_is_the_first_to_go_when_memory_ends() {
    let read = "cat /proc/self/oom_score_adj";
    let table = [
        read.to_owned(),
        format!("bash -c '(setsid {read})'"),
        "python3 -c 'import os; os.fork() or os.execlp(\"cat\", \"cat\", \"/proc/self/oom_score_adj\"); os.wait()'".to_owned(),
        // It may not put others before itself.
        format!("for n in -1000 -1 0; do (echo $n >/proc/self/oom_score_adj) 2>/dev/null; done; {read}"),
        format!("bash -c 'echo -1000 >/proc/$$/oom_score_adj' 2>/dev/null; {read}"),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let score = |pid: i32| -> i32 {
            let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
            text.expect("readable").trim().parse().expect("a number")
        };
        for script in &table {
            let (answer, _) = room.run(&[], script);
            let printed = text(&answer, "stdout").trim();
            let command: i32 = printed
                .parse()
                .unwrap_or_else(|_| panic!("{script}: {answer}"));
            for daemon in [room.daemon.pid(), room.daemon.launcher()] {
                let daemon = score(daemon);
                assert!(command > daemon, "{script}: {command} and {daemon}");
            }
        }
    });
}

/// A daemon behind a shell that prepares its inheritance.
fn daemon_under(world: &World, prepare: &str) -> Daemon {
    daemon_under_with(world, prepare, &[])
}

fn daemon_under_with(world: &World, prepare: &str, env: &[(&str, &str)]) -> Daemon {
    Daemon::start_by(world, |world, agentd, words| {
        let mut program = world.program("bash").args(["-c", prepare, "bash"]);
        for (name, value) in env {
            program = program.env(name, value);
        }
        program.args([agentd.as_os_str()]).args(words)
    })
}

/// The control of the tests above: the shell before the daemon does what it is asked for.
#[test]
fn the_preparation_reaches_a_program_that_inherits() {
    let world = World::new(*Mode::possible().first().expect("some kind of host"));
    let probe = "trap '' PIPE; ulimit -S -n 512; exec 77</dev/null; exec bash -c 'ulimit -n; ls /proc/self/fd | grep -c 77; yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}'";
    let ended = world.program("bash").args(["-c", probe]).run();
    assert_eq!(ended.stdout, "512\n1\n1\n", "{ended:?}");
}
