//! Follows one command: its output goes to a sink, signals end it, and its end is always known or known to
//! be unknown.

use std::{io, time::Duration};

use tokio::sync::Notify;

use super::{feed::feed, sink::Sink};
use crate::{
    daemon::{Daemon, DaemonError, ExecEvent, ExecRequest, ExecStream, Outcome, Started},
    signals::{Signal, Signals},
};

/// How long a command may take to end after an interrupt: the daemon's longest grace and a margin.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(12);

/// Bytes that this client was too slow for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostBytes {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
}

/// What became of a command.
#[derive(Debug)]
pub struct Followed {
    /// Its jail; absent when it never started.
    pub started: Option<Started>,
    /// Its end.
    pub outcome: Outcome,
    /// Output that never arrived.
    pub lost: LostBytes,
    /// The signal that made us end it.
    pub signal: Option<Signal>,
    /// Why its end is unknown.
    pub failure: Option<Failure>,
}

impl Default for Followed {
    /// Nothing is known yet.
    fn default() -> Self {
        Self {
            started: None,
            outcome: Outcome::lost(),
            lost: LostBytes::default(),
            signal: None,
            failure: None,
        }
    }
}

/// Why following a command stopped early.
#[derive(Debug)]
pub enum Failure {
    /// The daemon failed or refused.
    Daemon(DaemonError),
    /// Our own output is closed or broken.
    Output(io::Error),
    /// The command did not end in time after a signal.
    StillRunning,
}

/// Runs a command to its end.
pub async fn follow(
    daemon: &Daemon,
    request: ExecRequest,
    sink: &mut Sink,
    signals: &mut Signals,
) -> Followed {
    let exec_id = request.exec_id.clone();
    let begun = Notify::new();
    let mut feed = Box::pin(feed(daemon, &exec_id, (request.input, &begun)));
    let mut followed = Followed::default();
    let mut told = None;
    let ended = {
        let stream = daemon.run(request);
        let mut whole = Box::pin(consume(stream, sink, (&mut followed, &begun)));
        tokio::select! {
            ended = &mut whole => ended,
            // Dropped with the end of the command, also while our own input blocks.
            never = &mut feed => match never {},
            signal = signals.next() => {
                told = Some(signal);
                // A second signal stops the waiting; the daemon ends what its reader has left.
                tokio::select! {
                    ended = &mut whole => ended,
                    () = stop(daemon, &exec_id) => Err(Failure::StillRunning),
                    _ = signals.next() => Err(Failure::StillRunning),
                }
            }
        }
    };
    followed.signal = told;
    followed.failure = ended.err();
    if matches!(followed.failure, Some(Failure::Output(_))) {
        // Nobody reads the output, so nobody needs the command.
        drop(tokio::time::timeout(STOP_TIMEOUT, daemon.terminate(&exec_id)).await);
    }
    followed
}

/// Ends a command; returns only when its end has not arrived in time.
async fn stop(daemon: &Daemon, exec_id: &str) {
    drop(tokio::time::timeout(STOP_TIMEOUT, daemon.terminate(exec_id)).await);
    tokio::time::sleep(STOP_TIMEOUT).await;
}

async fn consume(
    stream: Result<ExecStream, DaemonError>,
    sink: &mut Sink,
    (followed, begun): (&mut Followed, &Notify),
) -> Result<(), Failure> {
    let mut stream = stream.map_err(Failure::Daemon)?;
    while let Some(event) = stream.next().await.map_err(Failure::Daemon)? {
        match event {
            ExecEvent::Started(started) => {
                followed.started = Some(started);
                begun.notify_one();
            }
            ExecEvent::Output { stream, data } => {
                sink.write(stream, &data).await.map_err(Failure::Output)?;
            }
            ExecEvent::Lost {
                stdout_bytes,
                stderr_bytes,
            } => {
                let lost = &mut followed.lost;
                lost.stdout = lost.stdout.saturating_add(stdout_bytes);
                lost.stderr = lost.stderr.saturating_add(stderr_bytes);
            }
            ExecEvent::Ended(outcome) => followed.outcome = outcome,
        }
    }
    Ok(())
}
