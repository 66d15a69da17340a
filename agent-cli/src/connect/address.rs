//! Addresses of daemons, as text and as data. Opens nothing.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Where a daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a text is no usable address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// A scheme of a later version.
    #[error("{0} comes with the service release; this version connects to unix:///PATH")]
    NotYet(&'static str),
    /// Not an address.
    #[error("'{0}' is not an address of agentd; write unix:///PATH")]
    Malformed(String),
}

impl Address {
    /// Parses `--connect`.
    ///
    /// # Errors
    /// Not `unix:///PATH`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("ssh", _)) => Err(AddressError::NotYet("ssh://")),
            Some(("https", _)) => Err(AddressError::NotYet("https://")),
            Some(_) | None => Err(AddressError::Malformed(text.to_owned())),
        }
    }

    /// Parses `AGENTD_SOCKET`: an address, or just the absolute path of a socket.
    ///
    /// # Errors
    /// Neither of both.
    pub fn from_variable(value: &OsStr) -> Result<Self, AddressError> {
        let path = Path::new(value);
        if path.is_absolute() {
            return Ok(Self::Unix(path.to_owned()));
        }
        match value.to_str() {
            Some(text) => Self::parse(text),
            None => Err(AddressError::Malformed(value.display().to_string())),
        }
    }
}

/// Sockets of daemons that were started beforehand, the user's own first.
#[must_use]
pub(super) fn usual_places(runtime_dir: Option<&Path>) -> Vec<PathBuf> {
    runtime_dir
        .into_iter()
        .chain([Path::new("/run")])
        .map(|directory| directory.join("agentd/agentd.sock"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Address, AddressError, usual_places};
    use std::{ffi::OsStr, path::Path};

    #[test]
    fn addresses_of_this_version_and_of_later_ones() {
        let unix = |path: &str| Ok(Address::Unix(path.into()));
        let malformed = |text: &str| Err(AddressError::Malformed(text.into()));
        for (text, expected) in [
            ("unix:///run/a.sock", unix("/run/a.sock")),
            ("unix://run/a.sock", malformed("unix://run/a.sock")),
            ("unix:///", unix("/")),
            ("/run/a.sock", malformed("/run/a.sock")),
            ("tcp://x", malformed("tcp://x")),
            ("", malformed("")),
            ("ssh://devbox", Err(AddressError::NotYet("ssh://"))),
            ("https://vm:7443", Err(AddressError::NotYet("https://"))),
        ] {
            assert_eq!(Address::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn the_variable_may_hold_a_path_or_an_address() {
        let expected = Ok(Address::Unix("/run/a.sock".into()));
        for text in ["/run/a.sock", "unix:///run/a.sock"] {
            assert_eq!(Address::from_variable(OsStr::new(text)), expected);
        }
        let relative = Address::from_variable(OsStr::new("a.sock"));
        assert_eq!(relative, Err(AddressError::Malformed("a.sock".into())));
    }

    #[test]
    fn the_users_own_daemon_comes_before_the_systems() {
        let places = usual_places(Some(Path::new("/run/user/7")));
        assert_eq!(places[0], Path::new("/run/user/7/agentd/agentd.sock"));
        assert_eq!(places[1], Path::new("/run/agentd/agentd.sock"));
    }
}
