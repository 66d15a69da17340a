//! A daemon and its client: where a case is tried.

use std::{fs, time::Duration};

use agentd_tests::harness::{Daemon, Ended, Mode, Program, World, wait_until};
use serde_json::Value;

/// What ends at once may take this long on a busy machine. The commands that must not be waited for run
/// for minutes.
pub(crate) const PROMPT: Duration = Duration::from_secs(8);

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

/// Text of a field.
#[track_caller]
pub(crate) fn text<'a>(answer: &'a Value, field: &str) -> &'a str {
    let text = answer[field].as_str();
    text.unwrap_or_else(|| panic!("no text {field} in {answer}"))
}
