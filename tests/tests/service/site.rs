//! A daemon with its own settings, and the calls that the tests share.

use std::{fs, future::Future, path::PathBuf, time::Duration};

use agentd_proto::v1;
use agentd_tests::harness::{Api, Daemon, Mode, Transcript, World, script, wait_until, wire};
use tokio::runtime::Runtime;
use tonic::{Status, Streaming};

/// What happens at once may take this long on a busy machine. What must not be waited for runs for minutes.
pub(crate) const PROMPT: Duration = Duration::from_secs(15);

/// A daemon of its own world.
pub(crate) struct Site {
    /// Its world.
    pub(crate) world: World,
    /// The daemon.
    pub(crate) daemon: Daemon,
    runtime: Runtime,
}

impl Site {
    /// With the settings that it has by itself.
    pub(crate) fn new(mode: Mode) -> Self {
        Self::with(mode, "")
    }

    /// With a configuration file of this text.
    pub(crate) fn with(mode: Mode, config: &str) -> Self {
        let world = World::new(mode);
        let daemon = start(&world, config);
        Self {
            world,
            daemon,
            runtime: Runtime::new().expect("a runtime"),
        }
    }

    /// Ends the daemon by `kill -9`, if it runs, and starts it again.
    pub(crate) fn restart(&mut self) {
        if self.daemon.is_running() {
            self.daemon.signal(nix::sys::signal::Signal::SIGKILL);
        }
        assert!(wait_until(PROMPT, || !self.daemon.is_running()), "killed");
        self.daemon = start(&self.world, "");
    }

    /// Does something with a connection to the daemon.
    pub(crate) fn call<T, F: Future<Output = T>>(&self, work: impl FnOnce(Api) -> F) -> T {
        self.runtime
            .block_on(async { work(self.dial().await).await })
    }

    /// A connection.
    pub(crate) async fn dial(&self) -> Api {
        Api::dial(&self.daemon.socket).await.expect("a daemon")
    }

    /// A request for a session in the workspace. Its environment carries the mark of the world.
    pub(crate) fn session(&self, id: &str) -> v1::CreateSessionRequest {
        let plain = script(&self.world, "", "");
        v1::CreateSessionRequest {
            session_id: id.to_owned(),
            sandbox: plain.sandbox,
            env: plain.command.and_then(|command| command.env),
            ..v1::CreateSessionRequest::default()
        }
    }

    /// A script in a session.
    pub(crate) fn within(&self, session: &str, id: &str, text: &str) -> v1::ExecSpec {
        v1::ExecSpec {
            session_id: session.to_owned(),
            sandbox: None,
            ..script(&self.world, id, text)
        }
    }

    /// The same in the background.
    pub(crate) fn behind(&self, session: &str, id: &str, text: &str) -> v1::ExecSpec {
        v1::ExecSpec {
            background: true,
            ..self.within(session, id, text)
        }
    }

    /// Directories of sessions on the host.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let start = format!("agentd-{}-", self.daemon.launcher());
        let entries = fs::read_dir("/tmp").expect("/tmp");
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&start) && name.contains("-s")
        };
        paths.filter(ours).collect()
    }

    /// Fails unless nothing of any command is there now. On T1 the last processes may take a moment.
    #[track_caller]
    pub(crate) fn is_empty_now(&self, name: &str) {
        let patience = match self.world.mode {
            Mode::Root | Mode::Rootless => Duration::ZERO,
            Mode::Nested => Duration::from_secs(2),
        };
        let gone = wait_until(patience, || self.world.processes().is_empty());
        assert!(gone, "{name}: left behind: {:?}", self.world.processes());
    }

    /// Fails unless nothing of any command is there soon.
    #[track_caller]
    pub(crate) fn becomes_empty(&self, name: &str) {
        let gone = wait_until(PROMPT, || self.world.processes().is_empty());
        assert!(gone, "{name}: left behind: {:?}", self.world.processes());
    }
}

fn start(world: &World, config: &str) -> Daemon {
    let path = world.base.join("agentd.toml");
    fs::write(&path, config).expect("a configuration file");
    let path = path.to_string_lossy().into_owned();
    Daemon::start_by(world, |world, agentd, words| {
        let program = world.program(agentd).args(words);
        program.args(["--config", path.as_str()])
    })
}

/// Opens a session.
pub(crate) async fn open(api: &Api, request: v1::CreateSessionRequest) -> v1::Session {
    let answer = api.sessions().create(request).await;
    let answer = answer.expect("a session").into_inner();
    answer.session.expect("a session")
}

/// Looks at a session.
pub(crate) async fn look(api: &Api, id: &str) -> Result<v1::Session, Status> {
    let request = v1::GetSessionRequest {
        session_id: id.to_owned(),
    };
    let answer = api.sessions().get(request).await?.into_inner();
    Ok(answer.session.expect("a session"))
}

/// Names that commands of a session exported.
pub(crate) fn exported(session: &v1::Session) -> Vec<&str> {
    session.exported.iter().map(String::as_str).collect()
}

/// Ends a session; how many commands were ended with it.
pub(crate) async fn close(api: &Api, id: &str) -> Result<u32, Status> {
    let request = v1::DeleteSessionRequest {
        session_id: id.to_owned(),
    };
    let answer = api.sessions().delete(request).await?;
    Ok(answer.get_ref().terminated_execs)
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn run(api: &Api, spec: v1::ExecSpec) -> impl Future<Output = Transcript> + use<> {
    let api = api.clone();
    async move {
        let text = format!("{:?}", spec.command);
        let whole = async {
            let mut stream = api.run(spec).await.expect("it starts");
            let mut told = Transcript::default();
            while let Some(message) = stream.message().await.expect("the stream holds") {
                let event = message.event.expect("an event");
                told.take(event).expect("the contract");
            }
            told
        };
        let whole = tokio::time::timeout(PROMPT * 4, whole).await;
        whole.unwrap_or_else(|_| panic!("no end: {text}"))
    }
}

/// What a command printed on standard output, which must have ended well.
#[track_caller]
pub(crate) fn good(told: &Transcript) -> String {
    let end = told.exited.as_ref().expect("an end");
    let stderr = String::from_utf8_lossy(told.stderr.bytes());
    assert_eq!(end.exit_code, Some(0), "{end:?}: {stderr}");
    String::from_utf8_lossy(told.stdout.bytes()).into_owned()
}

/// Begins to read a command.
pub(crate) async fn attach(api: &Api, id: &str) -> Streaming<v1::AttachResponse> {
    let request = v1::AttachRequest {
        exec_id: id.to_owned(),
        ..v1::AttachRequest::default()
    };
    let answer = api.execs().attach(request).await.expect("it is known");
    answer.into_inner()
}

/// Reads on until what came satisfies, or to the end.
pub(crate) async fn read_until(
    stream: &mut Streaming<v1::AttachResponse>,
    told: &mut Transcript,
    enough: impl Fn(&Transcript) -> bool,
) {
    let read = async {
        while !enough(told) {
            let Some(message) = stream.message().await.expect("the stream holds") else {
                return;
            };
            let event = message.event.expect("an event");
            told.take(event).expect("the contract");
        }
    };
    let read = tokio::time::timeout(PROMPT * 2, read).await;
    assert!(read.is_ok(), "it did not come; so far {told:?}");
}

/// Reads to the end.
pub(crate) async fn read_all(mut stream: Streaming<v1::AttachResponse>) -> Transcript {
    let mut told = Transcript::default();
    read_until(&mut stream, &mut told, |_| false).await;
    assert!(told.exited.is_some(), "no end: {told:?}");
    told
}

/// Bytes that came on a terminal, as text.
pub(crate) fn screen(told: &Transcript) -> String {
    String::from_utf8_lossy(told.pty.bytes()).into_owned()
}

/// What came on standard output, as text.
pub(crate) fn printed(told: &Transcript) -> String {
    String::from_utf8_lossy(told.stdout.bytes()).into_owned()
}

/// The end of an execution that is over.
pub(crate) fn end_of(exec: v1::Exec) -> v1::ExitResult {
    exec.result.expect("an end")
}

/// Limits of one kind: this wall clock.
pub(crate) fn within_seconds(seconds: u64) -> v1::LimitRequest {
    v1::LimitRequest {
        timeout: wire(Duration::from_secs(seconds)),
        ..v1::LimitRequest::default()
    }
}

/// Fails unless a refusal has this code and carries this reason.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(
    answer: Result<T, Status>,
    code: tonic::Code,
    reason: &str,
) -> Status {
    let status = answer.expect_err("a refusal");
    assert_eq!(status.code(), code, "{status:?}");
    assert!(carries(&status, reason), "{reason}: {status:?}");
    status
}

/// Whether the details of a refusal hold this word.
pub(crate) fn carries(status: &Status, word: &str) -> bool {
    String::from_utf8_lossy(status.details()).contains(word)
}
