//! Rules about dependencies: the privileged part has a short list, pinned here.

use std::process::Command;

use expect_test::expect_file;

use crate::tree::{refuse, root};

/// Names of all crates that the launcher is made of, its own excluded.
fn launcher_tree() -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "-p",
            "agentd-sandbox",
            "-e",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "agentd-sandbox")
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    assert!(names.len() > 3, "an implausibly short tree: {names:?}");
    names
}

#[test]
fn the_launcher_has_no_network_stack_and_no_async_runtime() {
    let banned = [
        "tokio", "tonic", "prost", "hyper", "reqwest", "rustls", "mio",
    ];
    let offenders: Vec<String> = launcher_tree()
        .into_iter()
        .filter(|name| {
            banned
                .iter()
                .any(|word| name == word || name.starts_with(&format!("{word}-")))
        })
        .collect();
    refuse("the launcher stays small", &offenders);
}

#[test]
fn the_launcher_is_made_of_exactly_these_crates() {
    let mut text = launcher_tree().join("\n");
    text.push('\n');
    expect_file!["../../snapshots/launcher-deps.txt"].assert_eq(&text);
}
