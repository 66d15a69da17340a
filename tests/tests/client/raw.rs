//! The person's own terminal while a command has one: raw, and given back whatever happens to the client.

use std::{
    fs::File,
    io::{Read, Write},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use agentd_tests::harness::{Mode, World, below, binaries, in_every_mode, wait_until};
use nix::{
    pty::openpty,
    sys::{
        signal::{Signal, kill},
        termios::{LocalFlags, OutputFlags, SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::Pid,
};

const SOON: Duration = Duration::from_secs(30);

/// A terminal with `agent-cli exec --pty` on it.
struct Person {
    terminal: File,
    screen: Arc<Mutex<Vec<u8>>>,
    before: Termios,
    child: std::process::Child,
}

impl Person {
    /// The client leads a session with the terminal as its own.
    fn start(world: &World, script: &str) -> Self {
        let pty = openpty(None, None).expect("a terminal");
        let before = tcgetattr(&pty.master).expect("a terminal");
        let mut command = world.mode.command("setsid".as_ref());
        command.arg("--ctty").arg(binaries().join("agent-cli"));
        command.args(["exec", "--timeout", "60s", "--pty", "--", script]);
        command.env_clear().current_dir(&world.workspace);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", &world.home).env("TERM", "xterm");
        let slave = || pty.slave.try_clone().expect("a descriptor");
        command.stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().expect("the client starts");
        // Held by nobody but the client, the terminal would be gone with it.
        let _held = Box::leak(Box::new(pty.slave));
        let terminal = File::from(pty.master);
        let mut reader = terminal.try_clone().expect("a descriptor");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                let mut shown = shown.lock().expect("nobody panics");
                shown.extend_from_slice(&piece[..count]);
            }
        });
        Self {
            terminal,
            screen,
            before,
            child,
        }
    }

    fn shown(&self) -> String {
        let shown = self.screen.lock().expect("the reader lives").clone();
        String::from_utf8_lossy(&shown).into_owned()
    }

    #[track_caller]
    fn shows(&self, words: &str) {
        let seen = wait_until(SOON, || self.shown().contains(words));
        assert!(seen, "no {words:?} on the screen: {:?}", self.shown());
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("keys");
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.terminal).expect("a terminal")
    }

    #[track_caller]
    fn is_raw(&self) {
        let is_raw = || !self.modes().local_flags.contains(LocalFlags::ICANON);
        assert!(wait_until(SOON, is_raw), "{:?}", self.shown());
    }

    #[track_caller]
    fn is_as_before(&self) {
        let same = wait_until(SOON, || self.modes() == self.before);
        assert!(same, "{:?}, {:?}", self.modes(), self.shown());
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the client lives");
    }

    /// `T` while it is stopped.
    #[track_caller]
    fn is_stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let state = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit(") ").next().map(|rest| rest.starts_with('T'))
        };
        assert!(
            wait_until(SOON, || state() == Some(true)),
            "{:?}",
            self.shown()
        );
    }

    #[track_caller]
    fn ends(&mut self) {
        let ended = wait_until(SOON, || self.child.try_wait().expect("a child").is_some());
        assert!(ended, "it does not end: {:?}", self.shown());
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const WAITS: &str = "echo up; read -r line; echo \"got $line\"; read -r line; exit 4";

/// What somebody does to the client.
type Act<'a> = dyn Fn(&mut Person) + 'a;

#[test]
fn the_terminal_is_given_back_at_every_end_of_the_client() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ends: [(&str, &Act<'_>); 6] = [
            ("by itself", &|person| person.types("a\rb\r")),
            ("TERM", &|person| person.signal(Signal::SIGTERM)),
            ("INT", &|person| person.signal(Signal::SIGINT)),
            ("HUP", &|person| person.signal(Signal::SIGHUP)),
            ("QUIT", &|person| person.signal(Signal::SIGQUIT)),
            ("its daemon dies", &|person| {
                let mut started = below(person.pid());
                started.retain(|process| process.name == "agentd");
                let [agentd] = &started[..] else {
                    panic!("{started:?}");
                };
                kill(Pid::from_raw(agentd.pid), Signal::SIGKILL).expect("it lives");
            }),
        ];
        for (how, end) in ends {
            let mut person = Person::start(&world, WAITS);
            person.shows("up");
            person.is_raw();
            end(&mut person);
            person.ends();
            eprintln!("{mode:?} {how}");
            person.is_as_before();
        }
    });
}

#[test]
fn a_stopped_client_leaves_the_terminal_as_it_was_and_takes_it_again_when_it_goes_on() {
    in_every_mode(|mode: Mode| {
        let world = World::new(mode);
        let mut person = Person::start(&world, WAITS);
        person.shows("up");
        person.is_raw();
        for _ in 0..2 {
            person.signal(Signal::SIGTSTP);
            person.is_stopped();
            person.is_as_before();
            person.signal(Signal::SIGCONT);
            person.is_raw();
        }
        person.types("one\r");
        person.shows("got one");
        // Nothing is told of this stop; the shell that the person uses meanwhile has modes of its own.
        person.signal(Signal::SIGSTOP);
        person.is_stopped();
        let mut of_shell = person.before.clone();
        of_shell.output_flags.insert(OutputFlags::ONOCR);
        tcsetattr(&person.terminal, SetArg::TCSANOW, &of_shell).expect("a terminal");
        person.signal(Signal::SIGCONT);
        person.is_raw();
        person.types("two\r");
        person.ends();
        person.before = of_shell;
        person.is_as_before();
    });
}
