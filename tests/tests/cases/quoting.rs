//! Scripts and arguments arrive byte for byte: nothing wraps, escapes or re-serialises them.

use agentd_tests::harness::in_every_mode;

use crate::room::{Room, text};

const SCRIPTS: &[(&str, &str, &str)] = &[
    ("cc#2941", "printf '%s\\n' 'a != b'", "a != b\n"),
    ("cc#28259", "jq -n '1 != 2'", "true\n"),
    ("cc#32864", "echo \"wow!\" '!!' !", "wow! !! !\n"),
    ("cc#24136", "if ! false; then echo ok; fi", "ok\n"),
    ("cc#24136", "! true; echo $?", "1\n"),
    ("cc#4315", "cat <<'EOF'\nx\nEOF", "x\n"),
    ("cc#4315", "cat <<EOF | tr x y\nx $((1 + 1))\nEOF", "y 2\n"),
    ("cc#32879", "true | true; { echo x; }", "x\n"),
    (
        "cc#32879",
        "cat <<'MY-MARKER'\nkept $$ as is\nMY-MARKER",
        "kept $$ as is\n",
    ),
    ("cc#32879", "[ \"$$\" -gt 0 ] && echo pid", "pid\n"),
    ("cc#11225", "for i in 1 2; do echo $i; done | cat", "1\n2\n"),
    ("cc#15599", "echo a |\n  tr a b |\n  cat\necho c", "b\nc\n"),
    (
        "cc#25990",
        "cat <<EOF >\"$TMPDIR/here\" && cat \"$TMPDIR/here\"\ntext\nEOF",
        "text\n",
    ),
    (
        "cc, 2.1.10",
        "cat <<'E'\n${index + 1} `no` \\n $(no)\nE",
        "${index + 1} `no` \\n $(no)\n",
    ),
    (
        "daytona#4230",
        "cat <<'A' ; cat <<-B\n1\nA\n\t2\n\tB",
        "1\n2\n",
    ),
    (
        "cc, C",
        "echo 'it'\\''s' \"a \\\"b\\\" \\$c\" $'t\\tab'",
        "it's a \"b\" $c t\tab\n",
    ),
    ("cc, C", "echo \\\\ '\\\\' \"\\\\\"", "\\ \\\\ \\\n"),
    (
        "cc, C",
        "printf '%s|' a\tb 'c\td' \"e  f\"",
        "a|b|c\td|e  f|",
    ),
    ("cc, C", "echo $# \"$0\" | sed 's, .*/, ,' | wc -l", "1\n"),
    (
        "cc, C",
        "# only a comment\necho ü 漢 😀 # and one more",
        "ü 漢 😀\n",
    ),
    ("cc, C", "echo a; #\r\necho b", "a\nb\n"),
    ("cc, C", "x='a\nb'; printf %s \"$x\"", "a\nb"),
];

#[test]
fn a_script_means_what_bash_says_it_means() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (source, script, out) in SCRIPTS {
            // The control: bash itself, outside.
            let outside = room.world.program("bash").args(["-c", script]);
            let outside = outside
                .env("TMPDIR", &room.world.home.to_string_lossy())
                .run();
            assert_eq!(outside.stdout, *out, "the control of {source}: {script}");
            let (answer, _) = room.run(&[], script);
            assert_eq!(
                text(&answer, "stdout"),
                *out,
                "{source}: {script}: {answer}"
            );
            // The other way in: as one argument.
            let ended = room.daemon.cli(&room.world, &["exec", "--", script]).run();
            assert_eq!(ended.stdout, *out, "{source}, as an argument: {script}");
        }
    });
}

/// cc, 2.1.10: what bash itself refuses is bash's own error, told as such.
#[test]
fn a_script_that_bash_refuses_fails_with_the_words_of_bash() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (script, words) in [
            ("cat <<E\n${index + 1}\nE", "bad substitution"),
            ("echo 'open", "unexpected EOF"),
            ("if true; then", "syntax error"),
        ] {
            let (answer, ended) = room.run(&[], script);
            assert_ne!(ended.code, 0, "{script}: {answer}");
            assert_eq!(answer["reason"], "exited", "{script}: {answer}");
            assert!(
                text(&answer, "stderr").contains(words),
                "{script}: {answer}"
            );
        }
    });
}

/// OpenShell#1965: a newline in an argument split it.
#[test]
fn arguments_arrive_byte_for_byte() {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};
    let arguments: &[&[u8]] = &[
        b"a\nb",
        b"\n",
        b"a\tb",
        b"'",
        b"\"",
        b"\\",
        b"",
        b" ",
        b"$HOME",
        b"`x`",
        b"*",
        b"-n",
        b"--",
        b"\xff\xfe",
        b"caf\xc3",
        b"!",
        b"a;b|c&d",
        b"\x01\x1b[31m",
        b"{a,b}",
        b"~",
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let words = ["exec", "--", "python3", "-c"];
        let print = "import os,sys; print([os.fsencode(a) for a in sys.argv[1:]])";
        let raw = arguments
            .iter()
            .map(|bytes| OsString::from_vec(bytes.to_vec()));
        let client = room
            .daemon
            .cli(&room.world, &words)
            .args([print])
            .args(raw.clone());
        let inside = client.run();
        inside.expect_code(0);
        let outside = room
            .world
            .program("python3")
            .args(["-c", print])
            .args(raw)
            .run();
        assert_eq!(inside.stdout, outside.stdout);
        assert!(inside.stdout.contains("a\\nb"), "{inside:?}");
    });
}

/// sandcastle#387, cc#51126: one argument of 128 KiB is the kernel's limit, and scripts are longer.
#[test]
fn a_script_larger_than_an_argument_can_be_runs() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for lines in [10_000, 20_000, 45_000] {
            let script = format!("{}echo end", ": padding line here\n".repeat(lines));
            let (answer, _) = room.run(&[], &script);
            assert_eq!(text(&answer, "stdout"), "end\n", "{} bytes", script.len());
        }
        let huge = format!("{}echo end", ": padding line here\n".repeat(60_000));
        let ended = room.exec(&[], &huge).run();
        ended.expect_code(125);
        assert!(
            ended.stderr.contains("1 MiB") || ended.stderr.contains("1048576"),
            "{ended:?}"
        );
    });
}
