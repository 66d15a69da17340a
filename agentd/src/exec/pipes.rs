//! The file descriptors between a command and the front end: output, input, the session's state report
//! and the sealed script.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::{Mode, fchmod},
    },
    unistd::{pipe2, read, write},
};
use prost::bytes::BytesMut;
use thiserror::Error;
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::{Receiver, Sender},
};

use super::{ExecSpec, OutputStream, log::CHUNK, state::StatePipe, terminal::Terminal};

/// Size asked of the pipe of stdout, in bytes: a loud command is read in few turns. Not larger, since
/// all pipes of a user together have a bound, and beyond it new ones become tiny.
const LOUD_PIPE: i32 = 256 * 1024;

/// Rather than into fewer bytes than this, a read goes into a new block.
const LEAST_READ: usize = 16 * 1024;

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

/// The front end's ends.
#[derive(Debug)]
pub(super) struct Ends {
    /// Standard output; with a terminal closed until that arrives.
    pub main: OutputPipe,
    /// Standard error; closed with a terminal.
    pub errors: OutputPipe,
    /// Standard input, when it was asked for.
    pub stdin: Option<Sender>,
    /// The session's state report, when it was asked for.
    pub state: Option<StatePipe>,
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
pub(super) fn make(spec: &ExecSpec) -> Result<(Ends, CommandFds), PipeError> {
    let mut fds = Vec::new();
    let mut ends = Ends {
        main: OutputPipe::closed(OutputStream::Stdout),
        errors: OutputPipe::closed(OutputStream::Stderr),
        stdin: None,
        state: None,
    };
    if !spec.has_terminal() {
        let (stdout, write_end) = OutputPipe::make(OutputStream::Stdout)?;
        // A refusal leaves the size as it is.
        let _size = fcntl(&write_end, FcntlArg::F_SETPIPE_SZ(LOUD_PIPE));
        fds.push(write_end);
        let (stderr, write_end) = OutputPipe::make(OutputStream::Stderr)?;
        fds.push(write_end);
        (ends.main, ends.errors) = (stdout, stderr);
    }
    if let Some(script) = &spec.script {
        fds.push(sealed_script(script)?);
    }
    if spec.has_stdin_pipe() {
        let (read_end, write_end) = pair()?;
        ends.stdin = Some(Sender::from_owned_fd(write_end).map_err(PipeError::Watch)?);
        fds.push(read_end);
    }
    if spec.reports_state() {
        let (read_end, write_end) = pair()?;
        let read_end = Receiver::from_owned_fd(read_end).map_err(PipeError::Watch)?;
        ends.state = Some(StatePipe::new(read_end));
        fds.push(write_end);
    }
    Ok((ends, CommandFds(fds)))
}

/// Read and write end of a pipe. Each end is an open file of its own: ours become non-blocking, and
/// the command's block, as commands expect.
fn pair() -> Result<(OwnedFd, OwnedFd), PipeError> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(call("make a pipe"))?;
    // The command may run under another uid and still open /dev/stdout or /dev/stdin by name, which
    // checks the pipe's mode. Nobody else can reach the pipe, whatever its mode.
    fchmod(&writer, Mode::from_bits_truncate(0o666)).map_err(call("open up a pipe"))?;
    Ok((reader, writer))
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// Bytes, at most [`CHUNK`].
    Data(BytesMut),
    /// The end of the stream, now.
    End,
    /// Nothing is there now, or the end came earlier.
    Nothing,
}

#[derive(Debug)]
enum End {
    Pipe(Receiver),
    Terminal(Arc<Terminal>),
}

/// The read end of one stream. After its end it is never ready again.
#[derive(Debug)]
pub(super) struct OutputPipe {
    stream: OutputStream,
    end: Option<End>,
    /// Where reads go. What they brought is cut off its front without being copied.
    block: BytesMut,
}

impl OutputPipe {
    fn make(stream: OutputStream) -> Result<(Self, OwnedFd), PipeError> {
        let (reader, writer) = pair()?;
        let reader = Receiver::from_owned_fd(reader).map_err(PipeError::Watch)?;
        let pipe = Self::new(stream, Some(End::Pipe(reader)));
        Ok((pipe, writer))
    }

    fn new(stream: OutputStream, end: Option<End>) -> Self {
        Self {
            stream,
            end,
            block: BytesMut::new(),
        }
    }

    /// One that has ended.
    pub(super) fn closed(stream: OutputStream) -> Self {
        Self::new(stream, None)
    }

    /// The output of a terminal.
    pub(super) fn of_terminal(terminal: Arc<Terminal>) -> Self {
        Self::new(OutputStream::Terminal, Some(End::Terminal(terminal)))
    }

    /// Which stream.
    pub(super) fn stream(&self) -> OutputStream {
        self.stream
    }

    /// True until the end of the stream.
    pub(super) fn is_open(&self) -> bool {
        self.end.is_some()
    }

    /// Waits until something is there and reads it; forever pending after the end. Dropping the future
    /// loses nothing.
    pub(super) async fn read(&mut self) -> Took {
        let block = room(&mut self.block);
        let outcome = match &mut self.end {
            None => return std::future::pending().await,
            Some(End::Pipe(pipe)) => pipe.read_buf(block).await,
            Some(End::Terminal(terminal)) => {
                let mut buffer = [0; 4096];
                let read = terminal.read(&mut buffer).await;
                if let Ok(length) = &read {
                    block.extend_from_slice(buffer.get(..*length).unwrap_or_default());
                }
                read
            }
        };
        self.settle(outcome.ok())
    }

    /// Reads more, right after a read that brought something.
    pub(super) fn read_more(&mut self) -> Took {
        match &self.end {
            Some(End::Pipe(pipe)) => match pipe.try_read_buf(room(&mut self.block)) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Took::Nothing,
                outcome => self.settle(outcome.ok()),
            },
            Some(End::Terminal(_)) | None => Took::Nothing,
        }
    }

    /// Reads what is there now, without waiting and whatever the runtime believes.
    pub(super) fn read_now(&mut self) -> Took {
        let block = room(&mut self.block);
        let outcome = match &self.end {
            None => return Took::Nothing,
            Some(End::Pipe(pipe)) => fill(block, |buffer| read_once(pipe.as_fd(), buffer)),
            Some(End::Terminal(terminal)) => fill(block, |buffer| terminal.read_now(buffer)),
        };
        match outcome {
            Err(Errno::EAGAIN) => Took::Nothing,
            outcome => self.settle(outcome.ok()),
        }
    }

    /// A pipe that fails is as good as one that ended: no byte will come out of it.
    fn settle(&mut self, length: Option<usize>) -> Took {
        if length.is_none_or(|length| length == 0) {
            self.end = None;
            self.block = BytesMut::new();
            return Took::End;
        }
        Took::Data(self.block.split())
    }
}

/// A block with room for a read.
fn room(block: &mut BytesMut) -> &mut BytesMut {
    if block.capacity().saturating_sub(block.len()) < LEAST_READ {
        *block = BytesMut::with_capacity(CHUNK);
    }
    block
}

/// Reads into the free part of a block.
fn fill(
    block: &mut BytesMut,
    read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let start = block.len();
    block.resize(block.capacity(), 0);
    let outcome = read(block.get_mut(start..).unwrap_or_default());
    let length = outcome.unwrap_or_default();
    block.truncate(start.saturating_add(length));
    outcome
}

/// A read that no signal handler of ours can cut short.
pub(super) fn read_once(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
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
    use crate::launcher_link::fake::script_spec;

    fn data(bytes: &[u8]) -> Took {
        Took::Data(BytesMut::from(bytes))
    }

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
        let (mut pipe, writer) = OutputPipe::make(OutputStream::Stderr).unwrap();
        assert_eq!(pipe.read_now(), Took::Nothing);
        assert!(pipe.is_open());
        write_all(writer.as_fd(), b"abc").unwrap();
        assert_eq!(pipe.read().await, data(b"abc"));
        write_all(writer.as_fd(), b"de").unwrap();
        assert_eq!(pipe.read_now(), data(b"de"));
        drop(writer);
        assert_eq!(pipe.read().await, Took::End);
        assert!(!pipe.is_open());
        assert_eq!(
            (pipe.read_now(), pipe.read_more()),
            (Took::Nothing, Took::Nothing)
        );
    }

    #[tokio::test]
    async fn a_terminal_gives_its_bytes_and_ends_with_its_last_user() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let terminal = Arc::new(Terminal::watch(pty.master).unwrap());
        let mut output = OutputPipe::of_terminal(terminal);
        assert_eq!(output.read_now(), Took::Nothing);
        write_all(pty.slave.as_fd(), b"one\n").unwrap();
        assert_eq!(output.read().await, data(b"one\r\n"));
        write_all(pty.slave.as_fd(), b"two").unwrap();
        drop(pty.slave);
        assert_eq!(output.read().await, data(b"two"));
        assert_eq!(output.read().await, Took::End);
        assert!(!output.is_open());
    }

    #[tokio::test]
    async fn the_commands_ends_block_like_any_pipe_and_are_open_to_its_user() {
        let (_pipe, writer) = OutputPipe::make(OutputStream::Stdout).unwrap();
        let flags = fcntl(&writer, FcntlArg::F_GETFL).unwrap();
        assert!(!OFlag::from_bits_retain(flags).contains(OFlag::O_NONBLOCK));
        let mode = nix::sys::stat::fstat(&writer).unwrap().st_mode;
        assert_eq!(mode & 0o777, 0o666);
    }

    #[tokio::test]
    async fn the_launcher_gets_what_the_request_needs_in_the_agreed_order() {
        let count = |spec: &ExecSpec| make(spec).unwrap().1.into_fds().len();
        let mut spec = script_spec("a", "cat");
        assert_eq!(count(&spec), 3, "stdout, stderr, script");
        spec.invocation.stdin = agentd_sandbox::policy::Stdin::Pipe;
        let (ends, fds) = make(&spec).unwrap();
        assert!(ends.stdin.is_some());
        let fds = fds.into_fds();
        let flags = fcntl(&fds[3], FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & 3, 0, "the last one is for reading");
        spec.invocation.terminal = Some(agentd_sandbox::policy::TerminalSize {
            columns: 80,
            rows: 24,
        });
        assert_eq!(count(&spec), 1, "only the script beside a terminal");
    }
}
