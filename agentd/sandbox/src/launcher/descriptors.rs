//! The descriptors beside a request: which is which, and whether they are what they must be.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::stat::fstat,
};

use super::not_started::{NotStarted, at};
use crate::policy::{Invocation, Program, Refusal, Stdin, TerminalSize};

/// Largest script in bytes.
const LARGEST_SCRIPT: i64 = 1024 * 1024;

/// What becomes of standard input, output and error.
#[derive(Debug)]
pub(super) enum Pipes {
    /// These.
    Given([OwnedFd; 3]),
    /// A terminal of this size instead.
    Terminal(TerminalSize),
}

/// The descriptors of a request.
#[derive(Debug)]
pub(super) struct Sorted {
    /// Standard input, output and error.
    pub(super) pipes: Pipes,
    /// The script, when the program is one: sealed, at most [`LARGEST_SCRIPT`] bytes.
    pub(super) script: Option<OwnedFd>,
    /// Where the state is reported.
    pub(super) state: Option<OwnedFd>,
}

/// Sorts the descriptors of a request (see `SpawnFds`).
pub(super) fn sort(invocation: &Invocation, fds: Vec<OwnedFd>) -> Result<Sorted, NotStarted> {
    let mut fds = fds.into_iter();
    let mut next = || {
        fds.next()
            .ok_or_else(|| malformed("descriptors are missing"))
    };
    let output = match invocation.terminal {
        None => Some((next()?, next()?)),
        Some(_) => None,
    };
    let script = match invocation.program {
        Program::Script => Some(sealed(next()?)?),
        Program::Argv(_) => None,
    };
    let pipes = match (invocation.terminal, output) {
        (None, Some((stdout, stderr))) => {
            let stdin = match invocation.stdin {
                Stdin::Pipe => next()?,
                Stdin::Null => null()?,
            };
            Pipes::Given([stdin, stdout, stderr])
        }
        (Some(size), _) => Pipes::Terminal(size),
        (None, None) => return Err(malformed("descriptors are missing")),
    };
    let session = invocation.in_session.as_ref();
    let state = if session.is_some_and(|session| session.report_state) {
        Some(next()?)
    } else {
        None
    };
    if fds.next().is_some() {
        return Err(malformed("too many descriptors"));
    }
    Ok(Sorted {
        pipes,
        script,
        state,
    })
}

fn malformed(text: &str) -> NotStarted {
    NotStarted::Refused(Refusal::Malformed(text.to_owned()))
}

fn null() -> Result<OwnedFd, NotStarted> {
    let opened = fs::File::open("/dev/null").map(OwnedFd::from);
    opened.map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        at("stdio", Errno::from_raw(errno))
    })
}

/// Whoever wrote the script cannot change it any more, nor make the launcher copy without end. The front
/// end seals it; that is checked, since the launcher trusts nobody's word.
fn sealed(script: OwnedFd) -> Result<OwnedFd, NotStarted> {
    let wanted = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK;
    let seals = fcntl(script.as_fd(), FcntlArg::F_GET_SEALS)
        .map_or(SealFlag::empty(), SealFlag::from_bits_truncate);
    if !seals.contains(wanted) {
        return Err(malformed("the script is not a sealed memory file"));
    }
    let size = fstat(script.as_fd()).map_err(|errno| at("script", errno))?;
    if size.st_size > LARGEST_SCRIPT {
        return Err(malformed(
            "the script is larger than 1 MiB; write it to a file and run that",
        ));
    }
    Ok(script)
}
