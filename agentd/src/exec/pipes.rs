//! The file descriptors between a command and the front end: two output pipes and the sealed script.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::{Mode, fchmod},
    },
    unistd::{pipe2, read, write},
};
use thiserror::Error;
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver};

/// Why descriptors could not be made.
#[derive(Debug, Error)]
pub(super) enum PipeError {
    /// A system call failed; at the limit of open files the remedy is to run fewer commands at once.
    #[error("{act}: {errno}; lower max-execs or raise the limit of open files")]
    Call {
        /// What was tried.
        act: &'static str,
        /// Why not.
        errno: Errno,
    },
    /// The runtime does not watch the descriptor.
    #[error("watch a pipe")]
    Watch(#[source] std::io::Error),
}

/// The read ends, watched by the runtime.
#[derive(Debug)]
pub(super) struct OutputPipes {
    /// Standard output.
    pub stdout: OutputPipe,
    /// Standard error.
    pub stderr: OutputPipe,
}

/// What the launcher gets, in the order of `SpawnFds`.
#[derive(Debug)]
pub(super) struct CommandFds(Vec<OwnedFd>);

impl CommandFds {
    /// The descriptors; dropping them is what lets the read ends see an end of file.
    pub(super) fn into_fds(self) -> Vec<OwnedFd> {
        self.0
    }
}

/// Makes everything for one command.
pub(super) fn make(script: Option<&[u8]>) -> Result<(OutputPipes, CommandFds), PipeError> {
    let (stdout, stdout_write) = OutputPipe::make()?;
    let (stderr, stderr_write) = OutputPipe::make()?;
    let mut fds = vec![stdout_write, stderr_write];
    if let Some(script) = script {
        fds.push(sealed_script(script)?);
    }
    Ok((OutputPipes { stdout, stderr }, CommandFds(fds)))
}

/// The read end of one stream. After its end it is never ready again.
#[derive(Debug)]
pub(super) struct OutputPipe(Option<Receiver>);

impl OutputPipe {
    fn make() -> Result<(Self, OwnedFd), PipeError> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(call("make a pipe"))?;
        // The command may run under another uid and still open /dev/stdout or /dev/stderr by name,
        // which checks the pipe's mode. Nobody else can reach the pipe, whatever its mode.
        fchmod(&writer, Mode::from_bits_truncate(0o666)).map_err(call("open up a pipe"))?;
        // Makes the read end non-blocking, and only it: each end is an open file of its own, and
        // commands expect to block.
        let reader = Receiver::from_owned_fd(reader).map_err(PipeError::Watch)?;
        Ok((Self(Some(reader)), writer))
    }

    /// True until the end of the stream.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until something is there and reads it. `None` at the end of the stream; forever pending
    /// afterwards.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let Some(receiver) = &mut self.0 else {
            return std::future::pending().await;
        };
        let outcome = receiver.read(buffer).await;
        self.settle(outcome.ok())
    }

    /// Reads what is there now, without waiting and whatever the runtime believes. `None`: nothing
    /// now, or the end (then the pipe is no longer open).
    pub(super) fn read_now(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match read_once(self.0.as_ref()?.as_fd(), buffer) {
            Err(Errno::EAGAIN) => None,
            Ok(length) => self.settle(Some(length)),
            Err(_) => self.settle(None),
        }
    }

    /// A pipe that fails is as good as one that ended: no byte will come out of it.
    fn settle(&mut self, length: Option<usize>) -> Option<usize> {
        let length = length.filter(|length| *length > 0);
        if length.is_none() {
            self.0 = None;
        }
        length
    }
}

/// A read that no signal handler of ours can cut short.
fn read_once(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match read(fd, buffer) {
            Err(Errno::EINTR) => {}
            outcome => return outcome,
        }
    }
}

/// A script in memory that nobody can change any more, read from its start.
fn sealed_script(script: &[u8]) -> Result<OwnedFd, PipeError> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create("script", flags).map_err(call("make the script's file"))?;
    write_all(fd.as_fd(), script).map_err(call("write the script"))?;
    nix::unistd::lseek(&fd, 0, nix::unistd::Whence::SeekSet).map_err(call("rewind the script"))?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).map_err(call("seal the script"))?;
    Ok(fd)
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = write(fd, bytes)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

fn call(act: &'static str) -> impl Fn(Errno) -> PipeError {
    move |errno| PipeError::Call { act, errno }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_script_is_readable_from_its_start_and_can_not_be_changed() {
        let fd = sealed_script(b"echo \0hi\n").unwrap();
        assert_eq!(write(&fd, b"x"), Err(Errno::EPERM));
        assert_eq!(nix::unistd::ftruncate(&fd, 0), Err(Errno::EPERM));
        let mut text = Vec::new();
        std::fs::File::from(fd).read_to_end(&mut text).unwrap();
        assert_eq!(text, b"echo \0hi\n");
    }

    #[tokio::test]
    async fn a_pipe_gives_bytes_then_ends_once() {
        let (mut pipe, writer) = OutputPipe::make().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(pipe.read_now(&mut buffer), None);
        assert!(pipe.is_open());
        write_all(writer.as_fd(), b"abc").unwrap();
        assert_eq!(pipe.read(&mut buffer).await, Some(3));
        drop(writer);
        assert_eq!(pipe.read(&mut buffer).await, None);
        assert!(!pipe.is_open());
        assert_eq!(pipe.read_now(&mut buffer), None);
    }

    #[tokio::test]
    async fn the_write_end_blocks_like_any_pipe() {
        let (_pipe, writer) = OutputPipe::make().unwrap();
        let flags = fcntl(&writer, FcntlArg::F_GETFL).unwrap();
        assert!(!OFlag::from_bits_retain(flags).contains(OFlag::O_NONBLOCK));
    }
}
