//! Sockets on which the daemon is reached: a path, or the one connection of an embedded daemon.

use std::{
    fs::{DirBuilder, Permissions},
    io::{self, ErrorKind},
    os::{
        fd::AsFd,
        unix::{
            fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

use nix::sys::stat::{Mode, umask};
use thiserror::Error;

/// Why there is no listener.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another daemon is there.
    #[error("another agentd answers at {}; stop it or choose another path with --listen", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{} exists and is not a socket; remove it or choose another path with --listen", .0.display())]
    NotASocket(PathBuf),
    /// A step failed.
    #[error("{act} {}; choose another path with --listen", path.display())]
    Step {
        /// What was tried.
        act: &'static str,
        /// Path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Standard input is not a connected Unix socket.
    #[error(
        "--embedded needs a connected Unix stream socket on standard input; agent-cli gives one"
    )]
    NotConnected(#[source] io::Error),
}

/// Who may open the socket, beside the peer check that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Owner and group of directory and socket; `None` for our own.
    pub owner: Option<(u32, u32)>,
    /// Users outside of owner and group are on the list of peers.
    pub others: Others,
}

/// Users that are neither owner nor of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Kept out by file modes already.
    Excluded,
    /// Let through to the peer check.
    Checked,
}

impl Reach {
    fn modes(self) -> (u32, u32) {
        match self.others {
            Others::Excluded => (0o750, 0o660),
            Others::Checked => (0o755, 0o666),
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub listener: UnixListener,
    /// Where it is bound.
    pub path: PathBuf,
}

impl Listening {
    /// Binds, making the directory when it is missing, and replacing a socket at which nobody answers.
    pub fn bind(path: &Path, reach: Reach) -> Result<Self, ListenError> {
        let step = |act| {
            move |source| ListenError::Step {
                act,
                path: path.to_owned(),
                source,
            }
        };
        let (dir_mode, socket_mode) = reach.modes();
        if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
            make_dir(dir, dir_mode, reach).map_err(step("make the directory of"))?;
        }
        remove_stale(path)?;
        // ORDER: nobody can open the socket between bind and chmod. The mask is of the process, which
        // has one thread at this time.
        let before = umask(Mode::from_bits_truncate(0o177));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(step("bind"))?;
        if let Some((uid, gid)) = reach.owner {
            chown(path, Some(uid), Some(gid)).map_err(step("give away"))?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(socket_mode))
            .map_err(step("set the mode of"))?;
        listener.set_nonblocking(true).map_err(step("set up"))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }
}

fn make_dir(dir: &Path, mode: u32, reach: Reach) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(dir)?;
    // The mask of the process may have taken bits away.
    std::fs::set_permissions(dir, Permissions::from_mode(mode))?;
    if let Some((uid, gid)) = reach.owner {
        chown(dir, Some(uid), Some(gid))?;
    }
    Ok(())
}

fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let step = |act, source| ListenError::Step {
        act,
        path: path.to_owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(step("look at", error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| step("remove the stale socket", error))
        }
        Ok(_) => Err(ListenError::InUse(path.to_owned())),
        Err(error) => Err(step("try", error)),
    }
}

/// The connection that an embedded daemon finds on its standard input, which becomes `/dev/null`.
pub fn embedded() -> Result<UnixStream, ListenError> {
    let stdin = io::stdin();
    let connection = stdin
        .as_fd()
        .try_clone_to_owned()
        .map(UnixStream::from)
        .map_err(ListenError::NotConnected)?;
    connection.peer_addr().map_err(ListenError::NotConnected)?;
    connection
        .set_nonblocking(true)
        .map_err(ListenError::NotConnected)?;
    let null = std::fs::File::open("/dev/null").map_err(ListenError::NotConnected)?;
    nix::unistd::dup2_stdin(null).map_err(|errno| ListenError::NotConnected(errno.into()))?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    struct TempDir(PathBuf);

    impl TempDir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("agentd-{name}-{}", std::process::id()));
            drop(std::fs::remove_dir_all(&path));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    const PRIVATE: Reach = Reach {
        owner: None,
        others: Others::Excluded,
    };

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_socket_and_its_directory_get_their_modes() {
        let temp = TempDir::new("modes");
        let path = temp.0.join("run/agentd.sock");
        let bound = Listening::bind(&path, PRIVATE).unwrap();
        assert_eq!((mode(&temp.0.join("run")), mode(&path)), (0o750, 0o660));
        drop(bound);
        let open = Reach {
            others: Others::Checked,
            ..PRIVATE
        };
        drop(Listening::bind(&path, open).unwrap());
        assert_eq!(mode(&path), 0o666, "a stale socket is replaced");
    }

    #[test]
    fn a_living_socket_and_a_file_stay_untouched() {
        let temp = TempDir::new("living");
        let path = temp.0.join("agentd.sock");
        let _living = Listening::bind(&path, PRIVATE).unwrap();
        assert!(matches!(
            Listening::bind(&path, PRIVATE),
            Err(ListenError::InUse(_))
        ));
        let file = temp.0.join("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(matches!(
            Listening::bind(&file, PRIVATE),
            Err(ListenError::NotASocket(_))
        ));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }
}
