//! The files of the repository, as the rules see them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A text file of the repository.
pub(crate) struct Text {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Contents.
    pub(crate) text: String,
}

impl Text {
    /// Whether this is code of the test crate, or a test module beside the code it tests.
    pub(crate) fn is_test(&self) -> bool {
        ["tests/", "/tests/", "/tests.rs", "_tests.rs"]
            .iter()
            .any(|mark| self.path.contains(mark))
    }
}

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("the crate lies in the workspace")
        .to_owned()
}

/// Every text file with one of these extensions; an empty list means every text file at all.
pub(crate) fn files(extensions: &[&str]) -> Vec<Text> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a directory entry").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && !path.is_symlink() {
                if !matches!(name.as_str(), "target" | ".git") {
                    open.push(path);
                }
                continue;
            }
            let extension = path.extension().unwrap_or_default().to_string_lossy();
            if !extensions.is_empty() && !extensions.contains(&extension.as_ref()) {
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let relative = path.strip_prefix(&root).expect("below the root");
            found.push(Text {
                path: relative.to_string_lossy().into_owned(),
                text,
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        !found.is_empty(),
        "no files with {extensions:?} below {}",
        root.display()
    );
    found
}

/// Fails with all offenders at once.
pub(crate) fn refuse(rule: &str, offenders: &[String]) {
    assert!(
        offenders.is_empty(),
        "{rule}:\n  {}",
        offenders.join("\n  ")
    );
}

/// Lines of code with their numbers: line comments and what follows them are cut off.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| {
        let code = line.split_once("//").map_or(line, |(before, _)| before);
        (index + 1, code)
    })
}
