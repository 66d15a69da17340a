//! Rules about documents: the README's commands are those that CI runs.

use std::fs;

use crate::tree::root;

/// Fenced shell blocks of a Markdown text, in order, without prompts and comments.
fn shell_blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in markdown.lines() {
        match (&mut open, line.trim_start()) {
            (None, fence) if fence.starts_with("```sh") || fence.starts_with("```bash") => {
                open = Some(String::new());
            }
            (Some(block), "```") => {
                blocks.push(std::mem::take(block).trim().to_owned());
                open = None;
            }
            (Some(block), line) if !line.starts_with('#') => {
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let ci = fs::read_to_string(root().join(".ci/run")).expect(".ci/run");
    let blocks = shell_blocks(&readme);
    let command = blocks
        .get(1)
        .expect("the second shell block of the README is the tests");
    assert!(
        command.contains("cargo test"),
        "the second command is {command:?}"
    );
    // CI does not repeat the command: it reads it from the README, so they cannot drift apart.
    assert!(
        ci.contains("readme_command 2"),
        ".ci/run must call the README's second command"
    );
    assert!(
        ci.contains("readme_command 1"),
        ".ci/run must call the README's first command"
    );
}

#[test]
fn ci_is_an_executable_strict_shell_script() {
    use std::os::unix::fs::PermissionsExt;
    let path = root().join(".ci/run");
    let mode = fs::metadata(&path).expect(".ci/run").permissions().mode();
    assert_eq!(mode & 0o111, 0o111, ".ci/run has mode {mode:o}");
    let text = fs::read_to_string(&path).expect(".ci/run");
    assert!(text.starts_with("#!/usr/bin/env bash\n"), "a bash script");
    assert!(text.contains("\nset -euo pipefail\n"), "strict mode");
}
