//! A command that is ended is dead with everything it started, before the result is told.

use std::time::Duration;

use agentd_tests::harness::{Mode, in_every_mode, in_every_mode_at_once, is_running};
use nix::sys::signal::Signal;

use crate::room::{PROMPT, Room, text};

/// Trees that outlived their timeout elsewhere, with what they print before.
const TREES: &[(&str, &str, &str)] = &[
    (
        "codex#4337",
        "mkfifo p.$$; (while :; do echo c; sleep 60; done) > p.$$ & cat p.$$",
        "c\n",
    ),
    (
        "cc#79902",
        "echo a; grep -rl no-such-text /usr /proc 2>/dev/null | head -30 | sleep 600",
        "a\n",
    ),
    (
        "cc#82433",
        "echo a; for i in 1 2 3 4; do (while :; do :; done) & done; sleep 999",
        "a\n",
    ),
    (
        "microsandbox#1104",
        "echo a; sh -c 'for i in 1 2; do (while :; do :; done)& done; sleep 600'",
        "a\n",
    ),
    (
        "aidevops#26951",
        "echo a; setsid sh -c 'sleep 600' & sleep 600",
        "a\n",
    ),
    (
        "cc, setsid and disown",
        "echo a; setsid sleep 999 & disown; sleep 600",
        "a\n",
    ),
    (
        "codex#27758",
        "echo a; sh -c 'trap \"\" INT TERM; sleep 600 & wait'",
        "a\n",
    ),
    (
        "codex#7985",
        "echo a; trap '' TERM HUP INT; sleep 600; sleep 600; sleep 600",
        "a\n",
    ),
    (
        "daytona#2602",
        "echo a; sh -c \"sh -c 'sleep 600'; echo hi\"",
        "a\n",
    ),
    (
        "agent-sandbox#1379",
        "echo a; bash -c 'bash -c \"bash -c \\\"sleep 600\\\"; :\"; :'; :",
        "a\n",
    ),
    ("E2B#500", "echo a; sleep 600", "a\n"),
    ("SWE-ReX#151", "printf a; sleep 99", "a"),
    (
        "cc#79902",
        "echo a; sleep 600 & kill -STOP $!; kill -STOP $$",
        "a\n",
    ),
    (
        "codex#41009",
        "echo a; python3 -c 'import os,time\nif os.fork(): time.sleep(600)\nos.setsid()\nif os.fork(): time.sleep(600)\ntime.sleep(600)'",
        "a\n",
    ),
];

#[test]
fn a_timeout_ends_the_whole_tree_and_keeps_what_was_printed() {
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        for (source, script, out) in TREES {
            let name = format!("{source}: {script}");
            let (answer, ended) = room.run(&["--timeout", "1s"], script);
            // buildbarn#250: dead before the result is told, so there is no patience here but on the tier
            // that promises none.
            if mode != Mode::Nested {
                let left = room.world.processes();
                assert!(left.is_empty(), "{name}: {left:?}");
            }
            assert_eq!(ended.code, 124, "{name}: {answer}");
            assert_eq!(answer["reason"], "timeout", "{name}: {answer}");
            assert_eq!(text(&answer, "stdout"), *out, "{name}: {answer}");
            assert!(ended.elapsed < PROMPT, "{name}: {:?}", ended.elapsed);
            room.is_empty(&name);
        }
    });
}

/// codex#35735, cc#17466, cc#88608: an interrupt ends what runs, keeps what was printed and says so.
#[test]
fn an_interrupt_ends_the_whole_tree_and_keeps_what_was_printed() {
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        for (source, script, out) in TREES.iter().take(7) {
            let name = format!("{source}: {script}");
            let client = room.exec(&[], script).start();
            client.wait_for_stdout(out.trim_end());
            client.signal(Signal::SIGINT);
            let ended = client.wait(PROMPT);
            assert_eq!(ended.code, 130, "{name}: {ended:?}");
            assert!(ended.stdout.starts_with(out), "{name}: {ended:?}");
            room.is_empty(&name);
        }
    });
}

/// Writers that go on when what started them is over, each in its own way. `shared` is what they write.
const WRITERS: &[(&str, &str)] = &[
    (
        "deaf",
        "(trap '' TERM HUP INT; while :; do echo old >>shared; done) &",
    ),
    (
        "in a session of its own",
        "setsid sh -c 'while :; do echo old >>shared; done' &",
    ),
    (
        "with the file open",
        "(exec 3>>shared; trap '' TERM; while :; do echo old >&3; sleep 0.01; done) &",
    ),
    (
        "forked twice",
        "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nf=open(\"shared\",\"a\",buffering=1)\nwhile True: f.write(\"old\\n\"); time.sleep(.001)'",
    ),
    (
        "by name again and again",
        "nohup bash -c 'while :; do echo old >new.$$; mv new.$$ shared; done' >/dev/null 2>&1 &",
    ),
];

/// How the command ends that a writer belongs to, and the client's code for it.
const ENDS: &[(&str, &[&str], i32)] = &[
    ("exit 0", &[], 0),
    ("sleep 600", &["--timeout", "5s"], 124),
    // By an interrupt.
    ("sleep 600", &[], 130),
];

/// buildbarn#250: a child that outlived its parent kept writing into the next action's files.
#[test]
fn nothing_of_an_ended_command_writes_into_the_files_of_the_next() {
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        for (n, (name, writer)) in WRITERS.iter().enumerate() {
            for (last, options, code) in ENDS {
                if *code == 124 && n > 0 {
                    // One is enough of what takes so long.
                    continue;
                }
                let name = format!("{name}, {code}, {mode:?}");
                let until = "until [ -s shared ]; do sleep 0.01; done; echo up";
                let client = room.exec(options, &format!("{writer}\n{until}; {last}"));
                let client = client.start();
                // The control: it did write.
                client.wait_for_stdout("up");
                if *code == 130 {
                    client.signal(Signal::SIGINT);
                }
                let ended = client.wait(PROMPT * 2);
                assert_eq!(ended.code, *code, "{name}: {ended:?}");
                // Dead before the result was told, but on the tier that promises no proof.
                if mode == Mode::Nested {
                    room.is_empty(&name);
                }
                let next =
                    "rm -f shared new.*; sleep 0.3; ls; echo new >shared; sleep 0.1; cat shared";
                let (answer, _) = room.run(&[], next);
                assert_eq!(text(&answer, "stdout"), "new\n", "{name}: {answer}");
                std::fs::remove_file(room.world.workspace.join("shared")).expect("it was made");
            }
        }
    });
}

/// sandbox-sdk#438: one stuck command made everything after it unusable.
#[test]
fn a_stuck_command_is_in_nobodys_way() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for stuck in [
            "sleep 9999",
            "trap '' TERM; while :; do :; done",
            "kill -STOP $$",
        ] {
            let client = room
                .exec(&["--timeout", "60s"], &format!("echo up; {stuck}"))
                .start();
            client.wait_for_stdout("up");
            let (answer, ended) = room.run(&[], "echo ok");
            assert_eq!(text(&answer, "stdout"), "ok\n", "{stuck}: {answer}");
            assert!(ended.elapsed < PROMPT, "{stuck}: {:?}", ended.elapsed);
            client.signal(Signal::SIGINT);
            client.wait(PROMPT).expect_code(130);
            room.is_empty(stuck);
        }
    });
}

/// cc#45717, cc#94469, cc#93607: signals that a command sends, and those sent to it, reach nobody else.
#[test]
fn a_commands_own_kills_reach_neither_daemon_nor_itself_by_its_text() {
    let table = [
        ("cc#94469", "kill -TERM $PPID; echo after", "after\n"),
        ("cc#45717", "kill -TERM 0; echo never", ""),
        ("cc#93607", "pgrep -f zqx_needle; echo $?", "1\n"),
        ("cc#93607", "pkill -f zqx_needle_2; echo $?", "1\n"),
        ("cc#94469", "kill -9 1; echo after", "after\n"),
        ("cc#45717", "kill -TERM -- -1; sleep 0.1; echo end", ""),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let (agentd, launcher) = (room.daemon.pid(), room.daemon.launcher());
        for (source, script, out) in table {
            let name = format!("{source}: {script}");
            // Without namespaces the jail's own supervisor is what a command may see of its parent.
            let (answer, ended) = room.run(&["--timeout", "20s"], script);
            assert!(ended.elapsed < Duration::from_secs(15), "{name}: {answer}");
            let printed = text(&answer, "stdout");
            assert!(
                printed == out || (out.is_empty() && printed == "end\n"),
                "{name}: {answer}"
            );
            assert_ne!(answer["reason"], "lost", "{name}: {answer}");
            room.is_empty(&name);
        }
        assert!(
            is_running(agentd) && is_running(launcher),
            "the daemon was hit"
        );
        let (answer, _) = room.run(&[], "echo ok");
        assert_eq!(text(&answer, "stdout"), "ok\n", "{answer}");
    });
}
