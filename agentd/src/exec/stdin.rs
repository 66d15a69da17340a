//! Standard input of a command: bytes at absolute offsets, so that a request sent twice is written once.
//! Only what the kernel took counts, and it counts at once: a call that is cancelled loses nothing and
//! repeats nothing.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thiserror::Error;
use tokio::{net::unix::pipe::Sender, sync::Notify};

use super::terminal::Terminal;

/// What a terminal takes for the end of input.
const END_OF_TRANSMISSION: u8 = 4;

/// Why input was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StdinError {
    /// Bytes before it are missing.
    #[error("bytes before this offset are missing; send from offset {expected}")]
    Hole {
        /// Offset of the next byte.
        expected: u64,
    },
    /// It was closed by an earlier call.
    #[error("stdin was closed by an earlier call, and these bytes come after that end")]
    Closed,
    /// The command is over.
    #[error("the command has ended; nothing reads its input any more")]
    Ended,
}

/// How far input has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Offset of the next byte.
    pub offset: u64,
    /// Nothing more can be written.
    pub closed: bool,
}

/// Bytes to write.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Offset of the first one.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// Close stdin (a terminal: type Ctrl-D) after them.
    pub eof: bool,
}

/// Where input goes.
#[derive(Debug)]
pub(super) enum StdinEnd {
    Pipe(Sender),
    Terminal(Arc<Terminal>),
}

impl StdinEnd {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.try_write(bytes),
            Self::Terminal(terminal) => terminal.try_write(bytes),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.writable().await,
            Self::Terminal(terminal) => terminal.writable().await,
        }
    }
}

/// Standard input.
#[derive(Debug)]
pub struct Stdin {
    state: Mutex<State>,
    over: Notify,
}

#[derive(Debug)]
struct State {
    end: Option<Arc<StdinEnd>>,
    accepted: u64,
    /// Where the end of input was said.
    eof_at: Option<u64>,
    ended: bool,
    /// The terminal holds the beginning of a line: the first Ctrl-D only sends that off.
    mid_line: bool,
}

enum Step {
    Done(Accepted),
    Full(Arc<StdinEnd>),
}

impl Stdin {
    pub(super) fn new(end: StdinEnd) -> Self {
        Self {
            state: Mutex::new(State {
                end: Some(Arc::new(end)),
                accepted: 0,
                eof_at: None,
                ended: false,
                mid_line: false,
            }),
            over: Notify::new(),
        }
    }

    /// Writes what was not accepted before, waiting up to `patience` for a reader that is slow. Running
    /// out of patience is no error; the answer says how far it came. Neither is a command that has closed
    /// its input. Dropping the future keeps what was written.
    pub async fn write(
        &self,
        input: Input<'_>,
        patience: Duration,
    ) -> Result<Accepted, StdinError> {
        let mut enough = std::pin::pin!(tokio::time::sleep(patience));
        loop {
            let over = self.over.notified();
            let mut over = std::pin::pin!(over);
            // ORDER: listen before looking, so that an end in between is not missed.
            over.as_mut().enable();
            let end = match self.lock().step(input)? {
                Step::Done(accepted) => return Ok(accepted),
                Step::Full(end) => end,
            };
            tokio::select! {
                // An error shows again at the next write.
                _ = end.writable() => {}
                () = over => {}
                () = &mut enough => return Ok(self.lock().accepted()),
            }
        }
    }

    /// The command is over.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.end = None;
        drop(state);
        self.over.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn accepted(&self) -> Accepted {
        Accepted {
            offset: self.accepted,
            closed: self.end.is_none(),
        }
    }

    /// Writes as much as fits now.
    fn step(&mut self, input: Input<'_>) -> Result<Step, StdinError> {
        if self.ended {
            return Err(StdinError::Ended);
        }
        if input.offset > self.accepted {
            return Err(StdinError::Hole {
                expected: self.accepted,
            });
        }
        let Some(end) = self.end.clone() else {
            let known = usize::try_from(self.accepted.saturating_sub(input.offset));
            let more = known.is_ok_and(|known| known < input.data.len());
            // Closed by the command itself: the bytes go nowhere, as with any pipe.
            return if more && self.eof_at.is_some() {
                Err(StdinError::Closed)
            } else {
                Ok(Step::Done(self.accepted()))
            };
        };
        loop {
            let known = usize::try_from(self.accepted.saturating_sub(input.offset));
            let rest = input.data.get(known.unwrap_or(usize::MAX)..);
            let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
                break;
            };
            match end.try_write(rest) {
                Ok(length) => self.wrote(rest.get(..length).unwrap_or(rest)),
                Err(error) if would_block(&error) => return Ok(Step::Full(end)),
                Err(_) => {
                    self.end = None;
                    return Ok(Step::Done(self.accepted()));
                }
            }
        }
        let length = u64::try_from(input.data.len()).unwrap_or(u64::MAX);
        // Said in the middle of what came later, it is an old request that arrives again.
        let last = input.offset.saturating_add(length) == self.accepted;
        if input.eof && last && self.eof_at != Some(self.accepted) && !self.close(&end) {
            return Ok(Step::Full(end));
        }
        Ok(Step::Done(self.accepted()))
    }

    fn wrote(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.accepted = self.accepted.saturating_add(length);
        self.mid_line = bytes.last().is_some_and(|last| *last != b'\n');
    }

    /// Says the end of input. False when that does not fit now.
    fn close(&mut self, end: &StdinEnd) -> bool {
        match end {
            StdinEnd::Pipe(_) => self.end = None,
            StdinEnd::Terminal(terminal) => loop {
                match terminal.try_write(&[END_OF_TRANSMISSION]) {
                    Ok(_) if self.mid_line => self.mid_line = false,
                    Err(error) if would_block(&error) => return false,
                    Ok(_) | Err(_) => break,
                }
            },
        }
        self.eof_at = Some(self.accepted);
        true
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests;
