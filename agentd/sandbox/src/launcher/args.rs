//! Command line of the launcher. Small enough to need no library in this process.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use thiserror::Error;

use crate::cgroup::Choice;

/// What agentd tells its launcher.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    /// Directories with profiles besides the shipped ones.
    pub(crate) profile_dirs: Vec<PathBuf>,
    /// Directories with the daemon's own state.
    pub(crate) state_dirs: Vec<PathBuf>,
    /// Variables that profiles may pass on.
    pub(crate) environment: BTreeMap<String, String>,
    /// Control groups.
    pub(crate) cgroup: Choice,
}

/// A command line that makes no sense.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum UsageError {
    /// Not an option.
    #[error(
        "unknown argument {0:?}; usage: agentd-launcher [--profile-dir DIR]… [--state-dir DIR]… \
         [--pass NAME=VALUE]… [--cgroup auto|none]"
    )]
    Unknown(OsString),
    /// An option without its value.
    #[error("option {0} wants a value")]
    NoValue(&'static str),
    /// Not of the form NAME=VALUE.
    #[error("--pass wants NAME=VALUE in UTF-8, not {0:?}")]
    BadPair(OsString),
    /// Neither `auto` nor `none`.
    #[error("--cgroup wants auto or none, not {0:?}")]
    BadChoice(OsString),
}

/// Parses the command line.
pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Args, UsageError> {
    let mut args = Args::default();
    while let Some(argument) = arguments.next() {
        let mut value = |option| arguments.next().ok_or(UsageError::NoValue(option));
        match argument.to_str() {
            Some("--profile-dir") => args.profile_dirs.push(value("--profile-dir")?.into()),
            Some("--state-dir") => args.state_dirs.push(value("--state-dir")?.into()),
            Some("--pass") => {
                let pair = value("--pass")?;
                let split = pair.to_str().and_then(|pair| pair.split_once('='));
                let Some((name, value)) = split else {
                    return Err(UsageError::BadPair(pair));
                };
                args.environment.insert(name.to_owned(), value.to_owned());
            }
            Some("--cgroup") => {
                let choice = value("--cgroup")?;
                args.cgroup = match choice.to_str() {
                    Some("auto") => Choice::Auto,
                    Some("none") => Choice::None,
                    Some(_) | None => return Err(UsageError::BadChoice(choice)),
                };
            }
            Some(_) | None => return Err(UsageError::Unknown(argument)),
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Args, UsageError> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn options_repeat() {
        let args = of(&[
            "--profile-dir",
            "/a",
            "--pass",
            "A=b=c",
            "--profile-dir",
            "/b",
        ])
        .unwrap();
        assert_eq!(args.profile_dirs, [PathBuf::from("/a"), "/b".into()]);
        assert_eq!(args.environment["A"], "b=c");
        assert_eq!(args.cgroup, Choice::Auto);
        assert_eq!(of(&["--cgroup", "none"]).unwrap().cgroup, Choice::None);
        assert_eq!(of(&["--cgroup", "auto"]).unwrap().cgroup, Choice::Auto);
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(of(&["-x"]), Err(UsageError::Unknown("-x".into())));
        assert_eq!(
            of(&["--profile-dir"]),
            Err(UsageError::NoValue("--profile-dir"))
        );
        assert_eq!(of(&["--pass", "A"]), Err(UsageError::BadPair("A".into())));
        assert_eq!(
            of(&["--cgroup", "v2"]),
            Err(UsageError::BadChoice("v2".into()))
        );
    }
}
