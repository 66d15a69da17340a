//! Tests of the subcommands, on surroundings that are made up.

use std::path::{Path, PathBuf};

use agentd_sandbox::{
    policy::{Caller, CgroupFacts, HostFacts, Tier},
    profile::Catalogue,
};
use clap::Parser;

use super::{
    Answer, ProfileCommand,
    host::{ProfileCliError, Surroundings},
    report,
};
use crate::exit::Exit;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: ProfileCommand,
}

/// A directory that this process owns and that can be a workspace.
struct Workspace(PathBuf);

impl Workspace {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("agentd-cli-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn surroundings(tier: Tier) -> Surroundings {
    let uid = nix::unistd::Uid::current().as_raw();
    let gid = nix::unistd::Gid::current().as_raw();
    Surroundings {
        catalogue: Catalogue::load(&[]).unwrap(),
        facts: HostFacts {
            tier,
            landlock_abi: 7,
            tier_reason: "permit user namespaces".to_owned(),
            cgroup: CgroupFacts::none("delegate a control group"),
            launcher_uid: uid,
            launcher_gid: gid,
            environment: std::collections::BTreeMap::new(),
            idmap: false,
            ephemeral_uid: 0x7000_0000,
            workspace_uid: uid,
            workspace_gid: gid,
            home: PathBuf::from("/home/dev"),
            nested_tmp: PathBuf::from("/tmp/agentd-private"),
            session: None,
            state_dirs: Vec::new(),
        },
        caller: Caller { uid, gid },
    }
}

fn ask(tier: Tier, words: &[&str]) -> Result<Answer, ProfileCliError> {
    let surroundings = surroundings(tier);
    let words = std::iter::once("profile").chain(words.iter().copied());
    match Line::try_parse_from(words).unwrap().command {
        ProfileCommand::List(args) => Ok(report::list(&surroundings, &args)),
        ProfileCommand::Show(args) => report::show(&surroundings, &args),
        ProfileCommand::Explain(args) => report::explain(&surroundings, &args),
    }
}

fn explain(tier: Tier, workspace: &Path, words: &[&str]) -> Answer {
    let workspace = workspace.to_str().unwrap();
    let head = ["explain", "workspace", "--workspace", workspace];
    ask(tier, &[&head, words].concat()).unwrap()
}

#[test]
fn explain_exits_by_its_answer_and_names_rule_and_layer() {
    let workspace = Workspace::new("explain");
    for (words, exit, parts) in [
        (
            &["--path", "/etc/shadow", "--access", "read"][..],
            Exit::Failed,
            &["denied", "default", "landlock"][..],
        ),
        (
            &["--path", "/etc/passwd"],
            Exit::Ok,
            &["allowed", "base.toml:", "own-root"],
        ),
        (
            &["--path", "src/main.rs", "--access", "create"],
            Exit::Ok,
            &["allowed", "workspace.toml:"],
        ),
        (
            &["--path", ".git/hooks/x", "--access", "create"],
            Exit::Failed,
            &["denied", "own-root", "tripwire"],
        ),
        (
            &["--host", "example.org:443"],
            Exit::Failed,
            &["denied", "net-namespace"],
        ),
        (
            &["--host", "[::1]:80"],
            Exit::Ok,
            &["allowed", "net-namespace"],
        ),
        (
            &["--syscall", "mount"],
            Exit::Failed,
            &["denied", "seccomp"],
        ),
        (&["--syscall", "read"], Exit::Ok, &["allowed"]),
    ] {
        let answer = explain(Tier::Rootless, &workspace.0, words);
        assert_eq!(answer.exit, exit, "{words:?}: {}", answer.text);
        for part in parts {
            assert!(
                answer.text.contains(part),
                "{words:?}: {} without {part}",
                answer.text
            );
        }
    }
}

#[test]
fn explain_answers_as_json_too() {
    let workspace = Workspace::new("json");
    let answer = explain(
        Tier::Nested,
        &workspace.0,
        &["--path", "/etc/shadow", "--json"],
    );
    let value: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(value["allowed"], false);
    assert_eq!(value["rule"], "default");
    assert_eq!(value["layers"][0], "landlock");
    assert_eq!(value["tier"], "T1");
    assert_eq!(answer.text.lines().count(), 1);
}

#[test]
fn a_wrong_question_is_a_usage_error() {
    for words in [
        &["explain", "nope", "--path", "/etc"][..],
        &["explain", "base", "--path", "/etc"],
        &["explain", "workspace", "--host", "example.org"],
        &["explain", "workspace", "--host", "example.org:0"],
        &["explain", "workspace", "--host", "::1:80"],
        &["explain", "workspace", "--host", ":80"],
        &[
            "explain",
            "workspace",
            "--path",
            "/x",
            "--workspace",
            "/nonexistent",
        ],
        &[
            "explain",
            "workspace",
            "--path",
            "/x",
            "--workspace",
            "/etc",
        ],
        &[
            "explain",
            "workspace",
            "--path",
            "/x",
            "--workspace",
            "/etc/passwd",
        ],
        &["show", "nope"],
        &["show", "base", "--resolved"],
    ] {
        let error = ask(Tier::Rootless, words).expect_err(&format!("{words:?}"));
        assert_eq!(error.exit(), Exit::Usage, "{words:?}: {error}");
    }
}

#[test]
fn the_command_line_asks_for_exactly_one_question() {
    for words in [
        &["profile", "explain", "workspace"][..],
        &[
            "profile",
            "explain",
            "workspace",
            "--path",
            "/a",
            "--host",
            "b:1",
        ],
        &[
            "profile",
            "explain",
            "workspace",
            "--access",
            "read",
            "--syscall",
            "read",
        ],
        &[
            "profile",
            "explain",
            "workspace",
            "--path",
            "/a",
            "--access",
            "chmod",
        ],
        &["profile", "explain", "--path", "/a"],
        &["profile", "show"],
        &["profile", "show", "workspace", "--workspace", "/a"],
        &["profile", "digest"],
    ] {
        assert!(Line::try_parse_from(words).is_err(), "{words:?}");
    }
}

#[test]
fn a_profile_that_the_host_cannot_enforce_is_a_configuration_error() {
    let workspace = Workspace::new("tier");
    let path = workspace.0.to_str().unwrap();
    let words = ["explain", "strict", "--workspace", path, "--path", "/etc"];
    let error = ask(Tier::Nested, &words).unwrap_err();
    assert_eq!(error.exit(), Exit::Config);
    assert!(
        error.to_string().contains("permit user namespaces"),
        "{error}"
    );
    ask(Tier::Rootless, &words).unwrap();
}

#[test]
fn list_says_what_is_available_and_why_not() {
    let text = ask(Tier::Nested, &["list"]).unwrap().text;
    for part in [
        "workspace",
        "read-only",
        "strict",
        "only a parent",
        "NOT available",
        "T2",
    ] {
        assert!(text.contains(part), "{text}\nwithout {part}");
    }
    let json = ask(Tier::Nested, &["list", "--json"]).unwrap().text;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let available: Vec<(&str, bool)> = rows
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap(),
                row["available"].as_bool().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("base", false),
        ("read-only", true),
        ("strict", false),
        ("workspace", true),
    ];
    assert_eq!(available, expected);
}

#[test]
fn show_prints_places_and_with_a_workspace_the_policy() {
    let text = ask(Tier::Rootless, &["show", "base"]).unwrap().text;
    for part in [
        "${workspace}/.git/hooks",
        "[base.toml:",
        "limits.wall = 120000 ms",
        "programs sudo",
    ] {
        assert!(text.contains(part), "{text}\nwithout {part}");
    }
    let json = ask(Tier::Rootless, &["show", "workspace", "--json"])
        .unwrap()
        .text;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["name"], "workspace");
    assert!(
        value["places"]["fs"]["${workspace}"]
            .as_str()
            .unwrap()
            .starts_with("workspace.toml:")
    );
    let workspace = Workspace::new("show");
    let path = workspace.0.to_str().unwrap();
    let words = ["show", "workspace", "--resolved", "--workspace", path];
    let text = ask(Tier::Rootless, &words).unwrap().text;
    assert!(text.contains(&format!("workspace  {path}")) && text.contains("own-root, landlock"));
    let json = ask(Tier::Rootless, &[&words[..], &["--json"]].concat())
        .unwrap()
        .text;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["tier"], "rootless");
}

#[test]
fn the_shipped_blacklist_blocks_what_it_means_and_nothing_else() {
    let catalogue = Catalogue::load(&[]).unwrap();
    let rules = &catalogue.get("workspace").unwrap().commands;
    let blocked = |script: &str| crate::commands::check(rules, script.as_bytes()).blocked;
    for script in [
        "sudo true",
        "su -c id",
        "rm -fr /",
        "rm -r -f /*",
        "rm --recursive ~",
        "rm -rf \"$HOME\"",
        "rm -rf /usr/..",
        "rm -rf /etc/*",
        "rm -rf /home",
        "env reboot",
        "/sbin/reboot",
        "init 6",
        "systemctl --no-wall poweroff",
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda bs=1M",
        "echo x > /dev/sda",
        "echo x 2>/dev/sda",
        ":(){ :|:& };:",
        "bash -c 'sudo x'",
        "echo $(doas x)",
    ] {
        let found = blocked(script).unwrap_or_else(|| panic!("{script} was let through"));
        assert!(
            found.rule.starts_with("base.toml:"),
            "{script}: {}",
            found.rule
        );
        assert!(found.reason.len() > 20, "{script}: {}", found.reason);
    }
    for script in [
        "ls 2>/dev/null",
        "rm -rf /tmp/x",
        "rm -rf target /usr/local/share/mine ~/x",
        "rm /etc",
        "grep reboot log",
        "echo sudo",
        "git commit -m 'remove sudo'",
        "systemctl status ssh",
        "init-project 6",
        "dd if=/dev/zero of=/dev/null count=1",
        "dd if=/dev/zero of=out bs=1M count=1",
        "echo x >/dev/stderr; echo y >/dev/tty; echo z >/dev/shm/z; echo >/dev/fd/3",
        "exec 3<>/dev/tcp/localhost/80",
        "head -c1 </dev/urandom",
        "man shutdown",
        "python3 -c 'print(\"rm -rf /\")'",
    ] {
        assert_eq!(blocked(script), None, "{script}");
    }
}
