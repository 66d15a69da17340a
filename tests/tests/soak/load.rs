//! The kinds of executions of the soak, each checked as it ends.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{Api, Random, Transcript, World, script, wire};

use crate::dial;

/// Where executions run.
#[derive(Debug)]
pub(crate) struct Site {
    world: World,
    socket: PathBuf,
    api: Api,
    /// Session of background commands, where the daemon has sessions.
    session: Option<String>,
}

impl Site {
    /// Connects, and opens a session if there is such a thing.
    pub(crate) async fn open(world: World, socket: &Path) -> Self {
        let api = dial(socket).await;
        let mut session = None;
        if api.has_feature("sessions").await {
            let request = v1::CreateSessionRequest {
                session_id: "soak".to_owned(),
                sandbox: script(&world, "", "").sandbox,
                lease: wire(Duration::from_secs(24 * 3600)),
                ..v1::CreateSessionRequest::default()
            };
            api.sessions().create(request).await.expect("a session");
            session = Some("soak".to_owned());
        } else {
            eprintln!("SKIPPED: background commands: this daemon has no sessions");
        }
        Self {
            world,
            socket: socket.to_owned(),
            api,
            session,
        }
    }

    /// The world of the executions.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Whether background commands can be tried.
    pub(crate) fn has_sessions(&self) -> bool {
        self.session.is_some()
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        if let Some(session) = &self.session {
            let request = v1::DeleteSessionRequest {
                session_id: session.clone(),
            };
            self.api
                .sessions()
                .delete(request)
                .await
                .expect("it is deleted");
        }
    }
}

/// A kind of execution.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// Ends at once.
    Fast,
    /// Fails at once.
    Failing,
    /// Prints more than is kept.
    Large,
    /// Ended by its timeout, with a child.
    Timeout,
    /// Ended by a signal of its own.
    Signal,
    /// Leaves processes behind.
    Leftover,
    /// Ended by a client.
    Terminated,
    /// Its client goes away.
    Abandoned,
    /// Lives in a session until it is ended.
    Background,
    /// Reads what a client writes.
    Refused,
}

impl Load {
    /// One of them; most are fast, as in real use.
    pub(crate) fn random(random: &mut Random, site: &Site) -> Self {
        match random.between(0, 99) {
            0..36 => Self::Fast,
            36..46 => Self::Failing,
            46..58 => Self::Large,
            58..66 => Self::Timeout,
            66..74 => Self::Signal,
            74..80 => Self::Leftover,
            80..86 => Self::Terminated,
            86..91 => Self::Abandoned,
            91..94 => Self::Refused,
            _ if site.has_sessions() => Self::Background,
            _ => Self::Fast,
        }
    }

    /// Runs one and checks its end.
    pub(crate) async fn run(self, site: &Site, number: u64, random: &mut Random) {
        // Most clients keep a connection, some come anew for each command.
        let api = if random.percent(20) {
            dial(&site.socket).await
        } else {
            site.api.clone()
        };
        let id = format!("soak-{number}");
        let mut spec = script(&site.world, &id, self.script());
        match self {
            Self::Fast | Self::Large | Self::Leftover => exited(&api, spec, 0).await,
            Self::Failing => exited(&api, spec, 3).await,
            Self::Signal => {
                let end = run(&api, spec).await;
                assert_eq!(end.signal, Some(11), "{end:?}");
            }
            Self::Timeout => {
                let limits = spec.limits.get_or_insert_default();
                limits.timeout = wire(Duration::from_millis(40));
                limits.kill_grace = wire(Duration::from_millis(10));
                let end = run(&api, spec).await;
                assert_eq!(end.reason(), ExitReason::Timeout, "{end:?}");
            }
            Self::Terminated => {
                api.start(spec).await.expect("it starts");
                let answer = api.terminate(&id).await.expect("it is known");
                let end = answer.exec.and_then(|exec| exec.result).expect("an end");
                assert_eq!(end.reason(), ExitReason::Cancelled, "{end:?}");
            }
            Self::Abandoned => {
                spec.on_disconnect = Some(v1::DisconnectPolicy {
                    policy: Some(v1::disconnect_policy::Policy::KillNow(true)),
                });
                let request = v1::RunRequest { spec: Some(spec) };
                drop(api.execs().run(request).await.expect("it starts"));
                let end = api.wait(&id).await.expect("it is known").result;
                // Whoever waits counts as a reader, so it may also live on until it is ended below.
                drop(end);
            }
            Self::Background => {
                spec.sandbox = None;
                spec.session_id = site.session.clone().expect("a session");
                spec.background = true;
                api.start(spec).await.expect("it starts");
                let exec = api.get(&id).await.expect("it is known");
                assert_ne!(exec.state(), v1::ExecState::Ended, "{exec:?}");
                api.terminate(&id).await.expect("it is known");
            }
            Self::Refused => {
                spec.required_features = vec!["no-such-feature".to_owned()];
                api.start(spec).await.expect_err("an unknown feature");
            }
        }
        // Few clients tidy up. The rest is forgotten by the daemon itself, whose memory of finished
        // executions is full, and so at its largest, well before the first measurement.
        if random.percent(20) {
            drop(api.delete(&id).await);
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Fast | Self::Refused => "echo fast",
            Self::Failing => "echo no >&2; exit 3",
            Self::Large => "seq 450000",
            Self::Timeout | Self::Terminated | Self::Background => "sleep 600 & sleep 600",
            Self::Abandoned => "sleep 0.2",
            Self::Signal => "kill -SEGV $$",
            Self::Leftover => "sleep 600 & setsid -f sleep 600; echo left",
        }
    }
}

async fn exited(api: &Api, spec: v1::ExecSpec, code: i32) {
    let end = run(api, spec).await;
    assert_eq!(
        (end.reason(), end.exit_code),
        (ExitReason::Exited, Some(code)),
        "{end:?}"
    );
}

async fn run(api: &Api, spec: v1::ExecSpec) -> v1::ExitResult {
    let request = v1::RunRequest { spec: Some(spec) };
    let stream = api.execs().run(request).await.expect("it starts");
    let mut stream = stream.into_inner();
    let mut transcript = Transcript::default();
    while let Some(message) = stream.message().await.expect("the stream holds") {
        let event = message.event.expect("an event");
        transcript.take(event).expect("the contract");
    }
    transcript.exited.expect("an end")
}
