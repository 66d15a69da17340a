//! A private daemon: started for this client, spoken to over a socket pair that has no name, gone with it.

use std::{
    ffi::OsStr,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{process::Child, time::timeout};
use tonic::transport::Channel;

use super::{ConnectError, socket};
use crate::config::Environment;

const PROGRAM: &str = "agentd";
/// How long the daemon may take to end its jails once the connection is closed. It needs milliseconds; the
/// bound only keeps a broken one from holding the terminal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a daemon that has hung up may take to exit, so that its status can be told.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// A private daemon. It ends when the channel to it is dropped.
#[derive(Debug)]
pub struct Embedded {
    child: Child,
}

impl Embedded {
    /// Starts the daemon and connects to it.
    pub(super) async fn start(environment: &Environment) -> Result<(Channel, Self), ConnectError> {
        let program = find(
            environment.executable.as_deref(),
            environment.search_path.as_deref(),
        )
        .ok_or(ConnectError::NoProgram)?;
        let started = spawn(&program, environment).and_then(|(stream, child)| {
            stream.set_nonblocking(true)?;
            Ok((tokio::net::UnixStream::from_std(stream)?, child))
        });
        let (stream, child) = started.map_err(|source| ConnectError::Start {
            path: program,
            source,
        })?;
        let mut embedded = Self { child };
        match socket::adopt(stream).await {
            Ok(channel) => Ok((channel, embedded)),
            Err(source) => Err(embedded
                .early_end()
                .await
                .map_or(ConnectError::Transport { source }, ConnectError::ended)),
        }
    }

    /// How the daemon ended, if it has or is about to: asked after the connection broke.
    pub async fn early_end(&mut self) -> Option<ExitStatus> {
        timeout(STATUS_TIMEOUT, self.child.wait()).await.ok()?.ok()
    }

    /// Waits for the daemon after the channel was dropped; kills it when it does not go.
    ///
    /// # Errors
    /// It could not be waited for.
    pub async fn wait(mut self) -> io::Result<()> {
        if let Ok(ended) = timeout(EXIT_TIMEOUT, self.child.wait()).await {
            ended.map(drop)
        } else {
            self.child.kill().await
        }
    }
}

fn spawn(program: &Path, environment: &Environment) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the private daemon is the one process this client starts"
    )]
    let mut command = tokio::process::Command::new(program);
    // The API key exists only in this process: what agentd does not have, no command can find in it.
    for name in &environment.secret_names {
        command.env_remove(name);
    }
    let child = command
        .args(["serve", "--embedded"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        // A Ctrl-C at the terminal is for the client, which ends the turn and not the daemon.
        .process_group(0)
        .spawn()?;
    Ok((ours, child))
}

/// The daemon's program: next to this one, else in `PATH`.
fn find(executable: Option<&Path>, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let beside = executable
        .and_then(Path::parent)
        .map(|directory| directory.join(PROGRAM));
    let in_path = search_path
        .map(std::env::split_paths)
        .into_iter()
        .flatten()
        // A relative entry would let the working directory choose the daemon.
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(PROGRAM));
    beside
        .into_iter()
        .chain(in_path)
        .find(|program| is_executable(program))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::{find, is_executable};
    use std::{ffi::OsStr, path::Path};

    #[test]
    fn a_missing_daemon_is_not_found_anywhere() {
        assert_eq!(find(None, None), None);
        let here = Path::new("/nonexistent/agent-cli");
        assert_eq!(find(Some(here), Some(OsStr::new("/nonexistent:."))), None);
    }

    #[test]
    fn directories_and_plain_files_are_not_programs() {
        assert!(!is_executable(Path::new("/")));
        assert!(!is_executable(Path::new("/etc/passwd")));
        assert!(is_executable(Path::new("/bin/sh")));
    }
}
