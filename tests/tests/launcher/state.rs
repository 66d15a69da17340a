//! The report of a script's directory and exported variables.

use agentd_sandbox::{
    monitor::SignalScope,
    policy::{Invocation, Program},
};
use agentd_tests::harness::in_every_mode;

use crate::drive::{Launcher, Outcome, exited};

fn reporting(launcher: &mut Launcher) -> Invocation {
    let mut session = launcher.session();
    session.report_state = true;
    let mut invocation = launcher.invocation(Program::Script);
    invocation.in_session = Some(Box::new(session));
    invocation
}

fn run(launcher: &mut Launcher, script: &str) -> Outcome {
    let invocation = reporting(launcher);
    launcher.run(invocation, script)
}

/// On the nested tier the script's path, which bash prints, holds the number of the execution.
fn without_number(text: &str) -> String {
    let mut parts = text.split("/tmp/agentd-");
    let first = parts.next().unwrap_or_default().to_owned();
    let digits = |c: char| c.is_ascii_digit();
    let rest = |part: &str| {
        let own = part.trim_start_matches(|c: char| digits(c) || c == '-');
        // The directory of a session holds the scripts of several commands.
        let of_session = own
            .strip_prefix('s')
            .map(|part| part.trim_start_matches(digits));
        let of_session = of_session.and_then(|part| part.strip_prefix("/scripts/"));
        match of_session {
            Some(part) => "/script".to_owned() + part.trim_start_matches(digits),
            None => own.to_owned(),
        }
    };
    parts.fold(first, |all, part| all + "/tmp/private" + &rest(part))
}

/// Directory and declarations of a complete report.
fn parsed(outcome: &Outcome) -> (String, Vec<String>) {
    let text = String::from_utf8(outcome.state.clone()).expect("UTF-8");
    let parts: Vec<&str> = text.split('\0').collect();
    let [directory, declarations, ""] = parts.as_slice() else {
        panic!("no whole report: {outcome:?}");
    };
    let lines = declarations.lines().map(str::to_owned).collect();
    (directory.trim_end_matches('\n').to_owned(), lines)
}

#[test]
fn directory_and_exports_are_reported_whatever_the_script_does_to_its_shell() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let workspace = launcher.world.workspace.display().to_string();
        let before =
            "cd /usr; export A='x y' B=$'two\\nlines'; export -n LANG; unset PAGER; C=not\n";
        for (script, status) in [
            ("true", 0),
            ("exit 7", 7),
            ("set -eu; false; exit 0", 1),
            ("set -eu; echo $nothing", 1),
            ("set -f; IFS=ax; set -o pipefail; exit 3", 3),
            (
                "builtin() { exit 9; }; unset -f builtin; pwd() { echo no; }; declare() { echo no; }; exit 4",
                4,
            ),
            (
                "echo() { :; }; set() { builtin echo no; }; trap() { builtin echo no; }; printf() { :; }",
                0,
            ),
            ("f() { exit 5; }; f", 5),
            (
                "(exit 3); (cd /; export A=no); bash -c 'cd /; export A=no'; exit 6",
                6,
            ),
            ("shopt -s expand_aliases\nalias builtin=false\nexit 8", 8),
            ("trap 'true' DEBUG; trap 'true' ERR; false", 1),
            ("set -o posix", 0),
            ("set -o noclobber -o nounset; exec >/dev/null 2>&1", 0),
            ("exec 0<&- 1>&- 2>&-", 0),
            ("kill -TERM $$", 143),
        ] {
            let outcome = run(&mut launcher, &format!("{before}{script}"));
            let (directory, lines) = parsed(&outcome);
            if status < 128 {
                assert_eq!(outcome.status, exited(status), "{script}: {outcome:?}");
            }
            assert_eq!(directory, "/usr", "{script}");
            for line in ["declare -x A=\"x y\"", "declare -x B=$'two\\nlines'"] {
                assert!(
                    lines.iter().any(|have| have == line),
                    "{script}: {lines:#?}"
                );
            }
            for name in ["LANG", "PAGER", "C", "BASH_ENV"] {
                let start = format!("declare -x {name}");
                let hit = lines.iter().find(|line| {
                    line.strip_prefix(&start)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                });
                assert_eq!(hit, None, "{script}");
            }
        }
        let outcome = run(&mut launcher, "true");
        assert_eq!(parsed(&outcome).0, workspace);
    });
}

#[test]
fn a_script_that_reports_prints_and_ends_like_one_that_does_not() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for script in [
            "echo $0 $? $LINENO ${BASH_SOURCE[@]} $BASH_SUBSHELL $# $SHLVL ${BASH_ENV-none}; echo \"$_\"",
            "set -x; echo hi; false",
            "exec 7>&1; BASH_XTRACEFD=7; set -x; echo hi",
            "set -eux; : ${nothing}",
            "trap 'echo debug' DEBUG; trap 'echo error' ERR; set -ET; f() { false; }; f; true",
            "nosuchcommand; echo $?",
            "echo \"unterminated",
            "((1/0)); echo after; exit 11",
            "bash -c 'echo ${BASH_ENV-none}; trap -p'; (trap - EXIT; true); declare -F",
            "if",
            "trap 'echo mine' EXIT; exit 2",
            "exec echo replaced",
            "kill -KILL $$",
            "printf 'no newline'",
        ] {
            let plain = launcher.script(script);
            let reporting = run(&mut launcher, script);
            let of = |outcome: &Outcome| (without_number(&outcome.stdout), outcome.status);
            assert_eq!(of(&reporting), of(&plain), "{script}");
            let of = |outcome: &Outcome| without_number(&outcome.stderr);
            assert_eq!(of(&reporting), of(&plain), "{script}");
        }
    });
}

#[test]
fn verbose_shells_show_one_more_line_at_most() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let outcome = run(&mut launcher, "set -v\necho hi");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(lines.len() <= 2 && lines[0] == "echo hi", "{lines:?}");
        parsed(&outcome);
    });
}

#[test]
fn a_directory_that_is_gone_is_reported_as_none() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let outcome = run(
            &mut launcher,
            "mkdir gone; cd gone; rmdir ../gone; export LEFT=1",
        );
        let (directory, lines) = parsed(&outcome);
        assert_eq!((directory.as_str(), outcome.stderr.as_str()), ("", ""));
        assert!(lines.iter().any(|line| line == "declare -x LEFT=\"1\""));
        let outcome = run(&mut launcher, "mkdir $'a\\nb '; cd $'a\\nb '");
        let name = format!("{}/a\nb \n", launcher.world.workspace.display());
        assert!(outcome.state.starts_with(name.as_bytes()), "{outcome:?}");
    });
}

#[test]
fn scripts_that_cannot_report_are_told_from_those_that_do() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for script in [
            "trap 'true' EXIT",
            "exec true",
            "kill -KILL $$",
            "exec 254>&-",
        ] {
            let outcome = run(&mut launcher, script);
            assert_eq!(outcome.state, b"", "{script}");
            assert_eq!(outcome.stderr, "", "{script}");
        }
        // A child writes what it likes; the report is still read to its end.
        let outcome = run(&mut launcher, "echo junk >&254");
        assert!(outcome.state.starts_with(b"junk\n/"), "{outcome:?}");
        let mut invocation = reporting(&mut launcher);
        invocation
            .env_set
            .insert("POSIXLY_CORRECT".into(), "1".into());
        let outcome = launcher.run(invocation, "echo ${BASH_ENV-none}; bash -c true");
        assert_eq!(
            (outcome.stdout.as_str(), outcome.state.as_slice()),
            ("none\n", &b""[..])
        );
        let mut invocation = reporting(&mut launcher);
        invocation.program = Program::Argv(vec![b"ls".to_vec(), b"/proc/self/fd".to_vec()]);
        let outcome = launcher.run(invocation, "");
        assert_eq!(
            (outcome.stdout.as_str(), outcome.state.as_slice()),
            ("0\n1\n2\n3\n", &b""[..])
        );
    });
}

#[test]
fn reports_survive_small_limits_many_variables_and_a_terminal() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let mut invocation = reporting(&mut launcher);
        invocation.limits.open_files = Some(20);
        let outcome = launcher.run(invocation, "ulimit -n; cd /usr");
        assert_eq!(
            (outcome.stdout.as_str(), parsed(&outcome).0.as_str()),
            ("20\n", "/usr")
        );

        let script = "for n in {1..3000}; do export V$n=$(printf %0100d 0); done 2>/dev/null";
        let script = script.replace("$(printf %0100d 0)", &"0".repeat(100));
        let outcome = run(&mut launcher, &script);
        assert!(outcome.state.len() > 300_000, "{}", outcome.state.len());
        parsed(&outcome);

        let mut invocation = reporting(&mut launcher);
        invocation.terminal = Some(crate::drive::terminal(80, 24));
        let outcome = launcher.run(invocation, "cd /usr; echo on a terminal");
        assert_eq!(outcome.stdout, "on a terminal\r\n");
        let (directory, lines) = parsed(&outcome);
        assert_eq!(directory, "/usr");
        assert!(
            lines
                .iter()
                .any(|line| line == "declare -x TERM=\"xterm-256color\"")
        );
    });
}

#[test]
fn a_leftover_that_holds_the_descriptor_does_not_keep_the_report_back() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let invocation = reporting(&mut launcher);
        let mut waiting = launcher.ask(invocation, "sleep 100 & cd /usr");
        let started = waiting.started();
        waiting.state.as_ref().expect("a pipe").shows_twice('\0');
        waiting.signal(9, SignalScope::Tree);
        let outcome = waiting.end(started);
        assert_eq!(parsed(&outcome).0, "/usr");
    });
}
