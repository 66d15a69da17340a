//! When a command is over: at the exit of its leader and a short drain, never at the end of its pipes, and
//! never at a timer alone.

use agentd_tests::harness::{in_every_mode, in_every_mode_at_once};

use crate::room::{PROMPT, Room, text};

/// A command whose leader ends at once while something else holds its output.
struct Case {
    source: &'static str,
    script: &'static str,
    out: &'static str,
    /// Something is left to be killed and counted.
    leftover: bool,
}

const fn case(source: &'static str, script: &'static str, out: &'static str) -> Case {
    Case {
        source,
        script,
        out,
        leftover: false,
    }
}

impl Case {
    /// Leaves something behind.
    const fn leaving(self) -> Self {
        Self {
            leftover: true,
            ..self
        }
    }
}

const CASES: &[Case] = &[
    case("codex#6715", "echo hi", "hi\n"),
    case(
        "codex, legacy drain",
        "echo important; sleep 600 &",
        "important\n",
    )
    .leaving(),
    case("cc#1481", "sleep 600 & echo started", "started\n").leaving(),
    case(
        "cc#3372",
        "(sleep 600; echo late) & echo started",
        "started\n",
    )
    .leaving(),
    case(
        "cc#27401",
        "echo hi | (read -r x; echo \"$x\"; sleep 600 & )",
        "hi\n",
    )
    .leaving(),
    case(
        "containerd#7832",
        "bash -c 'sleep 365d &'; echo done",
        "done\n",
    )
    .leaving(),
    case(
        "containerd#9568",
        "bash -c 'sleep 300& echo probe'",
        "probe\n",
    )
    .leaving(),
    case("bux#163", "sh -c 'sleep 600 &'; echo code $?", "code 0\n").leaving(),
    case(
        "deer-flow#3864",
        "python3 -m http.server 0 --bind 127.0.0.1 >/dev/null 2>&1 & echo ok",
        "ok\n",
    )
    .leaving(),
    case(
        "deer-flow#3864",
        "nohup python3 -c 'import time; time.sleep(600)' & disown; echo ok",
        "ok\n",
    )
    .leaving(),
    case(
        "daytona#4230",
        "cat <<'EOF' >f && cat f\na $x `y`\nEOF",
        "a $x `y`\n",
    ),
    case(
        "daytona#4230",
        "coproc sleep 600; echo spawned",
        "spawned\n",
    )
    .leaving(),
    case("cc#93794", "yes >/dev/null & echo finished", "finished\n").leaving(),
    case("cc#1481", "mkfifo p && (cat p &) ; echo reader", "reader\n").leaving(),
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
            if case.leftover {
                assert!(leftovers >= 1, "{name}: {answer}");
            }
            room.is_empty(&name);
            drop(std::fs::remove_file(room.world.workspace.join("p")));
        }
    });
}

/// codex#7846: a process substitution kept the call for ever. Its reader is no child that bash waits for, so on
/// a starved machine it may still hold bytes when it is ended; then the result counts it, every time.
#[test]
fn a_process_substitution_ends_with_its_shell_and_nothing_is_lost_in_silence() {
    let scripts = [
        "exec > >(tee -a \"$TMPDIR/t.log\") 2>&1 && echo ok",
        "echo ok > >(cat)",
        "exec 3> >(cat) && echo ok >&3",
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for script in scripts {
            let mut whole = 0;
            for _ in 0..4 {
                let (answer, ended) = room.run(&["--timeout", "100s"], script);
                assert_eq!(answer["reason"], "exited", "{script}: {answer}");
                assert!(ended.elapsed < PROMPT, "{script}: {:?}", ended.elapsed);
                if text(&answer, "stdout") == "ok\n" {
                    whole += 1;
                } else {
                    assert_eq!(text(&answer, "stdout"), "", "{script}: {answer}");
                    assert_ne!(answer["leftover_processes"], 0, "{script}: {answer}");
                }
                room.is_empty(script);
            }
            assert!(whole >= 2, "{script}: whole only {whole} times out of 4");
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
    in_every_mode_at_once(|mode| {
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

/// Source, script, output: silent for longer than a thread pool keeps an idle thread.
const SILENT: &[(&str, &str, &str)] = &[
    ("codex#46702", "sleep 12; echo done", "done\n"),
    (
        "codex#46702",
        "python3 -c 'import time; time.sleep(12); print(\"slept\")'",
        "slept\n",
    ),
    (
        "codex#6965",
        "sleep 12 & wait $!; echo \"waited $?\"",
        "waited 0\n",
    ),
    (
        "OpenHands#7869",
        "timeout 12 sleep 600; echo \"code $?\"",
        "code 124\n",
    ),
    (
        "codex#46702",
        "echo begin; (exec setsid sleep 12); echo end",
        "begin\nend\n",
    ),
];

/// A thread pool lets idle threads go after about ten seconds; a command tied to one died with it. Silence and
/// time alone end nothing before the timeout.
#[test]
fn a_silent_command_outlives_every_idle_thread_of_the_daemon() {
    in_every_mode_at_once(|mode| {
        let room = Room::new(mode);
        let clients: Vec<_> = SILENT
            .iter()
            .map(|case| {
                let words = ["exec", "--json", "--", case.1];
                (case, room.daemon.cli(&room.world, &words).start())
            })
            .collect();
        for ((source, script, out), client) in clients {
            let ended = client.wait(PROMPT * 4);
            let answer = ended.json();
            assert_eq!(answer["reason"], "exited", "{source}: {script}: {answer}");
            assert_eq!(
                text(&answer, "stdout"),
                *out,
                "{source}: {script}: {answer}"
            );
            assert!(ended.elapsed >= std::time::Duration::from_secs(12));
        }
    });
}
