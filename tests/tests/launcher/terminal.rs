//! Commands on a terminal of their own.

use agentd_sandbox::{
    monitor::{Request, SignalScope},
    policy::{Program, Refusal, TerminalSize},
};
use agentd_tests::harness::{Mode, in_every_mode};
use nix::sys::signal::Signal;

use crate::drive::{Launcher, Outcome, exited, signaled, terminal};

/// Bash ignores QUIT, and Python turns INT into something of its own.
const WAITING: &str = "exec python3 -c 'import signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
print(\"ready\", flush=True); time.sleep(100)'";

fn on_terminal(launcher: &mut Launcher, script: &str) -> Outcome {
    let mut invocation = launcher.invocation(Program::Script);
    invocation.terminal = Some(terminal(80, 24));
    launcher.run(invocation, script)
}

#[test]
fn a_command_on_a_terminal_has_it_on_every_standard_descriptor_and_as_its_own() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let outcome = on_terminal(
            &mut launcher,
            "for fd in 0 1 2; do [ -t $fd ] || echo no $fd; done
             stty size; echo $TERM; echo direct >/dev/tty; echo error >&2
             stty -a | grep -o -w -- '-\\?echo'; ls /proc/self/fd | tr '\\n' ' '",
        );
        assert_eq!(outcome.status, exited(0));
        let lines: Vec<&str> = outcome.stdout.split("\r\n").collect();
        assert_eq!(
            lines,
            [
                "24 80",
                "xterm-256color",
                "direct",
                "error",
                "echo",
                "0 1 2 3 "
            ],
            "{outcome:?}"
        );
        // Control: without one there is none, neither given nor inherited.
        let outcome = launcher.script("[ -t 0 ] || echo none; echo $TERM; echo x >/dev/tty");
        assert_eq!(outcome.stdout, "none\ndumb\n");
        assert!(outcome.stderr.contains("/dev/tty"), "{outcome:?}");
    });
}

#[test]
fn the_terminal_is_the_jails_own_and_the_only_one_there() {
    in_every_mode(|mode| {
        if mode == Mode::Nested {
            // No root of its own, and so no terminals of its own.
            return;
        }
        let mut launcher = Launcher::start(mode);
        let script = "tty; ls /dev/pts | sort | tr '\\n' ' '; echo by name >/dev/pts/0; stat -c %u /dev/pts/0; id -u";
        let outcome = on_terminal(&mut launcher, script);
        let (head, ids) = outcome
            .stdout
            .split_once("by name\r\n")
            .expect(&outcome.stdout);
        assert_eq!(head, "/dev/pts/0\r\n0 ptmx ");
        let ids: Vec<&str> = ids.split_whitespace().collect();
        assert_eq!(ids[0], ids[1], "the terminal belongs to its user");
    });
}

#[test]
fn what_is_typed_is_echoed_and_read_and_its_end_ends_the_reader() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mut invocation = launcher.invocation(Program::Script);
        invocation.terminal = Some(terminal(80, 24));
        let mut run = launcher.ask(
            invocation,
            "read -r line; echo \"got $line\"; cat; echo over",
        );
        let started = run.started();
        run.types("hello\n");
        run.shows("got hello\r\n");
        run.types("more\n\u{4}");
        let outcome = run.end(started);
        assert_eq!(
            outcome.stdout,
            "hello\r\ngot hello\r\nmore\r\nmore\r\nover\r\n"
        );
    });
}

#[test]
fn control_keys_reach_what_runs_in_the_foreground() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for (key, signal) in [("\u{3}", Signal::SIGINT), ("\u{1c}", Signal::SIGQUIT)] {
            let mut invocation = launcher.invocation(Program::Script);
            invocation.terminal = Some(terminal(80, 24));
            let mut run = launcher.ask(invocation, WAITING);
            let started = run.started();
            run.shows("ready");
            run.types(key);
            assert_eq!(run.end(started).status, signaled(signal as i32));
        }
    });
}

#[test]
fn a_change_of_size_is_seen_and_signalled() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mut invocation = launcher.invocation(Program::Script);
        invocation.terminal = Some(terminal(1, 1));
        let script = "trap 'echo signalled' WINCH; echo ready; until [ \"$(stty size)\" = '43 132' ]; do sleep 0.05; done; sleep 0.05; stty size; exit 3";
        let mut run = launcher.ask(invocation, script);
        let started = run.started();
        run.shows("ready");
        let resize = |columns, rows| Request::Resize {
            exec: run.exec,
            size: TerminalSize { columns, rows },
        };
        let requests = [(0, 5), (5, 0), (4097, 5), (132, 43)].map(|(c, r)| resize(c, r));
        for request in requests {
            run.launcher.send(&request, &[]);
        }
        let outcome = run.end(started);
        assert_eq!(outcome.status, exited(3));
        let last = outcome.stdout.trim_end().lines().last();
        assert_eq!(last, Some("43 132"), "{outcome:?}");
        assert!(outcome.stdout.contains("signalled"), "{outcome:?}");
    });
}

#[test]
fn sizes_that_no_terminal_has_are_refused() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for (columns, rows) in [(0, 1), (1, 0), (4097, 1), (1, u16::MAX)] {
            let mut invocation = launcher.invocation(Program::Script);
            invocation.terminal = Some(terminal(columns, rows));
            let answer = launcher.ask(invocation, "echo no").not_started();
            assert!(matches!(answer, Err(Refusal::Malformed(_))), "{answer:?}");
        }
    });
}

#[test]
fn nothing_can_be_typed_for_the_person_at_the_terminal() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let script = "exec python3 -c 'import fcntl
try: fcntl.ioctl(0, 0x5412, b\"x\"); print(\"typed\")
except OSError as error: print(\"refused\", error.errno)'";
        let outcome = on_terminal(&mut launcher, script);
        assert!(outcome.stdout.starts_with("refused"), "{outcome:?}");
    });
}

#[test]
fn a_burst_comes_out_whole_and_a_leftover_does_not_keep_the_terminal_open() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let outcome = on_terminal(&mut launcher, "trap '' HUP; sleep 100 & seq 30000");
        let lines: Vec<String> = (1..=30000).map(|number| format!("{number}\r\n")).collect();
        let expected = lines.concat();
        assert!(outcome.stdout == expected, "{} bytes", outcome.stdout.len());
        assert_eq!((outcome.status, outcome.leftover), (exited(0), 1));
    });
}

#[test]
fn a_program_on_a_terminal_can_be_signalled_like_any_other() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mut invocation = launcher.invocation(Program::Argv(vec![
            b"bash".to_vec(),
            b"--norc".to_vec(),
            b"-i".to_vec(),
        ]));
        invocation.terminal = Some(terminal(80, 24));
        invocation
            .env_set
            .insert("PS1".to_owned(), "prompt> ".to_owned());
        invocation
            .env_set
            .insert("TERM".to_owned(), "vt100".to_owned());
        let mut run = launcher.ask(invocation, "");
        let started = run.started();
        run.shows("prompt> ");
        // The last word comes from the job itself, which is in the foreground then.
        run.types("bash -c 'echo $TERM; exec sleep 100'\n");
        run.shows("vt100\r\n");
        run.types("\u{1a}");
        run.shows("Stopped");
        run.types("fg\n");
        run.signal(9, SignalScope::Leader);
        assert_eq!(run.end(started).status, signaled(9));
    });
}
