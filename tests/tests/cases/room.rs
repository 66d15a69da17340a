//! A daemon and its client: where a case is tried.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_proto::v1;
use agentd_tests::harness::{Api, Daemon, Ended, Mode, Program, Transcript, World, wait_until};
use nix::{sys::stat, unistd::mkfifo};
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::Streaming;

/// What ends at once may take this long on a busy machine. The commands that must not be waited for run
/// for minutes.
pub(crate) const PROMPT: Duration = Duration::from_secs(20);

/// A daemon of its own world.
pub(crate) struct Room {
    /// Its world.
    pub(crate) world: World,
    /// The daemon.
    pub(crate) daemon: Daemon,
}

impl Room {
    /// On this kind of host.
    pub(crate) fn new(mode: Mode) -> Self {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        Self { world, daemon }
    }

    /// On this kind of host, with a configuration file of this text.
    pub(crate) fn with(mode: Mode, config: &str) -> Self {
        let world = World::new(mode);
        let path = config_file(&world, config);
        let daemon = Daemon::start_by(&world, |world, agentd, words| {
            let program = world.program(agentd).args(words);
            program.args([Path::new("--config"), &path])
        });
        Self { world, daemon }
    }

    /// `agent-cli exec` of a script, which reaches it as a file, so that no argument holds its text.
    pub(crate) fn exec(&self, options: &[&str], script: &str) -> Program {
        let path = self.world.base.join("script");
        fs::write(&path, script).expect("the script");
        let path = path.to_string_lossy().into_owned();
        let client = self.daemon.cli(&self.world, &["exec"]);
        client.args(options).args(["--file", &path])
    }

    /// The same with `--json`, to its end.
    #[track_caller]
    pub(crate) fn run(&self, options: &[&str], script: &str) -> (Value, Ended) {
        let ended = self.exec(&["--json"], script).args(options).run();
        let answer = ended.json();
        (answer, ended)
    }

    /// Fails unless nothing of any command is there within a second.
    #[track_caller]
    pub(crate) fn is_empty(&self, name: &str) {
        let gone = wait_until(Duration::from_secs(1), || self.world.processes().is_empty());
        assert!(gone, "{name}: left behind: {:?}", self.world.processes());
    }
}

/// A configuration file of a world's daemon.
pub(crate) fn config_file(world: &World, text: &str) -> PathBuf {
    let path = world.base.join("agentd.toml");
    fs::write(&path, text).expect("a configuration file");
    path
}

/// A gate in the workspace. A command waits at it with `: <NAME`, without any process or any clock, until it is
/// opened.
pub(crate) struct Gate(PathBuf);

impl Gate {
    /// A closed one of this name.
    pub(crate) fn new(world: &World, name: &str) -> Self {
        let path = world.workspace.join(name);
        mkfifo(&path, stat::Mode::from_bits_truncate(0o666)).expect("a pipe with a name");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("a mode");
        world.give(&path);
        Self(path)
    }

    /// Lets everybody through for as long as the value lives.
    pub(crate) fn open(&self) -> File {
        // For reading too: that never waits for the other side.
        let file = OpenOptions::new().read(true).write(true).open(&self.0);
        file.expect("the gate")
    }
}

/// Text of a field.
#[track_caller]
pub(crate) fn text<'a>(answer: &'a Value, field: &str) -> &'a str {
    let text = answer[field].as_str();
    text.unwrap_or_else(|| panic!("no text {field} in {answer}"))
}

/// A runtime of its own.
pub(crate) fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

/// A connection.
pub(crate) async fn dial(room: &Room) -> Api {
    Api::dial(&room.daemon.socket).await.expect("a daemon")
}

/// Begins to read a command after an event.
pub(crate) async fn attach(api: &Api, id: &str, after_seq: u64) -> Streaming<v1::AttachResponse> {
    let request = v1::AttachRequest {
        exec_id: id.to_owned(),
        after_seq,
        strict: false,
    };
    let answer = api.execs().attach(request).await.expect("it is known");
    answer.into_inner()
}

/// Reads on to the end of the stream.
pub(crate) async fn read(
    mut stream: Streaming<v1::AttachResponse>,
    mut told: Transcript,
) -> Transcript {
    while let Some(message) = stream.message().await.expect("the stream holds") {
        told.take(message.event.expect("an event"))
            .expect("the contract");
    }
    told
}

/// Reads on until that many bytes of standard output came.
pub(crate) async fn read_to(
    stream: &mut Streaming<v1::AttachResponse>,
    told: &mut Transcript,
    offset: u64,
) {
    while told.stdout.offset < offset && told.pty.offset < offset {
        let message = stream.message().await.expect("holds").expect("goes on");
        told.take(message.event.expect("an event"))
            .expect("the contract");
    }
}
