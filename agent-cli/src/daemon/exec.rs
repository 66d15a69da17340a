//! One command: started, followed, ended.

use std::{path::PathBuf, time::Duration};

use agentd_proto::v1::{self, exec_service_client::ExecServiceClient};
use tonic::{Code, Streaming, transport::Channel};

use super::{Daemon, DaemonError, Outcome, SandboxChoice, Started, convert, error};

/// Largest message this client accepts; output comes in pieces of 64 KiB.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// How often, and after which pause, a command that is not known yet is told to end.
const STOP_ATTEMPTS: u32 = 20;
const STOP_PAUSE: Duration = Duration::from_millis(50);

/// A command to run.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Chosen by the client, unique.
    pub exec_id: String,
    /// What runs.
    pub command: ExecCommand,
    /// Jail.
    pub sandbox: SandboxChoice,
    /// Working directory; empty for the workspace.
    pub cwd: PathBuf,
    /// Variables to add.
    pub env: Vec<(String, String)>,
    /// Time limit; the daemon's default when absent.
    pub timeout: Option<Duration>,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecCommand {
    /// A bash script.
    Script(Vec<u8>),
    /// A program and its arguments.
    Argv(Vec<Vec<u8>>),
}

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

/// The events of one command.
#[derive(Debug)]
pub struct ExecStream {
    stream: Streaming<v1::RunResponse>,
    ended: bool,
}

impl ExecStream {
    /// The next event; `None` after [`ExecEvent::Ended`].
    ///
    /// # Errors
    /// The connection broke, or the stream stopped without the end of the command.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, DaemonError> {
        while !self.ended {
            let message = self.stream.message().await;
            let message = message.map_err(|status| in_stream(&status))?;
            if let Some(event) = read(message)? {
                self.ended = matches!(event, ExecEvent::Ended(_));
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

/// A failure after the command was accepted leaves its end unknown.
fn in_stream(status: &tonic::Status) -> DaemonError {
    error::call(status, "ExecService.Run")
}

/// What a message, or the end of the stream, says; `None` for a message that carries nothing.
fn read(message: Option<v1::RunResponse>) -> Result<Option<ExecEvent>, DaemonError> {
    let message = message.ok_or(DaemonError::NoResult)?;
    let event = message.event.and_then(|event| event.event);
    translate(event.ok_or(DaemonError::Malformed("an event"))?)
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
            stdout_bytes: gap.stdout_bytes,
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
    /// The daemon refused it, or the connection broke; nothing runs then.
    pub async fn run(&self, request: ExecRequest) -> Result<ExecStream, DaemonError> {
        let message = v1::RunRequest {
            spec: Some(wire_spec(request)?),
        };
        let answer = ExecServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
            .run(message)
            .await
            .map_err(|status| error::call(&status, "ExecService.Run"))?;
        Ok(ExecStream {
            stream: answer.into_inner(),
            ended: false,
        })
    }

    /// Ends a command with everything it started; its stream then ends by itself.
    ///
    /// # Errors
    /// The daemon does not know it, or the connection broke.
    pub async fn terminate(&self, exec_id: &str) -> Result<(), DaemonError> {
        terminate(self.channel.clone(), exec_id).await
    }
}

/// Ends a command. The order may overtake the command's own start, so it is repeated for a while.
pub(super) async fn terminate(channel: Channel, exec_id: &str) -> Result<(), DaemonError> {
    let mut client = ExecServiceClient::new(channel);
    let mut attempt: u32 = 1;
    loop {
        let message = v1::TerminateRequest {
            exec_id: exec_id.to_owned(),
            ..v1::TerminateRequest::default()
        };
        match client.terminate(message).await {
            Ok(_) => return Ok(()),
            Err(status) if attempt >= STOP_ATTEMPTS || status.code() != Code::NotFound => {
                return Err(error::call(&status, "ExecService.Terminate"));
            }
            Err(_unknown) => tokio::time::sleep(STOP_PAUSE).await,
        }
        attempt = attempt.saturating_add(1);
    }
}

fn wire_spec(request: ExecRequest) -> Result<v1::ExecSpec, DaemonError> {
    use v1::command_spec::Command;
    let command = match request.command {
        ExecCommand::Script(script) => Command::Shell(v1::ShellScript {
            script: script.into(),
        }),
        ExecCommand::Argv(argv) => Command::Argv(v1::Argv {
            argv: argv.into_iter().map(Into::into).collect(),
        }),
    };
    Ok(v1::ExecSpec {
        exec_id: request.exec_id,
        command: Some(v1::CommandSpec {
            command: Some(command),
            cwd: super::tools::wire_path(&request.cwd)?,
            env: Some(v1::EnvSpec {
                set: request.env.into_iter().collect(),
                unset: Vec::new(),
            }),
        }),
        limits: Some(v1::LimitRequest {
            timeout: request.timeout.map(convert::wire_duration),
            ..v1::LimitRequest::default()
        }),
        sandbox: Some(request.sandbox.wire()?),
        // Nobody attaches to it later, so nobody is helped when it outlives this client.
        on_disconnect: Some(v1::DisconnectPolicy {
            policy: Some(v1::disconnect_policy::Policy::KillNow(true)),
        }),
        ..v1::ExecSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::{DaemonError, ExecEvent, OutputStream, read};
    use agentd_proto::v1::{self, exec_event::Event};

    fn message(event: Option<Event>) -> v1::RunResponse {
        v1::RunResponse {
            event: Some(v1::ExecEvent {
                event,
                ..v1::ExecEvent::default()
            }),
        }
    }

    #[test]
    fn a_stream_that_ends_without_the_end_of_the_command_is_an_error() {
        assert!(matches!(read(None), Err(DaemonError::NoResult)));
        assert!(matches!(
            read(Some(message(None))),
            Err(DaemonError::Malformed(_))
        ));
        let without_jail = Event::Started(v1::Started::default());
        assert!(matches!(
            read(Some(message(Some(without_jail)))),
            Err(DaemonError::Malformed(_))
        ));
    }

    #[test]
    fn output_keeps_its_bytes_and_its_stream() {
        let output = Event::Output(v1::Output {
            stream: v1::Stream::Stderr.into(),
            data: vec![0xff, 0].into(),
            ..v1::Output::default()
        });
        let expected = ExecEvent::Output {
            stream: OutputStream::Stderr,
            data: vec![0xff, 0],
        };
        assert_eq!(read(Some(message(Some(output)))).unwrap(), Some(expected));
        let beat = Event::Heartbeat(v1::Heartbeat::default());
        assert_eq!(read(Some(message(Some(beat)))).unwrap(), None);
    }
}
