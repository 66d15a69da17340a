//! Reading and writing the files of a control group. The kernel answers at once: none of this waits.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Writes a value in one call, which is what the kernel wants.
pub(super) fn write(group: &Path, file: &str, value: &str) -> io::Result<()> {
    open(group, file)?.write_all(value.as_bytes())
}

/// Opens a file for writing; it must exist, for there is nothing to create in these file systems.
pub(super) fn open(group: &Path, file: &str) -> io::Result<File> {
    OpenOptions::new().write(true).open(group.join(file))
}

/// Reads a number; `None` when the file is not there or says `max`.
pub(super) fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Reads one entry of a file of names and numbers.
pub(super) fn entry(group: &Path, file: &str, name: &str) -> Option<u64> {
    in_table(&fs::read_to_string(group.join(file)).ok()?, name)
}

/// The number beside a name, in a text with one pair per line.
pub(super) fn in_table(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// Whether a list of words holds this one.
pub(super) fn lists(group: &Path, file: &str, word: &str) -> bool {
    fs::read_to_string(group.join(file))
        .is_ok_and(|text| text.split_whitespace().any(|found| found == word))
}

/// The processes in a group, without those of groups below it.
pub(super) fn processes(group: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(group.join("cgroup.procs"))?;
    // 0 is a process outside this pid namespace.
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_is_read_by_whole_names() {
        let text = "oom 3\noom_kill 2\noom_group_kill 0\nbroken\nmax x\nfar 18446744073709551616\n";
        for (name, value) in [
            ("oom", Some(3)),
            ("oom_kill", Some(2)),
            ("oom_", None),
            ("broken", None),
            ("max", None),
            ("far", None),
            ("", None),
        ] {
            assert_eq!(in_table(text, name), value, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_found(value in any::<u64>(), noise in "[a-z]{1,8} [0-9]{1,5}\n") {
            let text = format!("{noise}oom_kill {value}\n{noise}");
            prop_assert_eq!(in_table(&text, "oom_kill"), Some(value));
        }

        #[test]
        fn no_text_makes_the_parser_fail(text in ".{0,200}", name in ".{0,10}") {
            let found = in_table(&text, &name);
            prop_assert!(found.is_none() || text.contains(&name));
        }
    }
}
