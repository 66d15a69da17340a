//! What this program reads from its process, read once at the start and passed on as data.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    io::{self, IsTerminal},
    path::PathBuf,
};

/// Variables that `.env` may set. Everything else in that file is ignored.
pub const KNOWN_KEYS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "MODEL_ID",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
];

/// Endings of names whose values are secrets: programs that this one starts never get them.
const SECRET_ENDINGS: [&str; 5] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS"];

/// The process's surroundings.
#[derive(Clone, Default)]
pub struct Environment {
    /// `AGENTD_SOCKET`: the daemon to use.
    pub agentd_socket: Option<OsString>,
    /// `XDG_RUNTIME_DIR`: where a daemon of this user would listen.
    pub runtime_dir: Option<PathBuf>,
    /// `PATH`: where `agentd` is looked for when it is not next to this program.
    pub search_path: Option<OsString>,
    /// `XDG_STATE_HOME`, or `.local/state` in the home directory: where the line history is kept.
    pub state_dir: Option<PathBuf>,
    /// This program's own file.
    pub executable: Option<PathBuf>,
    /// The working directory.
    pub current_dir: PathBuf,
    /// Where temporary directories are made.
    pub temp_dir: PathBuf,
    /// Names of variables that hold secrets.
    pub secret_names: Vec<OsString>,
    /// The known keys that are set and not empty.
    pub known: BTreeMap<String, String>,
    /// What the standard streams are.
    pub streams: Streams,
}

/// What the standard streams are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Streams {
    /// A person types on standard input and reads standard error, so a question can be asked.
    pub interactive: bool,
    /// Standard output is a terminal without `NO_COLOR`.
    pub colour: bool,
}

impl Environment {
    /// Reads everything once.
    ///
    /// # Errors
    /// The working directory does not exist any more.
    pub fn capture() -> io::Result<Self> {
        let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let known = KNOWN_KEYS
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), env::var(key).ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Ok(Self {
            agentd_socket: non_empty("AGENTD_SOCKET"),
            runtime_dir: non_empty("XDG_RUNTIME_DIR").map(PathBuf::from),
            search_path: non_empty("PATH"),
            state_dir: non_empty("XDG_STATE_HOME")
                .map(PathBuf::from)
                .or_else(|| non_empty("HOME").map(|home| PathBuf::from(home).join(".local/state"))),
            executable: env::current_exe().ok(),
            current_dir: env::current_dir()?,
            temp_dir: env::temp_dir(),
            secret_names: env::vars_os()
                .map(|(name, _)| name)
                .filter(|name| is_secret(name))
                .collect(),
            known,
            streams: Streams {
                interactive: io::stdin().is_terminal() && io::stderr().is_terminal(),
                colour: io::stdout().is_terminal() && !no_colour,
            },
        })
    }
}

fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_uppercase();
    KNOWN_KEYS.contains(&name.as_str())
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn non_empty(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

impl std::fmt::Debug for Environment {
    /// Without the values of the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("current_dir", &self.current_dir)
            .field("streams", &self.streams)
            .field("known", &self.known.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::is_secret;

    #[test]
    fn keys_and_tokens_are_secrets_and_ordinary_names_are_not() {
        for secret in [
            "ANTHROPIC_API_KEY",
            "MODEL_ID",
            "github_token",
            "AWS_SECRET",
            "X_PASSWORD",
        ] {
            assert!(is_secret(OsStr::new(secret)), "{secret}");
        }
        for plain in [
            "PATH",
            "HOME",
            "XDG_RUNTIME_DIR",
            "KEYBOARD",
            "AGENTD_LOG",
            "TZ",
        ] {
            assert!(!is_secret(OsStr::new(plain)), "{plain}");
        }
    }
}
