//! Nothing waits for input that nobody will give: no terminal, an empty standard input, no questions.

use agentd_tests::harness::in_every_mode;

use crate::room::{PROMPT, Room, text};

/// Source, script, and the output where it is known.
const CASES: &[(&str, &str, Option<&str>)] = &[
    ("cc#79175", "cat; echo end", Some("end\n")),
    ("langsmith-sdk#3453", "grep x; echo $?", Some("1\n")),
    ("E2B#927", "wc -c", Some("0\n")),
    ("cc#18675", "grep foo | head -1; echo end", Some("end\n")),
    ("cc#9881", "read -r x; echo \"$? <$x>\"", Some("1 <>\n")),
    (
        "cc#30555",
        "python3 -c 'input()' 2>/dev/null; echo $?",
        Some("1\n"),
    ),
    (
        "cc#83046",
        "select x in a b; do echo never; done 2>/dev/null; echo end",
        None,
    ),
    (
        "codex#6108",
        "cat </dev/tty 2>/dev/null || echo none",
        Some("none\n"),
    ),
    (
        "codex#3646",
        "(echo x >/dev/tty) 2>/dev/null || echo none",
        Some("none\n"),
    ),
    (
        "cc#26353",
        "tty; test -t 0 || test -t 1 || echo none",
        Some("not a tty\nnone\n"),
    ),
    (
        "codex#3520",
        "git ls-remote https://example.invalid/x.git; echo end",
        Some("end\n"),
    ),
    (
        "codex#3520",
        "git init -q a && cd a && git push https://user@example.invalid/x.git HEAD; echo end",
        Some("end\n"),
    ),
    (
        "cc#37523",
        "git init -q b && cd b && git -c user.name=t -c user.email=t@example.org commit --allow-empty; echo end",
        None,
    ),
    (
        "codex#5905",
        "ssh -o StrictHostKeyChecking=ask newhost.invalid true; echo end",
        Some("end\n"),
    ),
    (
        "cc#9881",
        "python3 -c 'import getpass; getpass.getpass()' 2>/dev/null; echo end",
        None,
    ),
    (
        "cc#9881",
        "less /etc/passwd | tail -1 >/dev/null; man ls >/dev/null 2>&1; echo end",
        Some("end\n"),
    ),
];

#[test]
fn a_command_that_asks_gets_no_answer_and_does_not_wait_for_one() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (source, script, out) in CASES {
            let name = format!("{source}: {script}");
            let (answer, ended) = room.run(&["--timeout", "100s"], script);
            assert_eq!(answer["reason"], "exited", "{name}: {answer}");
            assert!(ended.elapsed < PROMPT, "{name}: {:?}", ended.elapsed);
            if let Some(out) = out {
                assert_eq!(text(&answer, "stdout"), *out, "{name}: {answer}");
            }
            room.is_empty(&name);
        }
    });
}

/// codex#6108: `sudo` took the terminal and left it without echo. It is refused before anything runs, and
/// the client's own input stays what it was.
#[test]
fn a_question_for_a_password_is_refused_and_reads_nothing() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for script in ["sudo -k; sudo true", "su -c true", "doas true"] {
            let mut client = room.exec(&[], script).piped().start();
            let ended = {
                // An open pipe that nobody writes to: whoever reads it waits for ever.
                let _held = client.input();
                client.wait(PROMPT)
            };
            ended.expect_code(126);
        }
    });
}
