//! Follows one execution to its end across broken connections: asks again under the same id, continues
//! behind what was seen, and says honestly when the end cannot be known.

mod progress;
mod terms;

use std::{pin::Pin, sync::Arc, time::Duration};

use agentd_proto::v1::{self, exec_event::Event};
use tokio::time::{Instant, timeout};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

pub use progress::Progress;
pub use terms::{
    Fact, GiveUp, Lanes, LastMessage, MARGIN, Next, PATIENCE, PATIENCE_WITH_NOBODY, Patience,
    Resume, SILENCE, Terms, Verdict, backoff,
};

use super::{
    DaemonError, ExecEvent, convert, error,
    error::Lost,
    exec,
    fault::Fault,
    link::{Line, Link},
};
use crate::{agent::ports::BoxFuture, ids};

/// A message of a stream.
#[derive(Debug)]
pub(super) enum Piece {
    /// Of the command.
    Event(Box<v1::ExecEvent>),
    /// The tool's result.
    Result(Box<v1::ToolResult>),
    /// Nothing that this client knows.
    Nothing,
}

/// A stream of messages.
pub(super) type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, Status>> + Send>>;

/// How an execution is asked for. Asking twice is safe: the id is the same.
pub(super) trait Call: Send + Sync {
    /// The call's name.
    fn name(&self) -> &'static str;

    /// Asks on a connection, and only the process that has introduced itself on it.
    fn open(&self, line: Line, resume: Resume) -> BoxFuture<'_, Result<Pieces, Status>>;
}

/// What is passed on.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Of the command.
    Event(Box<ExecEvent>),
    /// The tool's result.
    Result(Box<v1::ToolResult>),
}

/// One execution that is being followed.
pub(super) struct Follow<C> {
    link: Arc<Link>,
    call: C,
    progress: Progress,
    begun: Instant,
    /// The connection in use, and the one that broke.
    line: Option<Line>,
    broken: Option<Line>,
    /// The process that was asked first.
    boot: Option<Arc<str>>,
    pieces: Option<Pieces>,
    /// The newest failure, in the words in which it is told.
    failure: Option<DaemonError>,
}

impl<C> std::fmt::Debug for Follow<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow")
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl<C: Call> Follow<C> {
    pub(super) fn new(link: Arc<Link>, call: C, progress: Progress) -> Self {
        Self {
            link,
            call,
            progress,
            begun: Instant::now(),
            line: None,
            broken: None,
            boot: None,
            pieces: None,
            failure: None,
        }
    }

    /// The next message; `None` after the last. Breaks, repetitions and silence stay in here.
    pub(super) async fn next(&mut self) -> Result<Option<Delivery>, DaemonError> {
        while !self.progress.is_done() {
            match self.message().await {
                Ok(piece) => {
                    if let Some(delivery) = self.read(piece)? {
                        return Ok(Some(delivery));
                    }
                }
                Err(fault) => self.recover(&fault).await?,
            }
        }
        Ok(None)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    async fn message(&mut self) -> Result<Piece, Fault> {
        if self.progress.is_overdue(self.now()) {
            return Err(Fault::Overdue);
        }
        let silence = self.progress.silence();
        if self.pieces.is_none() {
            let opened = timeout(silence, self.open()).await;
            self.pieces = Some(opened.map_err(|_elapsed| Fault::Silent)??);
            self.progress.on_accepted();
        }
        let Some(pieces) = &mut self.pieces else {
            return Err(Fault::Ended);
        };
        match timeout(silence, pieces.next()).await {
            Ok(Some(Ok(piece))) => Ok(piece),
            Ok(Some(Err(status))) => {
                self.failure = Some(error::call(&status, self.call.name()));
                Err(Fault::of(&status))
            }
            Ok(None) => Err(Fault::Ended),
            Err(_elapsed) => Err(Fault::Silent),
        }
    }

    /// Asks, on a connection that works.
    async fn open(&mut self) -> Result<Pieces, Fault> {
        let line = match (self.line.clone(), self.broken.take()) {
            (Some(line), None) => line,
            (_, Some(broken)) => match self.link.renew(&broken).await {
                Ok(line) => line,
                Err(fault) => {
                    self.broken = Some(broken);
                    return Err(fault);
                }
            },
            (None, None) => self.link.line()?,
        };
        // ORDER: compare before asking: another process would start the command a second time.
        match &self.boot {
            Some(boot) if *boot != line.boot && self.progress.may_be_sent() => {
                return Err(Fault::OtherBoot);
            }
            Some(_) | None => self.boot = Some(Arc::clone(&line.boot)),
        }
        self.line = Some(line.clone());
        let asked = self.call.open(line, self.progress.resume()).await;
        asked.map_err(|status| {
            self.failure = Some(error::call(&status, self.call.name()));
            Fault::of(&status)
        })
    }

    fn read(&mut self, piece: Piece) -> Result<Option<Delivery>, DaemonError> {
        let now = self.now();
        let malformed = DaemonError::Malformed;
        match piece {
            Piece::Nothing => Err(malformed("a message")),
            Piece::Result(result) => {
                let told = self.progress.on_message(0, Fact::Result, now);
                told.map_err(malformed)?;
                Ok(Some(Delivery::Result(result)))
            }
            Piece::Event(message) => {
                let seq = message.seq;
                let event = message.event.ok_or_else(|| malformed("an event"))?;
                let told = self.progress.on_message(seq, fact(&event), now);
                let event = match told.map_err(malformed)? {
                    Verdict::Deliver => exec::translate(event)?,
                    Verdict::Lost([stdout, stderr, pty]) => Some(ExecEvent::Lost {
                        stdout_bytes: stdout.saturating_add(pty),
                        stderr_bytes: stderr,
                    }),
                    Verdict::Skip => None,
                };
                Ok(event.map(|event| Delivery::Event(Box::new(event))))
            }
        }
    }

    /// Waits for the next attempt, or says why there is none.
    async fn recover(&mut self, fault: &Fault) -> Result<(), DaemonError> {
        self.pieces = None;
        if fault.is_transport()
            && let Some(line) = self.line.take()
        {
            self.broken = Some(line);
        }
        match self.progress.on_fault(fault, self.now(), ids::chance()) {
            Next::Again(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Next::GiveUp(why) => Err(self.told(why, fault)),
        }
    }

    fn told(&mut self, why: GiveUp, fault: &Fault) -> DaemonError {
        match why {
            GiveUp::Refused => self
                .failure
                .take()
                .unwrap_or_else(|| DaemonError::Broken(fault.to_string())),
            GiveUp::Broken => DaemonError::Broken(fault.to_string()),
            GiveUp::NotStarted => DaemonError::NotStarted(fault.to_string()),
            GiveUp::NoEnd => DaemonError::NoResult,
            GiveUp::Restarted => DaemonError::Lost(Lost::Restarted),
            GiveUp::Unreachable => DaemonError::Lost(Lost::Unreachable),
            GiveUp::Forgotten => DaemonError::Lost(Lost::Forgotten),
            GiveUp::Overdue => DaemonError::Lost(Lost::Overdue),
        }
    }
}

/// What an event says, as far as following is concerned.
fn fact(event: &Event) -> Fact {
    match event {
        Event::Started(started) => Fact::Started(limit(started)),
        Event::Output(output) => Fact::Output {
            lane: match output.stream() {
                v1::Stream::Stdout | v1::Stream::Unspecified => 0,
                v1::Stream::Stderr => 1,
                v1::Stream::Pty => 2,
            },
            offset: output.offset,
            length: u64::try_from(output.data.len()).unwrap_or(u64::MAX),
        },
        Event::Gap(gap) => Fact::Gap {
            from: gap.from_seq,
            to: gap.to_seq,
            bytes: [gap.stdout_bytes, gap.stderr_bytes, gap.pty_bytes],
        },
        Event::Heartbeat(_) => Fact::Heartbeat,
        Event::Exited(_) => Fact::Exited,
    }
}

/// How long the command may take, with the time in which it is ended.
fn limit(started: &v1::Started) -> Option<Duration> {
    let limits = started.limits?;
    let timeout = convert::local_duration(limits.timeout?);
    let grace = limits.kill_grace.map(convert::local_duration);
    Some(timeout.saturating_add(grace.unwrap_or_default()))
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
