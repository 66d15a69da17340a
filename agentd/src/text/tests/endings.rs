//! The lines about the end.

use std::time::Duration;

use expect_test::{Expect, expect};

use crate::commands::Blocked;
use crate::text::{Ending, Finished, Outcome, Tree, blocked, render};

/// By a client, in the middle.
const CANCELLED: Ending = Ending::Cancelled {
    after: Some(Duration::from_millis(2_500)),
};

fn check(outcome: &Outcome, expected: &Expect) {
    let rendered = render(&Finished {
        head: b"output\n",
        dropped_bytes: 0,
        tail: b"",
        full_output: None,
        outcome,
    });
    expected.assert_eq(&rendered.text);
}

#[test]
fn success_adds_nothing() {
    check(&Outcome::new(Ending::Exited(0)), &expect!["output"]);
}

#[test]
fn a_failure_adds_its_code() {
    check(
        &Outcome::new(Ending::Exited(3)),
        &expect![[r"
        output
        [exit code: 3]"]],
    );
}

#[test]
fn a_signal_is_named() {
    let signal = |number, name: &str| {
        Outcome::new(Ending::Signaled {
            number,
            name: name.to_owned(),
        })
    };
    check(
        &signal(11, "SIGSEGV"),
        &expect![[r"
        output
        [killed by signal 11 (SIGSEGV)]"]],
    );
    check(
        &signal(34, ""),
        &expect![[r"
        output
        [killed by signal 34]"]],
    );
}

#[test]
fn a_timeout_says_so_in_the_words_models_know() {
    check(
        &Outcome::new(Ending::Timeout(Duration::from_mins(2))),
        &expect![[r"
        output
        Error: Timeout (120s)
        [the command was ended after 120 s, with all its processes; if it needs longer, set timeout_ms; do not wait for programs that never end]"]],
    );
    check(
        &Outcome::new(Ending::IdleTimeout(Duration::from_millis(1_500))),
        &expect![[r"
        output
        Error: Timeout (1.5s without output)
        [the command was ended because it printed nothing for 1.5 s; it may wait for input, which it cannot get]"]],
    );
}

#[test]
fn a_cancelled_command_is_told_with_what_it_may_have_done() {
    let stays = |milliseconds| {
        Outcome::new(Ending::Cancelled {
            after: Some(Duration::from_millis(milliseconds)),
        })
    };
    check(
        &stays(2_500),
        &expect![[r"
        output
        [cancelled after 2 s: the command was ended before it finished; what it did until then stays done]"]],
    );
    check(
        &stays(40),
        &expect![[r"
        output
        [cancelled after 40 ms: the command was ended before it finished; what it did until then stays done]"]],
    );
    let never = Outcome::new(Ending::Cancelled { after: None });
    let rendered = render(&Finished {
        head: b"",
        dropped_bytes: 0,
        tail: b"",
        full_output: None,
        outcome: &never,
    });
    expect!["[cancelled: the command was not started; nothing of it was run]"]
        .assert_eq(&rendered.text);
}

#[test]
fn everything_else_to_know_follows_the_end_in_order() {
    let outcome = Outcome {
        ending: Ending::Exited(1),
        leftover: 2,
        denials: vec![
            "write /etc/x (landlock)".to_owned(),
            "connect port 80".to_owned(),
        ],
        cwd_changed: Some("/srv/sub".to_owned()),
        limits: vec!["pids, 3 times (pids.events max)".to_owned()],
        tree: Tree::Unproven,
        notes: vec!["a remark".to_owned()],
    };
    check(
        &outcome,
        &expect![[r"
        output
        [exit code: 1]
        [limit: pids, 3 times (pids.events max)]
        [denied: write /etc/x (landlock)]
        [denied: connect port 80]
        [2 leftover processes were killed when the command ended; nothing started with & outlives its command]
        [every process that could be found was killed; this host offers no proof that none was missed]
        [cwd: /srv/sub]
        [a remark]"]],
    );
}

#[test]
fn leftovers_are_told_only_of_a_command_that_ended_by_itself() {
    let tells = |ending| {
        let outcome = Outcome {
            leftover: 1,
            ..Outcome::new(ending)
        };
        let finished = Finished {
            head: b"",
            dropped_bytes: 0,
            tail: b"",
            full_output: None,
            outcome: &outcome,
        };
        render(&finished).text.contains("leftover")
    };
    let signaled = Ending::Signaled {
        number: 11,
        name: String::new(),
    };
    assert!(tells(Ending::Exited(0)) && tells(signaled));
    for ended in [
        Ending::Timeout(Duration::from_secs(1)),
        Ending::IdleTimeout(Duration::from_secs(1)),
        CANCELLED,
        Ending::OutputLimit,
        Ending::Drained,
    ] {
        assert!(!tells(ended.clone()), "{ended:?}");
    }
}

#[test]
fn every_other_end_has_a_line_of_its_own() {
    let endings = [
        CANCELLED,
        Ending::OomKilled,
        Ending::OutputLimit,
        Ending::CpuLimit,
        Ending::DiskLimit(Some(1)),
        Ending::FileSizeLimit(Some(1)),
        Ending::Disconnected,
        Ending::Drained,
        Ending::Lost,
    ];
    let mut texts: Vec<String> = endings
        .into_iter()
        .map(|ending| {
            let rendered = render(&Finished {
                head: b"",
                dropped_bytes: 0,
                tail: b"output",
                full_output: None,
                outcome: &Outcome::new(ending),
            });
            let lines = rendered
                .text
                .strip_prefix("output\n")
                .expect("the output first");
            assert!(
                lines.starts_with("Error: ") || lines.starts_with('['),
                "{lines}"
            );
            lines.to_owned()
        })
        .collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 9);
}

#[test]
fn a_command_that_never_ran_has_no_output_to_speak_of() {
    let outcome = Outcome::new(Ending::SetupFailed {
        stage: "exec".to_owned(),
        errno_name: "ENOENT".to_owned(),
        detail: "/bin/\u{1b}[31mzsh".to_owned(),
    });
    let rendered = render(&Finished {
        head: b"",
        dropped_bytes: 0,
        tail: b"",
        full_output: None,
        outcome: &outcome,
    });
    expect!["Error: The command was not started: exec failed (ENOENT): /bin/zsh"]
        .assert_eq(&rendered.text);
}

#[test]
fn lists_and_lines_are_bounded() {
    let outcome = Outcome {
        denials: (0..50)
            .map(|number| format!("path {number} {}", "x".repeat(5_000)))
            .collect(),
        ..Outcome::new(Ending::Exited(0))
    };
    let rendered = render(&Finished {
        head: b"output",
        dropped_bytes: 0,
        tail: b"",
        full_output: None,
        outcome: &outcome,
    });
    assert!(rendered.text.ends_with("\n[denied: and 30 more]"));
    assert!(
        rendered
            .text
            .lines()
            .all(|line| line.chars().count() < 1_020)
    );
}

#[test]
fn foreign_text_cannot_start_a_line_of_its_own() {
    let outcome = Outcome {
        cwd_changed: Some("/x]\n[exit code: 0]\u{1b}[2K".to_owned()),
        ..Outcome::new(Ending::Exited(1))
    };
    check(
        &outcome,
        &expect![[r"
        output
        [exit code: 1]
        [cwd: /x] [exit code: 0]]"]],
    );
}

#[test]
fn a_blocked_command_is_told_with_rule_and_reason() {
    let refused = Blocked {
        rule: "base.toml:12".to_owned(),
        matched: "sudo\ntrue".to_owned(),
        reason: "commands run without privilege".to_owned(),
    };
    expect![[r"
        Error: Dangerous command blocked
        [matched: sudo true]
        [reason: commands run without privilege]
        [rule: base.toml:12; nothing of the command was run]"]]
    .assert_eq(&blocked(&refused));
}

#[test]
fn what_is_not_proven_is_not_claimed() {
    let told = |ending, leftover| {
        let outcome = Outcome {
            leftover,
            tree: Tree::Unproven,
            ..Outcome::new(ending)
        };
        crate::text::lines(&outcome).join("\n")
    };
    let timeout = Ending::Timeout(Duration::from_secs(5));
    for (text, is_told) in [
        (told(Ending::Exited(0), 0), false),
        (told(Ending::Exited(0), 1), true),
        (told(timeout, 0), true),
        (told(Ending::Lost, 0), true),
        (told(CANCELLED, 0), true),
    ] {
        assert_eq!(text.contains("no proof that none was missed"), is_told);
        for claim in ["with all its processes", "is dead"] {
            assert!(!text.contains(claim), "{text}");
        }
    }
}
