//! `agent-cli exec --keep-output`: the whole output can be read again, from any byte on.

use agentd_tests::harness::{Daemon, World, in_every_mode};

/// More than the daemon holds in memory: lines of ten bytes.
const LINES: usize = 600_000;

fn whole() -> String {
    let lines: Vec<String> = (0..LINES).map(|n| format!("{n:09}\n")).collect();
    lines.concat()
}

/// The words of the last line on standard error that say how to read on.
fn advice(stderr: &str) -> (String, String) {
    let line = stderr.lines().last().expect("a remark");
    let quoted = line.split('`').nth(1).unwrap_or_else(|| panic!("{line}"));
    let words: Vec<&str> = quoted.split(' ').collect();
    let ["agent-cli", "logs", id, "--from", "0"] = words[..] else {
        panic!("{line}");
    };
    (id.to_owned(), line.to_owned())
}

#[test]
fn kept_output_is_read_again_from_any_byte_on_as_the_last_line_says() {
    let whole = whole();
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let print = format!("seq -f %09.0f 0 {}", LINES - 1);
        let keep = ["exec", "--session", "s", "--keep-output", "--"];
        let ended = daemon.cli(&world, &[&keep[..], &[&print]].concat()).run();
        ended.expect_code(0);
        let (id, line) = advice(&ended.stderr);
        assert!(line.contains(&whole.len().to_string()), "{line}");
        let length = whole.len();
        for from in [
            0,
            1,
            10,
            777_777,
            length - 10,
            length - 1,
            length,
            length + 9,
        ] {
            let words = ["logs", "--from", &from.to_string(), &id];
            let read = daemon.cli(&world, &words).run();
            read.expect_code(0);
            let expected = whole.get(from..).unwrap_or_default();
            assert!(
                read.stdout == expected,
                "from {from}: {} bytes",
                read.stdout.len()
            );
            assert_eq!(read.stderr, "", "from {from}");
        }
        // The control: without the option the beginning is gone.
        let plain = ["exec", "--json", "--session", "s", "--", &print];
        let ended = daemon.cli(&world, &plain).run();
        ended.expect_code(0);
        let id = ended.json()["exec_id"].as_str().expect("an id").to_owned();
        let read = daemon.cli(&world, &["logs", &id]).run();
        assert!(read.stdout.len() < length, "{} bytes", read.stdout.len());
        assert!(read.stderr.contains("no longer held"), "{read:?}");
    });
}

#[test]
fn little_output_is_read_again_as_well_and_a_daemon_that_does_not_stay_keeps_none() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let keep = ["exec", "--session", "s", "--keep-output", "--"];
        for (script, code, whole) in [
            ("echo out; echo err >&2; exit 3", 3, "out\nerr\n"),
            ("true", 0, ""),
            ("printf x", 0, "x"),
        ] {
            let ended = daemon.cli(&world, &[&keep[..], &[script]].concat()).run();
            ended.expect_code(code);
            let (id, _) = advice(&ended.stderr);
            let read = daemon.cli(&world, &["logs", "--from", "0", &id]).run();
            assert_eq!(read.stdout.len(), whole.len(), "{script}: {read:?}");
        }
        let private = world.cli(keep).args(["true"]).run();
        private
            .expect_code(125)
            .expect_one_line(&["private agentd", "agentd serve"]);
        let without = world.cli(["exec", "--keep-output", "--", "true"]).run();
        without.expect_code(125).expect_one_line(&["--session"]);
    });
}
