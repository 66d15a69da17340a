//! Input made to hang, overflow or crash the parser.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use proptest::prelude::*;

use super::{base, verdict};
use crate::commands::{CommandVerdict, MAX_PARSED_BYTES, check, on_parser_thread, walk};

/// CPU time, since the machine may be busy; generous for a debug build. What this must catch takes
/// minutes or forever.
const LIMIT: Duration = Duration::from_secs(4);

fn timed(name: &str, script: &str) -> CommandVerdict {
    let rules = base().rules;
    let (verdict, took) = on_parser_thread(|| {
        let before = cpu_time();
        let verdict = walk::check(&rules, script);
        (verdict, cpu_time().saturating_sub(before))
    })
    .expect("no panic");
    assert!(took < LIMIT, "{name} took {took:?}");
    verdict
}

/// What this thread has used.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("usage of this thread");
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|time| {
            let seconds = u64::try_from(time.tv_sec()).expect("not negative");
            let micros = u64::try_from(time.tv_usec()).expect("not negative");
            Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))
        })
        .sum()
}

/// Nestings: what opens a level, what is innermost, what closes a level.
const NESTINGS: &[(&str, &str, &str)] = &[
    ("(", "", ""),
    ("(", "x", ")"),
    ("( ", "x;", ")"),
    ("((", "1", "))"),
    ("$(", "", ""),
    ("$(", "x", ")"),
    ("\"$(", "x", ")\""),
    ("$((", "1", "))"),
    ("${a:-", "x", "}"),
    ("{ ", "", ""),
    ("{ ", "x", ";}"),
    ("if ", "", ""),
    ("while ", "", ""),
    ("while x; do ", "", "done;"),
    ("case x in x) ", "", "esac;"),
    ("case x in esac) ", "", ""),
    ("case x in\nesac) ", "", ""),
    ("f() { ", "", ""),
    ("function f { ", "", ""),
    ("coproc ", "", ""),
    ("coproc A { ", "", ""),
    ("[[ ! ", "", ""),
    ("cat <(", "x", ")"),
    ("a=(", "", ""),
    ("cat <<A; cat <(", "x", ")"),
];

#[test]
fn deep_nesting_is_given_up_and_said_so() {
    let n = 10_000;
    let nested = NESTINGS
        .iter()
        .map(|(open, inside, close)| format!("{}{inside}{}", open.repeat(n), close.repeat(n)));
    let tests = [
        format!("[[ {}x ]]", "! ".repeat(n)),
        format!("[[ {}x{} ]]", "( ".repeat(n), " )".repeat(n)),
        format!("[[ x =~ {}", "(".repeat(n)),
    ];
    for script in nested.chain(tests) {
        let name: String = script.chars().take(20).collect();
        let verdict = timed(&name, &script);
        assert_eq!(verdict.blocked, None, "{name}");
        assert!(verdict.unparsable, "{name}");
    }
}

#[test]
fn long_flat_scripts_are_read_to_the_end() {
    let n = 10_000;
    let scripts = [
        ("commands", format!("{}sudo x", "echo x;".repeat(n))),
        (
            "lines",
            format!("{}sudo x", "echo 'a b' \"$c\"\n".repeat(n)),
        ),
        ("pipeline", format!("{}sudo x", "cat | ".repeat(n))),
        ("conditions", format!("{}sudo x", "true && ".repeat(n))),
        ("words", format!("echo {}; sudo x", "word ".repeat(n))),
        ("quotes", format!("echo {}; sudo x", "'a'\"b\"".repeat(n))),
        (
            "substitutions",
            format!("echo {}; sudo x", "$(a) ".repeat(3_000)),
        ),
        ("backquotes", format!("echo {}; sudo x", "`a` ".repeat(n))),
        (
            "here-document",
            format!(
                "cat > x <<'EOF'\n{}EOF\nsudo x",
                "a 'line (of text\n".repeat(n)
            ),
        ),
        (
            "comments",
            format!("{}sudo x", "# it's :( a comment\n".repeat(5_000)),
        ),
        (
            "negations",
            format!("{}sudo x", "! a; if ! b; then ! c; fi\n".repeat(2_000)),
        ),
        (
            "groups",
            format!("{}sudo x", "(a; b) || { c; };".repeat(5_000)),
        ),
        (
            "tests",
            format!("{}sudo x", "[[ a && ( b || c ) ]];".repeat(2_000)),
        ),
    ];
    for (name, script) in scripts {
        let verdict = timed(name, &script);
        assert!(verdict.blocked.is_some(), "{name}: {}", verdict.unparsable);
    }
}

#[test]
fn expensive_shapes_end_in_time() {
    let n = 10_000;
    let scripts = [
        ("quotes", "'".repeat(n + 1)),
        ("double quotes", "\"".repeat(n + 1)),
        ("backquotes", "`".repeat(n + 1)),
        ("here-documents", "<<A ".repeat(n)),
        (
            "here-documents with bodies",
            format!("{}\n{}", "cat <<A;".repeat(900), "A\n".repeat(900)),
        ),
        ("many here-documents", "cat <<A\nx\nA\n".repeat(n)),
        (
            "words after a here-document",
            format!("cat <<A {}\nA\n", "x ".repeat(100_000)),
        ),
        (
            "words after a quoted line",
            format!("cat <<A \"$(echo \"x\n\")\" {}\nA\n", "x ".repeat(100_000)),
        ),
        (
            "a long tag",
            format!("cat <<'{}'\n{}", "t".repeat(100_000), "\n".repeat(100_000)),
        ),
        (
            "a long odd tag",
            format!(
                "cat <<$(({}))\n{}",
                "t".repeat(100_000),
                "\n".repeat(100_000)
            ),
        ),
        (
            "shifts",
            format!("echo $(( {} ))", "1<<2\n+".repeat(20_000)),
        ),
        ("open braces", "{".repeat(200_000)),
        ("braces", format!("echo {}", "{a,b}".repeat(20_000))),
        (
            "nested braces",
            format!("echo {}{}", "{a,".repeat(20_000), "}".repeat(20_000)),
        ),
        ("patterns", "@(".repeat(n)),
        ("conjunctions", format!("[[ {}a ]]", "a && ".repeat(30_000))),
        ("half-open parentheses", "( ( a; ".repeat(6)),
        ("half-open arithmetic", format!("(( {} ;", "( ".repeat(18))),
        ("descriptor", format!("echo {}> x", "9".repeat(400))),
        ("brace sequence", format!("echo {{1..{}}}", "9".repeat(400))),
        ("nul", "\0".repeat(n)),
        ("noise", "\u{fffd}\u{1b}[$(`'\"".repeat(n)),
    ];
    for (name, script) in scripts {
        let verdict = timed(name, &script);
        assert_eq!(verdict.blocked, None, "{name}");
    }
}

#[test]
fn backtracking_within_the_bounds_ends_in_time() {
    for depth in 1..30 {
        let shapes = [
            format!("{}a;", "( ".repeat(depth)),
            format!("{}a;{}", "( ".repeat(depth), ")".repeat(depth)),
            format!("[[ x =~ {}a ]]", "(".repeat(depth)),
            format!("for (( {}; ", "(".repeat(depth)),
            format!(
                "{}a {}",
                "case x in x) ".repeat(depth),
                "esac ".repeat(depth)
            ),
            format!("{}( {}", "case x in x) ( ".repeat(depth), "a; ".repeat(100)),
            format!("{}a{}", "$( (".repeat(depth), ") )".repeat(depth)),
            format!("cat {}a{}", "<( ( ".repeat(depth), ";) )".repeat(depth)),
        ];
        for (shape, script) in shapes.iter().enumerate() {
            let _verdict = timed(&format!("shape {shape} of depth {depth}"), script);
        }
    }
}

#[test]
fn scripts_that_multiply_are_given_up() {
    let mut script = "sudo x".to_owned();
    for _ in 0..30 {
        script = format!("eval {}", shell_quoted(&script));
        if script.len() > MAX_PARSED_BYTES {
            break;
        }
    }
    let verdict = timed("nested eval", &script);
    assert!(verdict.blocked.is_some() || verdict.unparsable);
    for unit in ["find -exec ", "eval ", "watch "] {
        let deep = format!("{}sudo x", unit.repeat(10_000));
        assert!(timed(unit, &deep).blocked.is_none());
    }
    let deep = format!("{}sudo x", "env ".repeat(1_000));
    let verdict = timed("nested env", &deep);
    assert!(verdict.unparsable);
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn a_large_script_meets_only_literal_rules() {
    let padding = "#".repeat(MAX_PARSED_BYTES);
    let parsed = verdict(&format!("sudo x\n{padding}"));
    assert_eq!((parsed.blocked, parsed.unparsable), (None, true));
    let literal = verdict(&format!("{padding}\n:(){{ :|:& }};:"));
    assert!(literal.blocked.is_some());
}

#[test]
fn what_bash_cannot_parse_is_reported_as_such() {
    for script in [
        "if", "echo 'x", "echo \"x", "a | | b", "fi", "( a", "}", "echo $(", "echo ${x",
    ] {
        assert!(verdict(script).unparsable, "{script}");
    }
}

#[test]
fn the_part_that_parses_is_checked_when_a_nested_one_does_not() {
    let verdict = verdict("eval 'if'; sudo x");
    assert!(verdict.blocked.is_some());
    assert!(verdict.unparsable);
}

#[test]
fn bytes_that_are_not_text_hide_nothing() {
    assert!(check(&base(), b"echo \xff\xfe; sudo x").blocked.is_some());
    assert!(check(&base(), b"su\0do x").blocked.is_some());
}

const PIECES: &[&str] = &[
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "$(",
    "${",
    "$((",
    "`",
    "'",
    "\"",
    "\\",
    "\n",
    ";",
    ";;",
    "&",
    "|",
    "||",
    "<",
    "<<",
    "<<-EOF\n",
    "EOF\n",
    "<<<",
    ">",
    ">&",
    "&>",
    "<(",
    " ",
    "\t",
    "#",
    "!",
    "[[",
    "]]",
    "if",
    "then",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "case",
    "esac",
    "while",
    "function",
    "coproc",
    "select",
    "time",
    "a",
    "x=",
    "a=(",
    "~",
    "$HOME",
    "*",
    "{a,b}",
    "eval",
    "bash -c",
    "env",
    "xargs",
    "find",
    "-exec",
    "@(",
    "=~",
    "&&",
    "99999999999",
    "é",
    "$'\\x",
    "$[",
    "\u{0}",
];

fn fragment() -> impl Strategy<Value = String> {
    let piece = (prop::sample::select(PIECES), prop::bool::weighted(0.4));
    prop::collection::vec(piece, 0..60).prop_map(|pieces| {
        let spaced = |(piece, space)| if space { [piece, " "] } else { [piece, ""] };
        pieces.into_iter().flat_map(spaced).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_mixture_of_syntax_ends_in_time(script in fragment()) {
        let _verdict = timed(&script, &script);
    }

    #[test]
    fn a_command_after_a_script_that_parses_is_found(script in fragment()) {
        let alone = verdict(&script);
        let followed = verdict(&format!("{script}\nsudo x"));
        if !alone.unparsable && !followed.unparsable && !script.contains("<<") && !script.contains('\\') {
            prop_assert!(followed.blocked.is_some());
        }
    }
}
