//! The janitor: a process that cleans up on the host when the launcher could not, because it was killed.
//!
//! It is forked before the launcher makes anything, waits for the end of a pipe that only the launcher
//! holds, removes what a launcher of this pid may have left, and ends. After an orderly end it finds
//! nothing. It never calls `execve`, and as a copy of a process with one thread it may allocate.
//!
//! It keeps its user id, which owns all there is to remove, and of root's capabilities the one without
//! which cgroups cannot be removed. It has a session of its
//! own, so that what ends the launcher's process group spares it, and no descriptor but the pipe.

use std::{
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{errno::Errno, fcntl::OFlag, sys::stat::Mode, unistd::pipe2};

use super::stale;
use crate::{
    cgroup,
    sys::{
        caps, exec, files,
        fork::{self, Forked},
        signals, socket, wait,
    },
};

/// How long it goes on trying: on the nested tier the commands' inits outlive the launcher until they have
/// swept their trees.
const PATIENCE: Duration = Duration::from_secs(5);
const TRY_AGAIN_MS: i32 = 20;
/// How long an orderly end waits for it.
const FAREWELL: Duration = Duration::from_secs(1);
/// A path on the pipe is never longer, and then written whole.
const LONGEST_PATH: usize = 4_000;

/// The launcher's side.
#[derive(Debug)]
pub(crate) struct Janitor {
    pid: libc::pid_t,
    pipe: OwnedFd,
}

impl Janitor {
    /// Forks it. To be called first, with one thread.
    pub(crate) fn hire() -> Result<Self, Errno> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
        let launcher = std::process::id();
        match fork::clone_process(0, None)? {
            Forked::Child(_) => {
                // ORDER: its copy of the other end goes first, or the pipe never ends.
                let closed = files::close_number(write.as_raw_fd());
                let Ok(_null) = closed.and_then(|()| withdraw(&read)) else {
                    exec::exit_now(1);
                };
                exec::exit_now(i32::from(work(launcher, &read).is_err()))
            }
            Forked::Parent { pid, .. } => {
                socket::set_nonblocking(write.as_fd())?;
                Ok(Self { pid, pipe: write })
            }
        }
    }

    /// Its pid, as this process sees it.
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Has a cgroup removed as well, with everything below it and every process in it: the directory of a
    /// cgroup that this launcher made.
    pub(crate) fn entrust_cgroup(&self, path: &Path) -> Result<(), Errno> {
        let mut line = path.as_os_str().as_bytes().to_vec();
        if line.len() > LONGEST_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        line.push(0);
        files::write_once(self.pipe.as_fd(), &line)
    }

    /// Lets it end, after everything was cleaned up.
    pub(crate) fn dismiss(self) {
        let Self { pid, pipe } = self;
        drop(pipe);
        let start = Instant::now();
        while start.elapsed() < FAREWELL && matches!(wait::reap(pid), Ok(None)) {
            if signals::poll(&mut [], 1).is_err() {
                break;
            }
        }
    }
}

/// Gives up everything that it does not need. Returns what stands for standard input.
fn withdraw(pipe: &OwnedFd) -> Result<OwnedFd, Errno> {
    caps::set_name(c"agentd-janitor")?;
    nix::unistd::setsid()?;
    signals::set_mask(u64::MAX)?;
    files::close_all_but(&[pipe.as_raw_fd()])?;
    // Nothing that is opened later may be taken for standard output.
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    for target in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        if pipe.as_raw_fd() != target {
            files::duplicate_to(null.as_fd(), target)?;
        }
    }
    match caps::drop_bounding_set() {
        // Without privilege there is nothing to drop.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    // The root of a hierarchy of cgroups is mode 0555: only this capability removes one of its children.
    match caps::keep_only_dac_override() {
        Ok(()) => {}
        Err(Errno::EPERM) => caps::drop_all()?,
        Err(errno) => return Err(errno),
    }
    caps::set_no_new_privs()?;
    caps::set_undumpable()?;
    Ok(null)
}

fn work(launcher: u32, pipe: &OwnedFd) -> std::io::Result<()> {
    let cgroups = listen(pipe);
    // The processes in them are the launcher's children's and die with it; this is for those that do not.
    cgroup::remove_all(&cgroups);
    let uid = nix::unistd::geteuid().as_raw();
    let start = Instant::now();
    loop {
        let result = stale::remove_all_of(launcher, uid);
        if result.is_ok() || start.elapsed() > PATIENCE {
            return result;
        }
        signals::poll(&mut [], TRY_AGAIN_MS)?;
    }
}

/// Waits for the end of the launcher; returns the cgroups that it named.
fn listen(pipe: &OwnedFd) -> Vec<PathBuf> {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match files::read(pipe.as_fd(), &mut buffer) {
            Ok(0) => break,
            Ok(count) => heard.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    let paths = heard.split(|byte| *byte == 0);
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| !path.is_empty())
        .map(|path| std::ffi::OsString::from_vec(path.to_vec()).into())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}
