//! Settings: what the command line, the configuration file and the environment say, made into one
//! checked value. The environment is read in `environment` and nowhere else.

mod environment;
mod open_files;
mod room;
mod span;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use environment::Environment;

use serde::Deserialize;
use thiserror::Error;

use self::span::Span;
use crate::{
    cli::ServeArgs,
    exec::Tuning,
    rpc::Allowed,
    session::Room,
    startup::{LauncherCommand, Others},
};

/// Profile of requests that name none.
const DEFAULT_PROFILE: &str = "workspace";

/// Commands at once, unless configured.
const DEFAULT_MAX_EXECS: usize = 64;

/// Most that can be configured: each takes five descriptors and up to 2.5 MiB.
const MAX_MAX_EXECS: usize = 4096;

/// Requests that wait for each command that may run, unless configured.
const QUEUED_PER_EXEC: usize = 4;

/// Most that can be configured.
const MAX_MAX_QUEUED: usize = 65_536;

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}:{line}: {message}", path.display())]
    Parse {
        /// File.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A listener that cannot be.
    #[error(
        "'{0}' is not a listener; use unix:/ABSOLUTE/PATH (tcp: comes with the service release)"
    )]
    Listener(String),
    /// No place for the default listener.
    #[error(
        "there is no XDG_RUNTIME_DIR to put the socket into; name one with --listen unix:/PATH"
    )]
    NoRuntimeDir,
    /// A number out of range.
    #[error("max-execs is {0}; use 1 to {MAX_MAX_EXECS}")]
    MaxExecs(usize),
    /// More commands than files can be opened for.
    #[error(
        "max-execs is {max_execs}, and with {open_files} open files at most {most} commands can run at \
         once; lower it, or raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)"
    )]
    OpenFiles {
        /// What was configured.
        max_execs: usize,
        /// What would fit.
        most: usize,
        /// The hard limit.
        open_files: u64,
    },
    /// A number out of range.
    #[error("max-queued is {0}; use 0 to {MAX_MAX_QUEUED}")]
    MaxQueued(usize),
    /// A reader needs some time to take what it is sent.
    #[error("slow-reader-timeout is less than a second; use \"1s\" or more")]
    SlowReader,
    /// Another number out of range.
    #[error("max-sessions is {0}; use 1 to {most}", most = room::MOST)]
    MaxSessions(usize),
}

/// The configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct RawConfig {
    listen: Vec<String>,
    profile_dirs: Vec<PathBuf>,
    default_profile: Option<String>,
    allow_uids: Vec<u32>,
    allow_gids: Vec<u32>,
    max_execs: Option<usize>,
    max_queued: Option<usize>,
    drain_timeout: Option<Span>,
    slow_reader_timeout: Option<Span>,
    max_sessions: Option<usize>,
}

/// How the daemon is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By its listeners, until it is told to stop.
    Service,
    /// By one inherited connection, until that closes.
    Embedded,
}

/// What the settings are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To serve: there must be a listener.
    Serve,
    /// To be looked at: without a place for the default listener there is none.
    Inspect,
}

/// Checked settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Mode.
    pub mode: Mode,
    /// Sockets to bind; empty when embedded, or when there is no place for the default one.
    pub listen: Vec<PathBuf>,
    /// How to start the launcher.
    pub launcher: LauncherCommand,
    /// Profile of requests that name none.
    pub default_profile: String,
    /// Who may connect.
    pub allowed: Allowed,
    /// Who may administer.
    pub operators: Vec<u32>,
    /// Users other than owner and group that may connect.
    pub others: Others,
    /// Group of the sockets, when root makes them for others.
    pub socket_gid: Option<u32>,
    /// Commands at once.
    pub max_execs: usize,
    /// Requests that wait beyond that.
    pub max_queued: usize,
    /// How long commands may run on after the daemon was told to stop, before they are ended.
    pub drain_timeout: Duration,
    /// Times that readers and streams go by.
    pub tuning: Tuning,
    /// Sessions at once.
    pub sessions: Room,
}

impl Config {
    /// Puts everything together. The command line wins over the file.
    pub fn load(
        args: &ServeArgs,
        environment: &Environment,
        purpose: Purpose,
    ) -> Result<Self, ConfigError> {
        let raw = match &args.config {
            Some(path) => read(path)?,
            None => RawConfig::default(),
        };
        Self::check(raw, args, (environment, purpose))
    }

    fn check(
        raw: RawConfig,
        args: &ServeArgs,
        (environment, purpose): (&Environment, Purpose),
    ) -> Result<Self, ConfigError> {
        let mode = if args.embedded {
            Mode::Embedded
        } else {
            Mode::Service
        };
        let listen = match mode {
            Mode::Embedded => Vec::new(),
            Mode::Service => {
                let given = first_given([&args.listen, &raw.listen]);
                tolerate(listeners(given, environment), purpose)?
            }
        };
        let profile_dirs = match first_given([&args.profile_dir, &raw.profile_dirs]) {
            [] => environment.default_profile_dirs(mode),
            given => given.to_vec(),
        };
        let max_execs = max_execs(raw.max_execs, environment.open_files)?;
        let max_queued = max_queued(raw.max_queued, max_execs)?;
        let tuning = tuning(raw.slow_reader_timeout)?;
        let mut operators = vec![0, environment.uid];
        operators.dedup();
        let strangers = raw.allow_uids.iter().any(|uid| !operators.contains(uid));
        Ok(Self {
            mode,
            listen: listen.clone(),
            launcher: LauncherCommand {
                program: args.launcher.clone(),
                profile_dirs,
                // A workspace with a socket of ours in it would let a command reach the daemon.
                state_dirs: listen,
                pass: environment.pass.clone().into_iter().collect(),
                cgroup: args.cgroup,
            },
            default_profile: args
                .default_profile
                .clone()
                .or(raw.default_profile)
                .unwrap_or_else(|| DEFAULT_PROFILE.to_owned()),
            others: if strangers {
                Others::Checked
            } else {
                Others::Excluded
            },
            socket_gid: raw.allow_gids.first().copied(),
            allowed: Allowed {
                uids: operators.iter().copied().chain(raw.allow_uids).collect(),
                gids: raw.allow_gids,
            },
            operators,
            max_execs,
            max_queued,
            drain_timeout: raw.drain_timeout.map_or(Duration::ZERO, |span| span.0),
            tuning,
            sessions: room::parse(raw.max_sessions)?,
        })
    }
}

impl Config {
    /// Others than those who run the daemon may use it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        let strangers = self.allowed.uids.iter();
        let mut strangers = strangers.filter(|uid| !self.operators.contains(uid));
        strangers.next().is_some() || !self.allowed.gids.is_empty()
    }
}

/// Commands at once.
fn max_execs(configured: Option<usize>, open_files: u64) -> Result<usize, ConfigError> {
    match configured {
        None => Ok(open_files::fitting(DEFAULT_MAX_EXECS, open_files)),
        Some(number) if (1..=MAX_MAX_EXECS).contains(&number) => {
            open_files::check(number, open_files)
        }
        Some(number) => Err(ConfigError::MaxExecs(number)),
    }
}

/// Requests that wait beyond that.
fn max_queued(configured: Option<usize>, max_execs: usize) -> Result<usize, ConfigError> {
    let queued = configured.unwrap_or_else(|| max_execs.saturating_mul(QUEUED_PER_EXEC));
    if queued > MAX_MAX_QUEUED {
        return Err(ConfigError::MaxQueued(queued));
    }
    Ok(queued)
}

fn tuning(slow_reader: Option<Span>) -> Result<Tuning, ConfigError> {
    let default = Tuning::default();
    let stall = slow_reader.map_or(default.stall, |span| span.0);
    if stall < Duration::from_secs(1) {
        return Err(ConfigError::SlowReader);
    }
    Ok(Tuning { stall, ..default })
}

fn first_given<T>(choices: [&Vec<T>; 2]) -> &[T] {
    choices
        .into_iter()
        .find(|choice| !choice.is_empty())
        .map_or(&[], Vec::as_slice)
}

fn tolerate(
    listeners: Result<Vec<PathBuf>, ConfigError>,
    purpose: Purpose,
) -> Result<Vec<PathBuf>, ConfigError> {
    match (listeners, purpose) {
        (Err(ConfigError::NoRuntimeDir), Purpose::Inspect) => Ok(Vec::new()),
        (listeners, Purpose::Serve | Purpose::Inspect) => listeners,
    }
}

fn listeners(given: &[String], environment: &Environment) -> Result<Vec<PathBuf>, ConfigError> {
    if given.is_empty() {
        return Ok(vec![environment.default_listener()?]);
    }
    given
        .iter()
        .map(|text| {
            text.strip_prefix("unix:")
                .map(|path| path.strip_prefix("//").unwrap_or(path))
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .ok_or_else(|| ConfigError::Listener(text.clone()))
        })
        .collect()
}

fn read(path: &Path) -> Result<RawConfig, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|(line, message)| ConfigError::Parse {
        path: path.to_owned(),
        line,
        message,
    })
}

/// The error is the line, from 1, and what is wrong there.
fn parse(text: &str) -> Result<RawConfig, (usize, String)> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count().saturating_add(1);
        (line, error.message().replace('\n', " "))
    })
}

#[cfg(test)]
mod tests;
