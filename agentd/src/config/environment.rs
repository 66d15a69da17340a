//! What of our own environment matters, read once. Nothing else reads the environment.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use super::{ConfigError, Mode};
use crate::startup::open_files;

/// Variables of our own environment that a profile may pass on. All harmless; the launcher gets no
/// other, whatever a profile says.
const PASSABLE: &[&str] = &[
    "CARGO_HOME",
    "COLORTERM",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "TZ",
];

/// What of our own environment matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    runtime_dir: Option<PathBuf>,
    config_home: Option<PathBuf>,
    pub(super) pass: BTreeMap<String, String>,
    /// `AGENTD_LOG`: a filter such as `debug` or `agentd=trace`.
    pub log: Option<String>,
    pub(super) uid: u32,
    /// How many files this process may open.
    pub(super) open_files: u64,
}

impl Environment {
    /// Reads it.
    #[must_use]
    pub fn read() -> Self {
        let uid = nix::unistd::Uid::current().as_raw();
        Self {
            open_files: open_files::most(),
            ..Self::from(std::env::var_os, uid)
        }
    }

    pub(super) fn from(var: impl Fn(&'static str) -> Option<OsString>, uid: u32) -> Self {
        let dir = |name| {
            var(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let pass = PASSABLE
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), var(name)?.into_string().ok()?)));
        Self {
            runtime_dir: dir("XDG_RUNTIME_DIR"),
            config_home: dir("XDG_CONFIG_HOME")
                .or_else(|| dir("HOME").map(|home| home.join(".config"))),
            pass: pass.collect(),
            log: var("AGENTD_LOG").and_then(|value| value.into_string().ok()),
            uid,
            open_files: u64::MAX,
        }
    }

    /// The user that started us.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(super) fn default_listener(&self) -> Result<PathBuf, ConfigError> {
        if self.is_root() {
            return Ok("/run/agentd/agentd.sock".into());
        }
        self.runtime_dir
            .as_ref()
            .map(|dir| dir.join("agentd/agentd.sock"))
            .ok_or(ConfigError::NoRuntimeDir)
    }

    /// For a service the operator is root; for an embedded daemon it is the person.
    pub(super) fn default_profile_dirs(&self, mode: Mode) -> Vec<PathBuf> {
        let dir = match mode {
            Mode::Service if self.is_root() => Some(PathBuf::from("/etc/agentd/profiles")),
            Mode::Service | Mode::Embedded => self
                .config_home
                .as_ref()
                .map(|dir| dir.join("agentd/profiles")),
        };
        dir.into_iter().filter(|dir| dir.is_dir()).collect()
    }
}
