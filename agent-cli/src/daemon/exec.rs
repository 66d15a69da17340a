//! One command: started, followed, ended.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self, exec_service_client::ExecServiceClient};
use tokio_stream::StreamExt;
use tonic::{Status, transport::Channel};

use super::{
    Daemon, DaemonError, ExecRequest, Outcome, Started,
    command::{policy_of, wire_spec},
    convert,
    follow::{Call, Delivery, Follow, LastMessage, Piece, Pieces, Progress, Resume, Terms},
    link::{Line, Link},
};
use crate::agent::ports::BoxFuture;

/// Largest message this client accepts; output comes in pieces of 64 KiB.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// How often, and after which pause, a command that is not known yet is told to end.
const STOP_ATTEMPTS: u32 = 20;
const STOP_PAUSE: Duration = Duration::from_millis(50);
/// How long the order may take to reach a daemon that is out of reach.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Reasons with which the daemon says that it does not know an execution.
const UNKNOWN: [&str; 2] = ["EXEC_EXPIRED", ""];
/// How long the daemon lets a command wait for its turn when nothing else is asked for.
const DEFAULT_QUEUE: Duration = Duration::from_secs(30);

/// A stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What happens to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It runs.
    Started(Started),
    /// It printed.
    Output {
        /// Where.
        stream: OutputStream,
        /// What.
        data: Vec<u8>,
    },
    /// This client was too slow for these bytes.
    Lost {
        /// Bytes of standard output.
        stdout_bytes: u64,
        /// Bytes of standard error.
        stderr_bytes: u64,
    },
    /// It has ended. The last event.
    Ended(Outcome),
}

/// The events of one command, across broken connections.
#[derive(Debug)]
pub struct ExecStream {
    follow: Follow<ExecCall>,
}

impl ExecStream {
    /// Starts a command and follows it. Nothing is sent before the first [`ExecStream::next`].
    ///
    /// # Errors
    /// The request cannot be put into a message.
    pub fn start(link: &Arc<Link>, request: ExecRequest) -> Result<Self, DaemonError> {
        let queue = request.queue.unwrap_or(DEFAULT_QUEUE);
        let call = ExecCall {
            exec_id: request.exec_id.clone(),
            spec: Some(wire_spec(request, policy_of(link))?),
        };
        let progress = Progress::new(terms(link, queue));
        Ok(Self {
            follow: Follow::new(Arc::clone(link), call, progress),
        })
    }

    /// Follows a command that was started before, from its first event on.
    #[must_use]
    pub fn attach(link: &Arc<Link>, exec_id: &str) -> Self {
        let call = ExecCall {
            exec_id: exec_id.to_owned(),
            spec: None,
        };
        let progress = Progress::attached(terms(link, Duration::ZERO));
        Self {
            follow: Follow::new(Arc::clone(link), call, progress),
        }
    }

    /// The next event; `None` after [`ExecEvent::Ended`]. Broken connections are made again in here.
    ///
    /// # Errors
    /// The daemon refused the command, or its end cannot be known any more.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, DaemonError> {
        match self.follow.next().await? {
            Some(Delivery::Event(event)) => Ok(Some(*event)),
            Some(Delivery::Result(_)) => Err(DaemonError::Malformed("an event")),
            None => Ok(None),
        }
    }
}

fn terms(link: &Link, queue: Duration) -> Terms {
    Terms {
        patience: link.patience(),
        last: LastMessage::Exited,
        can_redial: link.can_redial(),
        queue,
    }
}

/// Run until the daemon has it, then Attach.
struct ExecCall {
    exec_id: String,
    /// Absent for a command that was started before.
    spec: Option<v1::ExecSpec>,
}

impl Call for ExecCall {
    fn name(&self) -> &'static str {
        "ExecService.Run"
    }

    fn open(&self, line: Line, resume: Resume) -> BoxFuture<'_, Result<Pieces, Status>> {
        Box::pin(async move {
            let mut client = client(line.channel);
            let after_seq = match (resume, &self.spec) {
                (Resume::Start, Some(spec)) => {
                    let spec = v1::ExecSpec {
                        expected_boot_id: line.boot.to_string(),
                        ..spec.clone()
                    };
                    let request = v1::RunRequest { spec: Some(spec) };
                    let answer = client.run(request).await?;
                    let events = answer.into_inner().map(|message| Ok(piece(message?.event)));
                    return Ok(Box::pin(events) as Pieces);
                }
                (Resume::Start, None) => 0,
                (Resume::After(seq), _) => seq,
            };
            let request = v1::AttachRequest {
                exec_id: self.exec_id.clone(),
                after_seq,
                strict: false,
            };
            let answer = client.attach(request).await?;
            let events = answer.into_inner().map(|message| Ok(piece(message?.event)));
            Ok(Box::pin(events) as Pieces)
        })
    }
}

fn piece(event: Option<v1::ExecEvent>) -> Piece {
    event.map_or(Piece::Nothing, |event| Piece::Event(Box::new(event)))
}

/// A client that accepts every message the daemon may send.
pub(super) fn client(channel: Channel) -> ExecServiceClient<Channel> {
    ExecServiceClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The event of a message; `None` for those that carry nothing.
pub(super) fn translate(event: v1::exec_event::Event) -> Result<Option<ExecEvent>, DaemonError> {
    use v1::exec_event::Event;
    Ok(match event {
        Event::Started(started) => Some(ExecEvent::Started(
            convert::started(started).ok_or(DaemonError::Malformed("the jail"))?,
        )),
        Event::Output(output) => Some(ExecEvent::Output {
            stream: match output.stream() {
                v1::Stream::Stderr => OutputStream::Stderr,
                v1::Stream::Stdout | v1::Stream::Pty | v1::Stream::Unspecified => {
                    OutputStream::Stdout
                }
            },
            data: output.data.into(),
        }),
        Event::Gap(gap) => Some(ExecEvent::Lost {
            stdout_bytes: gap.stdout_bytes.saturating_add(gap.pty_bytes),
            stderr_bytes: gap.stderr_bytes,
        }),
        Event::Heartbeat(_) => None,
        Event::Exited(result) => Some(ExecEvent::Ended(convert::outcome(result))),
    })
}

impl Daemon {
    /// Starts a command and follows it.
    ///
    /// # Errors
    /// The request cannot be put into a message.
    pub fn run(&self, request: ExecRequest) -> Result<ExecStream, DaemonError> {
        ExecStream::start(&self.link, request)
    }

    /// Ends a command with everything it started; its stream then ends by itself.
    ///
    /// # Errors
    /// The daemon does not know it, or the connection broke.
    pub async fn terminate(&self, exec_id: &str) -> Result<(), DaemonError> {
        terminate(&self.link, exec_id).await
    }
}

/// Ends a command. The order may overtake the command's own start, so it is repeated for a while.
pub(super) async fn terminate(link: &Link, exec_id: &str) -> Result<(), DaemonError> {
    let mut attempt: u32 = 1;
    loop {
        let message = v1::TerminateRequest {
            exec_id: exec_id.to_owned(),
            ..v1::TerminateRequest::default()
        };
        let told = link.ask("ExecService.Terminate", STOP_PATIENCE, |channel| {
            let message = message.clone();
            async move { client(channel).terminate(message).await }
        });
        match told.await {
            Ok(_) => return Ok(()),
            Err(DaemonError::Refused { reason, .. })
                if attempt < STOP_ATTEMPTS && UNKNOWN.contains(&reason.as_str()) =>
            {
                tokio::time::sleep(STOP_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
        attempt = attempt.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{DaemonError, ExecEvent, OutputStream, translate};
    use agentd_proto::v1::{self, exec_event::Event};

    #[test]
    fn a_start_without_a_jail_is_an_error() {
        let without_jail = Event::Started(v1::Started::default());
        assert!(matches!(
            translate(without_jail),
            Err(DaemonError::Malformed(_))
        ));
    }

    #[test]
    fn output_keeps_its_bytes_and_its_stream() {
        for (stream, expected) in [
            (v1::Stream::Stdout, OutputStream::Stdout),
            (v1::Stream::Stderr, OutputStream::Stderr),
            (v1::Stream::Pty, OutputStream::Stdout),
        ] {
            let output = Event::Output(v1::Output {
                stream: stream.into(),
                data: vec![0xff, 0].into(),
                ..v1::Output::default()
            });
            let expected = ExecEvent::Output {
                stream: expected,
                data: vec![0xff, 0],
            };
            assert_eq!(translate(output).unwrap(), Some(expected));
        }
        let beat = Event::Heartbeat(v1::Heartbeat::default());
        assert_eq!(translate(beat).unwrap(), None);
    }
}
