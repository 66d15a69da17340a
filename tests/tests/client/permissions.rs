//! The person's word: denials, and the question at a terminal.

use std::{
    fs::File,
    io::{Read, Write},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use agentd_tests::{
    harness::{World, wait_until},
    mock::{KEY, Message, MockApi, Reply, text, tool_use},
};
use nix::pty::openpty;

use crate::stage::{client, judge, results, world};

fn two_calls() -> Reply {
    Reply::Message(Message::new(vec![
        tool_use("toolu_1", "touch one"),
        tool_use("toolu_2", "touch two"),
    ]))
}

fn done() -> Reply {
    Reply::Message(Message::new(vec![text("understood")]))
}

#[test]
fn denied_calls_are_answered_one_by_one_and_do_not_run() {
    let world = world();
    for mode in ["deny", "ask"] {
        let mock = MockApi::start([two_calls(), done()]);
        let run = client(&world, &mock, &["--permissions", mode, "run", "x"]).run();
        assert_eq!(run.code, 6, "{mode}: {run:?}");
        let bodies = judge(&mock);
        let told = results(&bodies[1]);
        assert_eq!(told.len(), 2, "{mode}: {told:?}");
        for (id, text, is_error) in told {
            assert!(is_error, "{id}");
            assert!(
                text.starts_with("Permission denied by user"),
                "{id}: {text}"
            );
        }
        assert!(
            !world.workspace.join("one").exists(),
            "{mode}: a denied call ran"
        );
    }
}

/// A terminal with the client on it.
struct Terminal {
    keys: File,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn read(&self) -> String {
        let bytes = self.screen.lock().expect("the reader lives").clone();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        let seen = wait_until(Duration::from_secs(30), || self.read().contains(words));
        assert!(seen, "no {words:?} on the screen: {}", self.read());
    }

    fn press(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }
}

fn on_terminal(world: &World, mock: &MockApi, words: &[&str]) -> (Terminal, std::process::Child) {
    let pty = openpty(None, None).expect("a terminal");
    let program = agentd_tests::harness::binaries().join("agent-cli");
    // A session with the terminal as its own, so that Ctrl-C is the kernel's.
    let mut command = world.mode.command(std::ffi::OsStr::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(program).args(words);
    command.env_clear().current_dir(&world.workspace);
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &world.home);
    command.env("TERM", "xterm").env("LANG", "C.UTF-8");
    command
        .env("ANTHROPIC_API_KEY", KEY)
        .env("MODEL_ID", "mock-1");
    command.env("ANTHROPIC_BASE_URL", mock.base_url());
    let slave = || pty.slave.try_clone().expect("a descriptor");
    command.stdin(slave()).stdout(slave()).stderr(slave());
    let child = command.spawn().expect("the client starts");
    drop(pty.slave);
    let mut master = File::from(pty.master);
    let keys = master.try_clone().expect("a descriptor");
    let screen = Arc::new(Mutex::new(Vec::new()));
    let shown = Arc::clone(&screen);
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = master.read(&mut piece) {
            shown
                .lock()
                .expect("nobody panics")
                .extend_from_slice(&piece[..count]);
        }
    });
    (Terminal { keys, screen }, child)
}

#[test]
fn at_a_terminal_the_person_is_asked_and_no_is_the_safe_answer() {
    let world = world();
    let mock = MockApi::start([two_calls(), done(), two_calls_again(), done_again()]);
    let (mut terminal, mut child) = on_terminal(&world, &mock, &["--permissions", "ask"]);
    terminal.wait_for("agent >>");
    terminal.press("work\r");
    terminal.wait_for("touch one");
    terminal.wait_for("(y)es");
    // An empty answer is a no.
    terminal.press("\r");
    terminal.wait_for("touch two");
    terminal.press("y\r");
    terminal.wait_for("understood");
    assert!(
        !world.workspace.join("one").exists(),
        "an empty answer let the call run"
    );
    assert!(
        world.workspace.join("two").exists(),
        "a yes did not let the call run"
    );

    terminal.press("more\r");
    terminal.wait_for("sleep 300");
    terminal.press("y\r");
    let runs = || {
        world
            .processes()
            .iter()
            .any(|process| process.name == "sleep")
    };
    assert!(
        wait_until(Duration::from_secs(20), runs),
        "{}",
        terminal.read()
    );
    terminal.press("\x03");
    let gone = wait_until(Duration::from_secs(10), || world.processes().is_empty());
    assert!(gone, "Ctrl-C ends the command: {}", terminal.read());
    terminal.press("again\r");
    terminal.wait_for("at your service");
    terminal.press("q\r");
    let ended = wait_until(Duration::from_secs(20), || {
        child.try_wait().expect("a child").is_some()
    });
    assert!(ended, "q leaves: {}", terminal.read());
    let bodies = judge(&mock);
    assert_eq!(bodies.len(), 4);
    let told = results(&bodies[1]);
    assert!(
        told[0].1.starts_with("Permission denied by user"),
        "{told:?}"
    );
    assert!(told[1].1.starts_with("(no output)"), "{told:?}");
}

fn two_calls_again() -> Reply {
    Reply::Message(Message::new(vec![tool_use("toolu_3", "sleep 300")]))
}

fn done_again() -> Reply {
    Reply::Message(Message::new(vec![text("at your service")]))
}
