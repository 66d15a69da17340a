//! Rules about every source file: size, first line, leftovers, machine paths, TOML that parses.

use crate::tree::{files, refuse};

const MAX_LINES: usize = 400;

#[test]
fn no_source_file_is_longer_than_400_lines() {
    let offenders: Vec<String> = files(&["rs"])
        .into_iter()
        .filter(|file| !file.is_test() && file.text.lines().count() > MAX_LINES)
        .map(|file| format!("{} has {} lines", file.path, file.text.lines().count()))
        .collect();
    refuse("a file has one job and at most 400 lines", &offenders);
}

#[test]
fn every_source_file_says_first_what_it_is() {
    let offenders: Vec<String> = files(&["rs"])
        .into_iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path)
        .collect();
    refuse("a source file opens with //!", &offenders);
}

#[test]
fn nothing_is_left_for_later_in_silence() {
    // Put together here, so that this file does not find itself.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("unimplemented", "!("),
        concat!("todo", "!("),
        concat!("#[ig", "nore"),
    ];
    let mut offenders = Vec::new();
    for file in files(&["rs", "toml", "proto", "sh"]) {
        for (index, line) in file.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                offenders.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    refuse(
        "finish it, or open an issue and leave no mark in the code",
        &offenders,
    );
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("index.", "crates.io"),
        concat!("static.", "crates.io"),
        concat!("github.com/", "rust-lang/crates.io-index\" replace"),
    ];
    // Text that speaks about root's home on purpose: profiles, documents, and tests.
    let about_root = ["sandbox-profiles/", "docs/", "SECURITY.md"];
    let mut offenders = Vec::new();
    for file in files(&[]) {
        let may_name_root =
            file.is_test() || about_root.iter().any(|start| file.path.starts_with(start));
        for (index, line) in file.text.lines().enumerate() {
            let hit = words
                .iter()
                .any(|word| line.contains(word) && !(may_name_root && *word == words[1]));
            if hit {
                offenders.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    refuse("no paths or mirrors of one machine", &offenders);
}

#[test]
fn every_toml_file_parses() {
    let mut offenders = Vec::new();
    for file in files(&["toml"]) {
        if let Err(error) = file.text.parse::<toml::Table>() {
            offenders.push(format!("{}: {error}", file.path));
        }
    }
    refuse("TOML must parse", &offenders);
}

#[test]
fn the_lock_file_names_only_the_public_registry() {
    let lock = files(&["lock"]);
    let offenders: Vec<String> = lock
        .iter()
        .flat_map(|file| file.text.lines())
        .filter(|line| line.starts_with("source = "))
        .filter(|line| !line.ends_with("rust-lang/crates.io-index\""))
        .map(str::to_owned)
        .collect();
    refuse("dependencies come from the public registry", &offenders);
}
