//! Rules about boundaries: where `unsafe` may stand, and that the client stays portable.

use crate::tree::{Text, code_lines, files, refuse, root};

const SYS: &str = "agentd/sandbox/src/sys/";
/// An allocator that aborts after a fork can only be written as unsafe code; it is a test.
const ALLOCATOR_TEST: &str = "agentd/sandbox/tests/no_allocation.rs";

fn may_be_unsafe(file: &Text) -> bool {
    file.path.starts_with(SYS) || file.path == ALLOCATOR_TEST
}

/// Any kind of `unsafe` code.
const ALL_KINDS: &[&str] = &["{", "fn", "impl", "extern"];
/// The kinds that claim something and so owe a reason; a function states its contract in its documentation.
const CLAIMS: &[&str] = &["{", "impl"];

/// Places of these kinds of `unsafe` code, not of lint names.
fn unsafe_places(file: &Text, kinds: &[&str]) -> Vec<usize> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    code_lines(&file.text)
        .filter(|(_, code)| {
            code.match_indices("unsafe").any(|(at, word)| {
                let before = code[..at].chars().next_back();
                let after = &code[at + word.len()..];
                let next = after.trim_start();
                !before.is_some_and(is_name)
                    && !after.starts_with(is_name)
                    && kinds.iter().any(|kind| next.starts_with(kind))
            })
        })
        .map(|(line, _)| line)
        .collect()
}

#[test]
fn unsafe_code_stands_only_in_the_sys_directory() {
    let mut inside = 0;
    let mut offenders = Vec::new();
    for file in files(&["rs"]) {
        for line in unsafe_places(&file, ALL_KINDS) {
            if may_be_unsafe(&file) {
                inside += 1;
            } else {
                offenders.push(format!("{}:{line}", file.path));
            }
        }
    }
    refuse(
        "unsafe code belongs into agentd/sandbox/src/sys",
        &offenders,
    );
    assert!(
        inside > 0,
        "the search finds no unsafe code at all, so it is broken"
    );
}

#[test]
fn every_unsafe_block_has_its_safety_comment() {
    let mut offenders = Vec::new();
    for file in files(&["rs"]).iter().filter(|file| may_be_unsafe(file)) {
        let blocks = unsafe_places(file, CLAIMS).len();
        let comments = file.text.matches("// SAFETY: ").count();
        if blocks != comments {
            let path = &file.path;
            offenders.push(format!(
                "{path}: {blocks} unsafe, {comments} SAFETY comments"
            ));
        }
    }
    refuse("one SAFETY comment per unsafe block", &offenders);
}

#[test]
fn every_crate_root_but_the_sandbox_forbids_unsafe_code() {
    let roots = [
        "proto/src/lib.rs",
        "agentd/src/lib.rs",
        "agentd/src/main.rs",
        "agent-cli/src/lib.rs",
        "agent-cli/src/main.rs",
        "tests/src/lib.rs",
        "agentd/sandbox/src/bin/agentd-launcher.rs",
    ];
    let offenders: Vec<String> = roots
        .into_iter()
        .filter(|path| {
            let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
            !text.contains("#![forbid(unsafe_code)]")
        })
        .map(str::to_owned)
        .collect();
    refuse("a crate root carries #![forbid(unsafe_code)]", &offenders);
}

const PORTABLE: [&str; 2] = ["agent-cli/", "proto/"];

#[test]
fn the_client_and_the_protocol_hold_nothing_of_one_system_outside_cfg() {
    let sources = files(&["rs"]);
    let everywhere = [
        "std::os::linux",
        "std::os::fd",
        "nix::",
        "libc::",
        "/proc/self",
    ];
    let behind_cfg = [
        "std::os::unix",
        "tokio::net::Unix",
        "signal::unix",
        "UnixStream",
    ];
    let mut offenders = Vec::new();
    for file in sources.iter().filter(|file| starts_with_any(&file.path)) {
        let guarded = guarded_by_cfg(file, &sources);
        for (line, code) in code_lines(&file.text) {
            let linux = everywhere.iter().any(|word| code.contains(word)) && !guarded;
            let unix = behind_cfg.iter().any(|word| code.contains(word)) && !guarded;
            if linux || unix {
                offenders.push(format!("{}:{line}: {}", file.path, code.trim()));
            }
        }
    }
    refuse("people drive a Linux agentd from other systems", &offenders);
}

fn starts_with_any(path: &str) -> bool {
    PORTABLE.iter().any(|start| path.starts_with(start)) && !path.contains("/tests")
}

/// Whether the file itself or the declaration of its module is conditional on the system.
fn guarded_by_cfg(file: &Text, sources: &[Text]) -> bool {
    let conditional = |text: &str| text.contains("cfg(unix)") || text.contains("cfg(target_os");
    if conditional(&file.text) {
        return true;
    }
    let stem = file
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    let directory = file
        .path
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory);
    let parents = [
        format!("{directory}/mod.rs"),
        format!("{directory}/lib.rs"),
        format!("{directory}.rs"),
    ];
    sources
        .iter()
        .filter(|source| parents.contains(&source.path))
        .any(|source| {
            let mut attributes = String::new();
            source.text.lines().map(str::trim).any(|line| {
                if line.starts_with("#[") {
                    attributes.push_str(line);
                    return false;
                }
                let found = line.ends_with(&format!("mod {stem};")) && conditional(&attributes);
                attributes.clear();
                found
            })
        })
}

#[test]
fn the_client_and_the_protocol_depend_on_no_system_crate_outside_cfg() {
    let mut offenders = Vec::new();
    for name in ["agent-cli/Cargo.toml", "proto/Cargo.toml"] {
        let text = std::fs::read_to_string(root().join(name)).expect("a manifest");
        let manifest: toml::Table = text.parse().expect("TOML");
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for crate_name in [
                "nix",
                "libc",
                "landlock",
                "rustix",
                "agentd",
                "agentd-sandbox",
            ] {
                if table.contains_key(crate_name) {
                    offenders.push(format!("{name}: {crate_name}"));
                }
            }
        }
    }
    refuse("the client and the protocol are portable", &offenders);
}
