//! The ways to end a command.

use std::time::Duration;

use agentd_proto::v1::{self, ExitReason, TerminateOutcome};
use agentd_tests::harness::{Api, Mode, Random, Transcript, wire};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::sleep;
use tonic::Streaming;

use crate::Stage;

/// How long anything may take before it counts as hung.
const HUNG: Duration = Duration::from_secs(15);

/// A way to end a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its own timeout.
    Timeout,
    /// A client asks for its end.
    Terminate,
    /// Its only client goes away.
    Disconnect,
    /// agentd is killed.
    KillAgentd,
    /// The launcher is killed.
    KillLauncher,
}

/// What the client was told, and what it saw.
#[derive(Debug)]
pub(crate) struct Told {
    /// Processes of the command shortly before its end.
    pub(crate) seen: usize,
    /// The daemon has said that the command is over.
    pub(crate) after_the_result: bool,
    /// Its end.
    pub(crate) exited: Option<v1::ExitResult>,
    /// The answer to Terminate.
    pub(crate) outcome: Option<TerminateOutcome>,
}

impl End {
    /// One of them. Killed daemons cost a new daemon each, so they are rarer.
    pub(crate) fn random(random: &mut Random) -> Self {
        let common = [Self::Timeout, Self::Terminate, Self::Disconnect];
        let rare = [Self::KillAgentd, Self::KillLauncher];
        if random.percent(25) {
            random.pick(&rare)
        } else {
            random.pick(&common)
        }
    }

    /// Whether a new daemon is needed afterwards.
    pub(crate) fn kills_the_daemon(self) -> bool {
        match self {
            Self::KillAgentd | Self::KillLauncher => true,
            Self::Timeout | Self::Terminate | Self::Disconnect => false,
        }
    }

    /// What the request must say for this end.
    pub(crate) fn prepare(self, spec: &mut v1::ExecSpec, moment: Duration) {
        match self {
            Self::Timeout => {
                let limits = spec.limits.get_or_insert_default();
                limits.timeout = wire(moment.max(Duration::from_millis(1)));
            }
            Self::Disconnect => {
                spec.on_disconnect = Some(v1::DisconnectPolicy {
                    policy: Some(v1::disconnect_policy::Policy::KillNow(true)),
                });
            }
            Self::Terminate | Self::KillAgentd | Self::KillLauncher => {}
        }
    }

    /// Runs the command and ends it after `moment`, counted from the request.
    pub(crate) async fn run(
        self,
        (api, spec): (Api, v1::ExecSpec),
        moment: Duration,
        stage: &Stage,
    ) -> Told {
        let id = spec.exec_id.clone();
        let mut told = Told {
            seen: 0,
            after_the_result: false,
            exited: None,
            outcome: None,
        };
        let request = v1::RunRequest { spec: Some(spec) };
        let stream = api.execs().run(request).await.expect("it is accepted");
        let stream = stream.into_inner();
        match self {
            Self::Timeout => told.exited = Some(end_of(stream).await),
            Self::Terminate => {
                let reading = tokio::spawn(end_of(stream));
                sleep(moment).await;
                told.seen = stage.world.processes().len();
                let answer = tokio::time::timeout(HUNG, api.terminate(&id)).await;
                let answer = answer
                    .expect("Terminate does not hang")
                    .expect("it is known");
                told.outcome = Some(answer.outcome());
                told.exited = Some(reading.await.expect("the reader does not panic"));
            }
            Self::Disconnect => {
                sleep(moment).await;
                told.seen = stage.world.processes().len();
                drop((stream, api));
                return told;
            }
            Self::KillAgentd | Self::KillLauncher => {
                sleep(moment).await;
                told.seen = stage.world.processes().len();
                let victim = match self {
                    Self::KillLauncher => stage.launcher,
                    Self::KillAgentd | Self::Timeout | Self::Terminate | Self::Disconnect => {
                        stage.daemon.pid()
                    }
                };
                kill(Pid::from_raw(victim), Signal::SIGKILL).expect("it is there");
                return told;
            }
        }
        told.after_the_result = true;
        told
    }
}

/// Reads to the end, and checks on the way that it is a proper one.
async fn end_of(mut stream: Streaming<v1::RunResponse>) -> v1::ExitResult {
    let mut transcript = Transcript::default();
    while transcript.exited.is_none() {
        let message = tokio::time::timeout(HUNG, stream.message()).await;
        let message = message.expect("the stream does not hang");
        let message = message.expect("the stream does not break");
        let event = message.and_then(|message| message.event);
        let event = event.expect("no stream ends without the end of the command");
        transcript.take(event).expect("the contract");
    }
    transcript.exited.expect("an end")
}

impl Told {
    /// Whether the end was called what it was.
    pub(crate) fn judge(&self, end: End, mode: Mode, name: &str) {
        let Some(exited) = &self.exited else {
            return;
        };
        let expected = match end {
            End::Timeout => ExitReason::Timeout,
            End::Terminate => ExitReason::Cancelled,
            End::Disconnect | End::KillAgentd | End::KillLauncher => return,
        };
        assert_eq!(exited.reason(), expected, "{name}: {exited:?}");
        assert_eq!(
            exited.exit_code,
            exited.exit_code.filter(|code| *code != 0),
            "{name}"
        );
        let Some(outcome) = self.outcome else {
            return;
        };
        let proven = [TerminateOutcome::Killed];
        let either = [TerminateOutcome::Killed, TerminateOutcome::Unproven];
        let allowed = if mode == Mode::Nested {
            &either[..]
        } else {
            &proven
        };
        assert!(allowed.contains(&outcome), "{name}: {outcome:?}");
    }
}
