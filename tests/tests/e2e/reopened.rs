//! `agent-cli exec --pty` with commands that close their terminal everywhere and open it again: what they
//! print then is theirs like everything before.

use std::time::Duration;

use agentd_tests::harness::{World, in_every_mode};

/// Far below the timeout of a command, and far above what a busy machine needs.
const SOON: Duration = Duration::from_secs(40);

/// A script, its exit code, the length of what it shows, and how that ends. Each waits until its closing
/// must have been seen.
const CASES: [(&str, i32, usize, &str); 5] = [
    (
        "exec </dev/null >/dev/null 2>&1; sleep 0.5; seq 100000 >/dev/tty",
        0,
        688_895,
        "\r\n99999\r\n100000\r\n",
    ),
    (
        "exec </dev/null >/dev/null 2>&1; for i in 1 2 3; do sleep 0.2; echo again $i >/dev/tty; done; exit 5",
        5,
        27,
        "again 1\r\nagain 2\r\nagain 3\r\n",
    ),
    (
        "echo first; exec <&- >&- 2>&-; sleep 0.5; echo late >/dev/tty",
        0,
        13,
        "first\r\nlate\r\n",
    ),
    (
        "exec </dev/null >/dev/null 2>&1; (sleep 0.5; echo deep >/dev/tty) & wait",
        0,
        6,
        "deep\r\n",
    ),
    (
        "echo first; exec </dev/null >/dev/null 2>&1; sleep 0.5",
        0,
        7,
        "first\r\n",
    ),
];

#[test]
fn a_terminal_that_nobody_has_open_for_a_while_loses_nothing_and_holds_up_nobody() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        for (script, code, length, end) in CASES {
            let ended = world
                .exec(&["--pty", "--timeout", "60s"], script)
                .start()
                .wait(SOON);
            assert_eq!(ended.code, code, "{script}: {}", ended.stderr);
            assert_eq!(ended.stdout.len(), length, "{script}");
            assert!(ended.stdout.ends_with(end), "{script}");
        }
    });
}
