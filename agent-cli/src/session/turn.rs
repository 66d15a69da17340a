//! One turn, with an ear for Ctrl-C: the first interrupts the turn, a second soon after leaves.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::SessionError;
use crate::{
    agent::{Agent, TurnEnd, cancel_pair},
    signals::{Signal, Signals},
};

/// Two interrupts within this time mean: leave.
const TWICE: Duration = Duration::from_secs(2);
/// How long an interrupted turn may take: the daemon's longest grace and a margin.
const PATIENCE: Duration = Duration::from_secs(15);

/// What can interrupt a turn.
#[derive(Debug)]
pub struct Interrupts {
    /// Signals of the process.
    pub signals: Signals,
    /// A Ctrl-C typed at a question.
    pub typed: Arc<Notify>,
    /// Nobody reads what is written.
    pub unread: Arc<Notify>,
}

impl Interrupts {
    /// Takes over the signals.
    ///
    /// # Errors
    /// They cannot be watched.
    pub fn install() -> Result<Self, SessionError> {
        let signals = Signals::install().map_err(|source: io::Error| SessionError::Io {
            what: "signals cannot be watched, so a running command could not be interrupted",
            source,
        })?;
        Ok(Self {
            signals,
            typed: Arc::new(Notify::new()),
            unread: Arc::new(Notify::new()),
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            signal = self.signals.next() => signal,
            () = self.typed.notified() => Signal::Interrupt,
            () = self.unread.notified() => Signal::Terminate,
        }
    }
}

/// What came of a turn.
#[derive(Debug)]
pub enum Turn {
    /// It ended, perhaps interrupted; the session goes on.
    Ended(TurnEnd),
    /// The program has to leave.
    Leave(Signal),
}

/// Runs one turn.
pub async fn take(agent: &mut Agent, prompt: &str, interrupts: &mut Interrupts) -> Turn {
    let (canceller, cancel) = cancel_pair();
    let turn = agent.run(prompt, &cancel);
    tokio::pin!(turn);
    let mut interrupted: Option<Instant> = None;
    let mut leaving: Option<Signal> = None;
    loop {
        let deadline = interrupted.map(|at| PATIENCE.saturating_sub(at.elapsed()));
        tokio::select! {
            end = &mut turn => {
                return leaving.map_or(Turn::Ended(end), Turn::Leave);
            }
            signal = interrupts.next() => match (signal, interrupted) {
                (Signal::Interrupt, Some(at)) if at.elapsed() < TWICE => return Turn::Leave(signal),
                (Signal::Interrupt | Signal::Terminate, _) => {
                    canceller.cancel();
                    interrupted.get_or_insert_with(Instant::now);
                    if signal == Signal::Terminate {
                        leaving = Some(signal);
                    }
                }
            },
            () = out_of(deadline) => return Turn::Leave(leaving.unwrap_or(Signal::Interrupt)),
        }
    }
}

/// Returns when the time is up; never, when there is no limit.
async fn out_of(deadline: Option<Duration>) {
    match deadline {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}
