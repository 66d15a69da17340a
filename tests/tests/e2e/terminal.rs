//! `agent-cli exec --pty` with input that ends: what has an end for a pipe has one on a terminal.

use std::time::Duration;

use agentd_tests::harness::{World, in_every_mode};

/// Far below the timeout of a command, and far above what a busy machine needs.
const SOON: Duration = Duration::from_secs(40);

/// Reads what is typed while the terminal is raw, and the rest line by line.
const MODES: &str = r#"import os, sys, termios, time, tty
before = termios.tcgetattr(0)
tty.setcbreak(0, termios.TCSADRAIN); first = os.read(0, 1)
tty.setraw(0, termios.TCSADRAIN); second = os.read(0, 1)
time.sleep(0.3)
termios.tcsetattr(0, termios.TCSADRAIN, before)
rest = sys.stdin.read()
print("saw", first, second, repr(rest), sys.stdin.read() == "")
"#;

/// Takes its time in another mode, throws away what was typed meanwhile, and then reads.
const FLUSHES: &str = r#"import sys, termios, time, tty
before = termios.tcgetattr(0)
tty.setraw(0); time.sleep(0.3)
termios.tcsetattr(0, termios.TCSAFLUSH, before)
print("saw", repr(sys.stdin.read()))
"#;

/// What is typed, what runs, the exit code, and words that are shown.
type Case = (&'static str, &'static str, i32, &'static [&'static str]);

const CASES: [Case; 14] = [
    ("", "cat; echo over", 0, &["over\r\n"]),
    (
        "one\ntwo\n",
        "cat; echo over",
        0,
        &["one\r\ntwo\r\nover\r\n"],
    ),
    (
        "no newline",
        "cat; echo; echo over",
        0,
        &["no newline\r\nover\r\n"],
    ),
    (
        "abc\n",
        "stty raw -echo; sleep 0.3; stty sane; cat; echo over",
        0,
        &["abc\r\nover\r\n"],
    ),
    ("", "read -r x; echo \"$? [$x]\"", 0, &["1 []\r\n"]),
    ("a b", "read -r x; echo \"$? [$x]\"", 0, &["1 [a b]\r\n"]),
    (
        "a\nb\n",
        "while read -r x; do echo \"got $x\"; sleep 0.1; done; cat; cat; exit 3",
        3,
        &["got a\r\n", "got b\r\n"],
    ),
    ("", "sleep 1; wc -c", 0, &["0\r\n"]),
    (
        "x=6\necho $((x*7))\n",
        "exec bash --norc -i",
        0,
        &["42\r\n"],
    ),
    (
        "(exit 5)\n",
        "bash --norc --noprofile -i; echo \"was $?\"",
        0,
        &["was 5\r\n"],
    ),
    ("print(6*7)\n", "exec python3 -i -q", 0, &["42\r\n"]),
    ("", "python3 -q; echo over", 0, &["over\r\n"]),
    (
        "echo a$((1+1))b\n",
        "dash -i; echo over",
        0,
        &["a2b\r\n", "over\r\n"],
    ),
    (
        "select 6*7;\n",
        "perl -ne 'print \"line $_\"'; echo over",
        0,
        &["line select", "over\r\n"],
    ),
];

fn ends(world: &World, (typed, script, code, shown): Case) {
    let ended = world
        .exec(&["--pty", "--timeout", "60s"], script)
        .stdin(typed.as_bytes())
        .start()
        .wait(SOON);
    assert_eq!(ended.code, code, "{script}: {ended:?}");
    for words in shown {
        assert!(ended.stdout.contains(words), "{script}: {ended:?}");
    }
    assert!(!ended.stdout.contains('\0'), "{script}: {ended:?}");
}

#[test]
fn the_end_of_piped_input_ends_whoever_reads_a_terminal() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        for case in CASES {
            ends(&world, case);
        }
    });
}

#[test]
fn a_program_that_changes_its_terminal_meets_every_byte_and_the_end() {
    const SAW: &str = r"saw b'a' b'b' 'c\nd' True";
    in_every_mode(|mode| {
        let world = World::new(mode);
        world.file("modes.py", MODES);
        world.file("flushes.py", FLUSHES);
        ends(&world, ("abc\nd", "exec python3 modes.py", 0, &[SAW]));
        ends(&world, ("", "exec python3 flushes.py", 0, &["saw ''"]));
    });
}

/// A program for which every byte is data reads none that nobody sent.
#[test]
fn nothing_is_typed_into_a_program_that_reads_bytes() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let script =
            "stty raw -echo; timeout --foreground 1 cat | od -An -tx1; stty sane; cat; echo over";
        let ended = world
            .exec(&["--pty", "--timeout", "60s"], script)
            .stdin(b"a\n")
            .start()
            .wait(SOON);
        ended.expect_code(0);
        assert!(ended.stdout.contains(" 61 0a\n"), "{ended:?}");
        assert!(ended.stdout.contains("over"), "{ended:?}");
        assert!(!ended.stdout.contains("04"), "{ended:?}");
    });
}
