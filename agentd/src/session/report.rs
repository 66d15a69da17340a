//! What a command's shell reports at its end: its directory and what it exported. Pure.
//!
//! The form is that of `Invocation::in_session.report_state`: the output of `pwd -P` (nothing when the
//! directory is gone), a NUL, the output of `declare -px`, a NUL. The last NUL proves that it is whole.

use std::collections::BTreeMap;

use super::declare;

/// Where a shell was at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In this directory.
    At(String),
    /// In one that no longer exists.
    Gone,
    /// In one whose name is not UTF-8.
    Unspeakable,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    /// Directory.
    pub(super) place: Place,
    /// Exported variables with a value.
    pub(super) exported: BTreeMap<String, String>,
    /// Names of exported variables whose value is not UTF-8.
    pub(super) unspeakable: Vec<String>,
}

/// `None` when the report is not whole, or not one.
pub(super) fn parse(bytes: &[u8]) -> Option<Report> {
    let body = bytes.strip_suffix(b"\0")?;
    let nul = body.iter().position(|byte| *byte == 0)?;
    let (directory, rest) = body.split_at_checked(nul)?;
    let declared = rest.get(1..)?;
    if declared.contains(&0) {
        return None;
    }
    let mut report = Report {
        place: place(directory)?,
        exported: BTreeMap::new(),
        unspeakable: Vec::new(),
    };
    for variable in declare::parse(declared)? {
        let Some(value) = variable.value else {
            continue;
        };
        // Bash's names are ASCII.
        let name = String::from_utf8(variable.name).ok()?;
        match String::from_utf8(value) {
            Ok(value) => {
                report.exported.insert(name, value);
            }
            Err(_) => report.unspeakable.push(name),
        }
    }
    Some(report)
}

fn place(directory: &[u8]) -> Option<Place> {
    // One newline is `pwd`'s; any other belongs to the name.
    let directory = directory.strip_suffix(b"\n").unwrap_or(directory);
    if directory.is_empty() {
        return Some(Place::Gone);
    }
    if !directory.starts_with(b"/") {
        return None;
    }
    Some(match std::str::from_utf8(directory) {
        Ok(path) => Place::At(path.to_owned()),
        Err(_) => Place::Unspeakable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_report_gives_directory_and_variables() {
        let report =
            parse(b"/w/sub\n\0declare -x A=\"1\"\ndeclare -x B\ndeclare -x C=$'\\377'\n\0");
        let report = report.unwrap();
        assert_eq!(report.place, Place::At("/w/sub".to_owned()));
        let exported = [("A".to_owned(), "1".to_owned())];
        assert_eq!(report.exported, exported.into());
        assert_eq!(report.unspeakable, ["C"]);
    }

    #[test]
    fn a_directory_may_be_gone_or_have_an_odd_name() {
        let table: [(&[u8], Place); 5] = [
            (b"\0\0", Place::Gone),
            (b"\n\0\0", Place::Gone),
            (b"/a b\0\0", Place::At("/a b".to_owned())),
            (b"/a\nb\n\0\0", Place::At("/a\nb".to_owned())),
            (b"/\xff\n\0\0", Place::Unspeakable),
        ];
        for (bytes, place) in table {
            assert_eq!(parse(bytes).unwrap().place, place, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_whole_is_nothing() {
        let whole = b"/w\n\0declare -x A=\"1\"\n\0";
        assert!(parse(whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        for bytes in [b"w\0\0".as_slice(), b"/w\0x\0", b"/w\0\0\0", b"/w\0\0x"] {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
    }
}
