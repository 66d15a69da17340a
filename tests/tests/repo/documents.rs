//! Rules about documents: the README's commands are those that CI runs.

use std::fs;

use crate::tree::{files, refuse, root};

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

/// Names of tests in a document: code spans with two colons in them.
fn tests_named_in(markdown: &str) -> Vec<String> {
    let spans = markdown.split('`').skip(1).step_by(2);
    let names = spans.filter(|span| span.contains("::") && !span.contains([' ', '/', '\n']));
    names.map(str::to_owned).collect()
}

#[test]
fn every_test_that_the_table_of_cases_names_exists() {
    let table = fs::read_to_string(root().join("docs/cases.md")).expect("docs/cases.md");
    let names = tests_named_in(&table);
    assert!(names.len() > 100, "only {} names in the table", names.len());
    let sources = files(&["rs"]);
    let offenders: Vec<String> = names
        .into_iter()
        .filter(|name| {
            let mut parts = name.rsplit("::");
            let function = format!("fn {}(", parts.next().unwrap_or_default());
            // The modules before it are parts of the path of its file.
            let modules: Vec<&str> = parts.filter(|part| *part != "main").collect();
            !sources.iter().any(|source| {
                let parts: Vec<&str> = source.path.split(['/', '.']).collect();
                source.text.contains(&function)
                    && modules.iter().all(|module| parts.contains(module))
            })
        })
        .collect();
    refuse("docs/cases.md names tests that exist", &offenders);
}
