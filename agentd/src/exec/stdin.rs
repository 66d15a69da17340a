//! Standard input of a command: bytes at absolute offsets, so that a request sent twice is written once.
//! Only what the kernel took counts, and it counts at once: a call that is cancelled loses nothing and
//! repeats nothing.

mod farewell;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use agentd_sandbox::terminal::Peer;
use thiserror::Error;
use tokio::{net::unix::pipe::Sender, sync::Notify};

use super::{driver::sleep_until, terminal::Terminal};
use farewell::{Farewell, Tail};

/// Makes a terminal take the next byte as it is.
const QUOTE: u8 = 0x16;

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
    /// Close stdin after them. A terminal stays open: its end of input holds until more is written.
    pub eof: bool,
}

/// Where input goes.
#[derive(Debug)]
enum StdinEnd {
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
    /// The end of a terminal's input was said.
    said: Notify,
}

#[derive(Debug)]
struct State {
    end: Option<Arc<StdinEnd>>,
    /// The command's side of a terminal.
    peer: Option<Peer>,
    accepted: u64,
    /// Where the end of input was said.
    eof_at: Option<u64>,
    ended: bool,
    /// The last two bytes.
    last: [u8; 2],
    /// The end of the terminal's input, while it holds.
    farewell: Option<Farewell>,
}

enum Step {
    Done(Accepted),
    Full(Arc<StdinEnd>),
}

impl Stdin {
    /// A pipe.
    pub(super) fn pipe(pipe: Sender) -> Self {
        Self::new(StdinEnd::Pipe(pipe), None)
    }

    /// A terminal, and the command's side of it, if that can be looked at.
    pub(super) fn terminal(terminal: Arc<Terminal>, peer: Option<Peer>) -> Self {
        Self::new(StdinEnd::Terminal(terminal), peer)
    }

    fn new(end: StdinEnd, peer: Option<Peer>) -> Self {
        Self {
            state: Mutex::new(State {
                end: Some(Arc::new(end)),
                peer,
                accepted: 0,
                eof_at: None,
                ended: false,
                last: *b"\0\n",
                farewell: None,
            }),
            over: Notify::new(),
            said: Notify::new(),
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
            let end = match self.step(input)? {
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

    fn step(&self, input: Input<'_>) -> Result<Step, StdinError> {
        let mut state = self.lock();
        let step = state.step(input);
        if state.farewell.is_some() {
            self.said.notify_one();
        }
        step
    }

    /// Does the next thing that tells a terminal's readers of the end of its input. Waits until there is
    /// something to do, for ever for a pipe. Dropping the future loses nothing. For one caller at a time.
    pub(super) async fn tell_end(&self) {
        loop {
            let said = self.said.notified();
            let next = self.lock().farewell.as_ref().and_then(Farewell::next);
            tokio::select! {
                () = sleep_until(next) => break,
                () = said => {}
            }
        }
        self.lock().tell_end(Instant::now());
    }

    /// Nobody is to be told of the end of a terminal's input any more; its other side is closed.
    pub(super) fn let_go(&self) {
        let mut state = self.lock();
        state.peer = None;
        state.farewell = None;
    }

    /// The command is over.
    pub(super) fn end(&self) {
        self.let_go();
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
        if input.eof && last && self.eof_at != Some(self.accepted) {
            self.eof_at = Some(self.accepted);
            match *end {
                StdinEnd::Pipe(_) => self.end = None,
                StdinEnd::Terminal(_) => {
                    self.farewell = Some(Farewell::new(Instant::now(), self.tail()));
                }
            }
        }
        Ok(Step::Done(self.accepted()))
    }

    fn wrote(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.accepted = self.accepted.saturating_add(length);
        let [_, newest] = self.last;
        self.last = match bytes {
            [.., before, last] => [*before, *last],
            [last] => [newest, *last],
            [] => self.last,
        };
        self.farewell = None;
    }

    /// How what was typed ends. A newline that is quoted (Ctrl-V) ends no line.
    fn tail(&self) -> Tail {
        match self.last {
            [before, b'\n'] if before != QUOTE => Tail::Line,
            _other => Tail::MidLine,
        }
    }

    fn tell_end(&mut self, now: Instant) {
        let (Some(farewell), Some(end)) = (&mut self.farewell, &self.end) else {
            return;
        };
        match &**end {
            StdinEnd::Pipe(_) => {}
            StdinEnd::Terminal(terminal) => {
                // An error shows again at the next look.
                let told = match &self.peer {
                    Some(peer) => farewell.tell(now, terminal, peer),
                    None => farewell.tell_blindly(terminal),
                };
                told.unwrap_or_default();
            }
        }
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
