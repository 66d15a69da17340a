//! When a command is over: at the exit of its leader and a short drain, never at the end of its pipes, and
//! never at a timer alone.

use agentd_tests::harness::{Mode, in_every_mode};

use crate::room::{PROMPT, Room, text};

/// Whether something is left to be killed and counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Behind,
    Nothing,
}

/// A command whose leader ends at once while something else holds its output.
struct Case {
    source: &'static str,
    script: &'static str,
    out: &'static str,
    left: Left,
}

const fn case(source: &'static str, script: &'static str, out: &'static str, left: Left) -> Case {
    Case {
        source,
        script,
        out,
        left,
    }
}

const CASES: &[Case] = &[
    case(
        "codex#7846",
        "exec > >(tee -a \"$TMPDIR/t.log\") 2>&1 && echo ok",
        "ok\n",
        Left::Nothing,
    ),
    case("codex#7846", "echo ok > >(cat)", "ok\n", Left::Nothing),
    case("codex#6715", "echo hi", "hi\n", Left::Nothing),
    case(
        "codex, legacy drain",
        "echo important; sleep 600 &",
        "important\n",
        Left::Behind,
    ),
    case(
        "cc#1481",
        "sleep 600 & echo started",
        "started\n",
        Left::Behind,
    ),
    case(
        "cc#3372",
        "(sleep 600; echo late) & echo started",
        "started\n",
        Left::Behind,
    ),
    case(
        "cc#27401",
        "echo hi | (read -r x; echo \"$x\"; sleep 600 & )",
        "hi\n",
        Left::Behind,
    ),
    case(
        "containerd#7832",
        "bash -c 'sleep 365d &'; echo done",
        "done\n",
        Left::Behind,
    ),
    case(
        "containerd#9568",
        "bash -c 'sleep 300& echo probe'",
        "probe\n",
        Left::Behind,
    ),
    case(
        "bux#163",
        "sh -c 'sleep 600 &'; echo code $?",
        "code 0\n",
        Left::Behind,
    ),
    case(
        "deer-flow#3864",
        "python3 -m http.server 0 --bind 127.0.0.1 >/dev/null 2>&1 & echo ok",
        "ok\n",
        Left::Behind,
    ),
    case(
        "deer-flow#3864",
        "nohup python3 -c 'import time; time.sleep(600)' & disown; echo ok",
        "ok\n",
        Left::Behind,
    ),
    case(
        "daytona#4230",
        "cat <<'EOF' >f && cat f\na $x `y`\nEOF",
        "a $x `y`\n",
        Left::Nothing,
    ),
    case(
        "daytona#4230",
        "coproc sleep 600; echo spawned",
        "spawned\n",
        Left::Behind,
    ),
    case(
        "cc#93794",
        "yes >/dev/null & echo finished",
        "finished\n",
        Left::Behind,
    ),
    case(
        "cc#1481",
        "mkfifo p && (cat p &) ; echo reader",
        "reader\n",
        Left::Behind,
    ),
];

#[test]
fn a_command_is_over_when_its_leader_is_whoever_holds_its_output() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for case in CASES {
            let name = format!("{}: {}", case.source, case.script);
            let (answer, ended) = room.run(&["--timeout", "100s"], case.script);
            assert_eq!(answer["reason"], "exited", "{name}: {answer}");
            assert_eq!(answer["exit_code"], 0, "{name}: {answer}");
            assert_eq!(text(&answer, "stdout"), case.out, "{name}: {answer}");
            assert!(ended.elapsed < PROMPT, "{name}: {:?}", ended.elapsed);
            let leftovers = answer["leftover_processes"].as_u64().expect("a number");
            if case.left == Left::Behind {
                assert!(leftovers >= 1, "{name}: {answer}");
            }
            room.is_empty(&name);
            drop(std::fs::remove_file(room.world.workspace.join("p")));
        }
    });
}

/// bux#163: the answer said code 0 and timed out, both.
#[test]
fn an_end_is_either_an_exit_or_a_timeout_and_never_both() {
    let table = [
        ("bux#163", "sh -c 'sleep 600 &'", "exited"),
        ("bux#163", "sleep 600", "timeout"),
        (
            "daytona#2602",
            "sh -c \"sh -c 'sleep 600'; echo hi\"",
            "timeout",
        ),
        ("containerd#9568", "true & sleep 600 & exit 0", "exited"),
        ("bux#163", "trap 'exit 0' TERM; sleep 600 & wait", "timeout"),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (source, script, reason) in table {
            let (answer, ended) = room.run(&["--timeout", "1s"], script);
            assert_eq!(answer["reason"], reason, "{source}: {script}: {answer}");
            if reason == "exited" {
                assert_eq!(answer["exit_code"], 0, "{source}: {script}: {answer}");
            } else {
                // Code 0 of a trap may be told beside it, and is no success.
                assert_eq!(ended.code, 124, "{source}: {script}: {answer}");
            }
            room.is_empty(script);
        }
    });
}

/// A thread pool lets idle threads go after about ten seconds; a command tied to one died with it.
#[test]
fn a_silent_command_outlives_every_idle_thread_of_the_daemon() {
    // codex#46702, codex#6965, OpenHands#7869: silence and time alone end nothing before the timeout.
    let room = Room::new(*Mode::possible().first().expect("some kind of host"));
    let (answer, _) = room.run(&[], "sleep 12; echo done");
    assert_eq!(answer["reason"], "exited", "{answer}");
    assert_eq!(text(&answer, "stdout"), "done\n", "{answer}");
}
