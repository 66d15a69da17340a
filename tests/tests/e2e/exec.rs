//! `agent-cli exec`: the JSON object, denials with their cause, exit codes.

use std::collections::BTreeSet;

use agentd_tests::harness::{Mode, World, in_every_mode};
use serde_json::Value;

const FIELDS: &[&str] = &[
    "exec_id",
    "session_id",
    "reason",
    "exit_code",
    "signal",
    "output",
    "stdout",
    "stderr",
    "stdout_bytes",
    "stderr_bytes",
    "truncated",
    "dropped_bytes",
    "duration_ms",
    "leftover_processes",
    "cwd",
    "denials",
    "limits",
    "sandbox",
];
const SANDBOX_FIELDS: &[&str] = &[
    "profile",
    "digest",
    "tier",
    "layers",
    "degraded",
    "landlock_abi",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    let map = value
        .as_object()
        .unwrap_or_else(|| panic!("an object: {value}"));
    map.keys().map(String::as_str).collect()
}

#[track_caller]
fn has_keys(value: &Value, wanted: &[&str]) {
    let keys = keys(value);
    let missing: Vec<_> = wanted.iter().filter(|key| !keys.contains(**key)).collect();
    assert!(missing.is_empty(), "missing {missing:?} in {value}");
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap_or_else(|| panic!("a list: {list}"));
    list.iter().filter_map(Value::as_str).collect()
}

#[test]
fn exec_shows_output_denial_tier_and_layers() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let script = "echo hi; id -u; cat /etc/shadow";
        let ended = world.cli(["exec", "--json", "--", script]).run();
        ended.expect_code(1);
        let answer = ended.json();
        has_keys(&answer, FIELDS);
        has_keys(&answer["sandbox"], SANDBOX_FIELDS);
        assert_eq!(answer["reason"], "exited", "{answer}");
        assert_eq!(answer["exit_code"], 1, "{answer}");
        let lines: Vec<&str> = answer["stdout"].as_str().unwrap().lines().collect();
        assert_eq!(lines[0], "hi");
        assert!(lines[1].parse::<u32>().is_ok(), "{answer}");
        assert_eq!(lines.len(), 2, "the file was printed: {answer}");
        assert_eq!(answer["sandbox"]["tier"], mode.tier(), "{answer}");
        assert_eq!(answer["sandbox"]["profile"], "workspace", "{answer}");
        let denials = answer["denials"].as_array().unwrap();
        let shadow = denials
            .iter()
            .find(|denial| denial["path"] == "/etc/shadow");
        let shadow = shadow.unwrap_or_else(|| panic!("no denial of /etc/shadow: {answer}"));
        has_keys(shadow, &["layer", "access", "path", "rule", "source"]);
        assert_eq!(shadow["access"], "read", "{shadow}");
        assert_ne!(shadow["layer"], "", "{shadow}");
        assert_ne!(shadow["rule"], "", "{shadow}");
        assert!(["inferred", "kernel"].contains(&shadow["source"].as_str().unwrap()));
        has_layers_of(mode, &answer["sandbox"]);
    });
}

/// Control and refusal in one: what a tier has must be listed, and what it has not must be named absent.
fn has_layers_of(mode: Mode, sandbox: &Value) {
    let layers = names(&sandbox["layers"]);
    for layer in [
        "landlock",
        "seccomp",
        "rlimits",
        "no-new-privs",
        "no-capabilities",
    ] {
        assert!(layers.contains(&layer), "{layer} in {layers:?}");
    }
    let namespaces = [
        "pid-namespace",
        "mount-namespace",
        "net-namespace",
        "ipc-namespace",
        "own-root",
    ];
    for layer in namespaces {
        assert_eq!(
            layers.contains(&layer),
            mode != Mode::Nested,
            "{layer} in {layers:?}"
        );
    }
    assert_eq!(
        layers.contains(&"user-namespace"),
        mode == Mode::Rootless,
        "{layers:?}"
    );
    let degraded = sandbox["degraded"].as_array().unwrap();
    for entry in degraded {
        has_keys(entry, &["layer", "guarantee", "reason"]);
    }
    if mode == Mode::Nested {
        let absent: Vec<_> = degraded
            .iter()
            .filter_map(|entry| entry["layer"].as_str())
            .collect();
        for layer in ["pid-namespace", "mount-namespace", "net-namespace"] {
            assert!(
                absent.contains(&layer),
                "{layer} is absent and not said to be: {absent:?}"
            );
        }
    }
}

#[test]
fn the_control_of_the_denial_is_that_other_files_of_etc_can_be_read() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let answer = world.exec_json(&[], "cat /etc/passwd");
        assert_eq!(answer["exit_code"], 0, "{answer}");
        assert!(
            answer["stdout"].as_str().unwrap().contains("root:"),
            "{answer}"
        );
        assert_eq!(answer["denials"].as_array().unwrap().len(), 0, "{answer}");
    });
}

#[test]
fn the_exit_code_is_the_commands_own_or_says_what_ended_it() {
    let table: &[(&str, i32)] = &[
        ("true", 0),
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("no-such-program-here", 127),
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        for (script, code) in table {
            let ended = world.cli(["exec", "--", script]).run();
            assert_eq!(ended.code, *code, "{script}: {ended:?}");
        }
        let missing = world
            .cli(["exec", "--", "no-such-program-here", "argument"])
            .run();
        missing.expect_code(127);
        let several = world
            .cli(["exec", "--", "printf", "%s|", "a b", "$HOME", ""])
            .run();
        several.expect_code(0);
        assert_eq!(several.stdout, "a b|$HOME||", "argv is not a script");
    });
}

#[test]
fn stdin_is_empty_and_streams_stay_apart_byte_for_byte() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let script = "cat; printf 'out\\n'; printf 'err\\n' >&2; printf '\\xff\\x00end'";
        let ended = world
            .cli(["exec", "--", script])
            .stdin(b"not for the command")
            .run();
        ended.expect_code(0);
        assert_eq!(ended.stdout, "out\n\u{fffd}\0end");
        assert!(ended.stderr.contains("err\n"), "{ended:?}");
        let piped = world
            .cli(["exec", "-"])
            .stdin(b"echo \"$0 $#\"; echo from stdin")
            .run();
        piped.expect_code(0);
        assert!(piped.stdout.ends_with("0\nfrom stdin\n"), "{piped:?}");
    });
}

#[test]
fn the_environment_holds_no_secret_of_the_caller() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let names = [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "HARMLESS",
        ];
        let mut program = world.cli(["exec", "--", "env; cat /proc/self/environ"]);
        for name in names {
            program = program.env(name, "sesame-open");
        }
        let ended = program.run();
        ended.expect_code(0);
        assert!(ended.stdout.contains("PATH="), "{ended:?}");
        assert!(!ended.stdout.contains("sesame-open"), "{ended:?}");
    });
}

#[test]
fn normal_work_still_works() {
    let script = r#"set -e
echo '#!/bin/sh' > run.sh; echo 'echo ran' >> run.sh; chmod +x run.sh; ./run.sh
mkdir -p a/b; echo text > a/b/c; grep -r text a; mv a z; rm -r z
x=$(mktemp); echo tmp > "$x"; cat "$x"; rm "$x"
ls /usr/bin >/dev/null; head -c 4 /dev/urandom | wc -c
git --version >/dev/null; git init -q repo; cd repo; git status --short
seq 3 | xargs -P 2 -n 1 echo | sort | tail -1
(sleep 0.1; echo background) & wait
"#;
    in_every_mode(|mode| {
        let world = World::new(mode);
        let answer = world.exec_json(&[], script);
        assert_eq!(answer["exit_code"], 0, "{answer}");
        assert_eq!(
            answer["stdout"], "ran\na/b/c:text\ntmp\n4\n3\nbackground\n",
            "{answer}"
        );
        assert_eq!(answer["leftover_processes"], 0, "{answer}");
    });
}

#[test]
fn files_made_by_a_command_belong_to_the_caller() {
    use std::os::unix::fs::MetadataExt;
    in_every_mode(|mode| {
        let world = World::new(mode);
        let answer = world.exec_json(&[], "echo made > made; mkdir d; echo deep > d/deep");
        assert_eq!(answer["exit_code"], 0, "{answer}");
        for name in ["made", "d", "d/deep"] {
            let meta = std::fs::metadata(world.workspace.join(name)).expect("made outside too");
            assert_eq!(meta.uid(), mode.uid(), "{name}");
        }
    });
}

/// The limit of one file is not the limit of the disks, and its value is told.
#[test]
fn a_file_that_grows_past_its_limit_is_told_as_such() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        for script in [
            "exec truncate -s 5G large",
            "exec head -c 1 /dev/zero >x; exit",
        ] {
            let ended = world.exec(&[], script).run();
            if script.contains("head") {
                // The control: nothing of the kind is said of a file that is small enough.
                ended.expect_code(0);
                assert_eq!(ended.stderr, "");
                continue;
            }
            ended.expect_code(153);
            let first = ended.stderr.lines().next().unwrap_or_default();
            assert!(
                first.contains("a file grew past the file-size limit of 4294967296 bytes"),
                "{ended:?}"
            );
            assert!(!ended.stderr.contains("disk"), "{ended:?}");
            let json = world.exec_json(&[], script);
            assert_eq!(json["reason"], "disk-limit", "{json}");
            assert_eq!(json["limits_hit"][0]["limit"], "file-size", "{json}");
            let evidence = json["limits_hit"][0]["evidence"].to_string();
            assert!(evidence.contains("4294967296"), "{evidence}");
        }
    });
}
