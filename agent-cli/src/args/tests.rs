//! Tables of command lines.

use std::{ffi::OsString, time::Duration};

use super::{Cli, Command, PermissionMode, parse};
use crate::provider::ProviderChoice;

fn arguments(line: &[&str]) -> Vec<OsString> {
    std::iter::once("agent-cli")
        .chain(line.iter().copied())
        .map(OsString::from)
        .collect()
}

fn accepted(line: &[&str]) -> Cli {
    match parse(&arguments(line)) {
        Ok(cli) => cli,
        Err(usage) => panic!("{line:?}: {}", usage.text()),
    }
}

#[test]
fn wrong_command_lines_name_the_remedy_and_their_exit_code() {
    let table: &[(&[&str], u8, &str)] = &[
        (&["--bogus"], 2, "--bogus"),
        (&["run"], 2, "PROMPT"),
        (&["run", ""], 2, "PROMPT"),
        (&["run", "x", "--max-turns", "0"], 2, "--max-turns"),
        (&["run", "x", "--output-format", "xml"], 2, "stream-json"),
        (&["--permissions", "maybe"], 2, "allow"),
        (&["--provider", "openai-responses"], 2, "scripted:FILE"),
        (&["hello", "exec", "--", "ls"], 2, "quote"),
        (&["exec"], 125, "SCRIPT"),
        (&["exec", "echo hi"], 125, "agent-cli exec -- 'echo hi'"),
        (&["exec", "--timeout", "soon", "--", "ls"], 125, "10m"),
        (&["exec", "--timeout", "0s", "--", "ls"], 125, "zero"),
        (&["exec", "--env", "=1", "--", "ls"], 125, "NAME=VALUE"),
        (&["exec", "--file", "a.sh", "--", "ls"], 125, "--file"),
        (&["exec", "-", "--", "ls"], 125, "cannot be used with"),
        (&["--profile", "strict", "exec", "--bogus"], 125, "--bogus"),
        (&["exce"], 2, "'exec'"),
        (&["rnu"], 2, "'run'"),
        (&["Stauts"], 2, "'status'"),
        (&["log"], 2, "'logs'"),
        (&["exec", "--background", "--", "ls"], 125, "--session"),
        (&["exec", "--session", "a b", "--", "ls"], 125, "dashes"),
        (&["exec", "--pty", "--json", "--", "ls"], 125, "--json"),
        (&["exec", "--stdin", "-"], 125, "--stdin"),
        (
            &[
                "exec",
                "--session",
                "s",
                "--background",
                "--stdin",
                "--",
                "cat",
            ],
            125,
            "--stdin",
        ),
        (&["kill", "--signal", "ALRM", "e"], 125, "USR1"),
        (&["kill"], 125, "EXEC_ID"),
        (&["wait"], 125, "EXEC_ID"),
        (&["logs"], 2, "EXEC_ID"),
        (&["logs", "../x"], 2, "dashes"),
        (&["--help"], 0, "agent-cli demo"),
        (&["kill", "--help"], 0, "--signal HUP"),
        (&["exec", "--help"], 0, "124 timeout"),
    ];
    for (line, code, text) in table {
        match parse(&arguments(line)) {
            Ok(cli) => panic!("{line:?} was accepted: {cli:?}"),
            Err(usage) => {
                assert_eq!(usage.code, *code, "{line:?}: {}", usage.text());
                assert!(usage.text().contains(text), "{line:?}: {}", usage.text());
                let one_line = !usage.text().trim_end().contains('\n');
                assert_eq!(one_line, *code != 0, "{line:?}: {}", usage.text());
            }
        }
    }
}

#[test]
fn time_limits_take_a_unit_and_default_to_seconds() {
    for (text, millis) in [
        ("500ms", 500),
        ("2", 2_000),
        ("2s", 2_000),
        ("3m", 180_000),
        ("1h", 3_600_000),
    ] {
        let cli = accepted(&["exec", "--timeout", text, "--", "ls"]);
        let Some(Command::Exec(args)) = cli.command else {
            panic!("not exec");
        };
        assert_eq!(
            args.timeout.map(|t| t.0),
            Some(Duration::from_millis(millis))
        );
    }
}

#[test]
fn everything_after_the_dashes_belongs_to_the_command() {
    let cli = accepted(&[
        "exec", "--json", "--env", "A=b=c", "--", "ls", "--json", "-",
    ]);
    let Some(Command::Exec(args)) = cli.command else {
        panic!("not exec");
    };
    assert!(args.json);
    assert_eq!(args.command, ["ls", "--json", "-"]);
    assert_eq!(args.env[0].name, "A");
    assert_eq!(args.env[0].value, "b=c");
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    for line in [
        &["--profile", "strict", "status"][..],
        &["status", "--profile", "strict"],
    ] {
        assert_eq!(accepted(line).global.profile.as_deref(), Some("strict"));
    }
}

#[test]
fn a_bare_prompt_opens_an_interactive_session() {
    let cli = accepted(&["list the files"]);
    assert_eq!(cli.prompt.as_deref(), Some("list the files"));
    assert!(cli.command.is_none());
    assert_eq!(cli.global.permissions, PermissionMode::Allow);
    assert_eq!(cli.global.provider, ProviderChoice::Anthropic);
}

#[test]
fn words_that_resemble_no_command_are_prompts() {
    for word in [
        "ls",
        "exit",
        "what",
        "list",
        "hello",
        "fix",
        "exec it",
        "",
        "running late",
    ] {
        assert_eq!(accepted(&[word]).prompt.as_deref(), Some(word));
    }
}

#[test]
fn signals_have_names_and_numbers() {
    for (text, number) in [
        ("HUP", 1),
        ("sigint", 2),
        ("9", 9),
        ("SIGUSR2", 12),
        ("term", 15),
    ] {
        let cli = accepted(&["kill", "--signal", text, "e-1"]);
        let Some(Command::Kill(args)) = cli.command else {
            panic!("not kill");
        };
        assert_eq!(args.signal.map(|signal| signal.0), Some(number), "{text}");
    }
}

#[test]
fn a_script_may_come_from_standard_input() {
    let cli = accepted(&["exec", "-"]);
    let Some(Command::Exec(args)) = cli.command else {
        panic!("not exec");
    };
    assert!(args.stdin.is_some());
}

#[test]
fn the_parser_is_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}
