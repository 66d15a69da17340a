//! A stand-in for the front end: it starts the launcher, asks for commands, and watches what comes back.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command},
    time::Duration,
};

use agentd_sandbox::{
    monitor::{Cause, Channel, Event, ExecKey, LeaderStatus, Request, SetupFailure, SignalScope},
    policy::{
        Caller, Carried, InSession, Invocation, Lifetime, LimitRequest, Limits, Program, Refusal,
        SessionKey, Stdin, TerminalSize,
    },
};
use agentd_tests::harness::{Mode, World, binaries};
use nix::{
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::{Mode as FileMode, fchmod},
    },
    unistd::pipe2,
};

use crate::reader::Reader;

/// Nothing here takes longer, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running launcher.
pub struct Launcher {
    pub world: World,
    /// Its control groups, `none` without any.
    pub cgroup: String,
    channel: Option<Channel<Request, Event>>,
    process: Child,
    next: u64,
    killed: bool,
}

impl Launcher {
    pub fn start(mode: Mode) -> Self {
        let command = mode.command(binaries().join("agentd-launcher").as_os_str());
        Self::of(mode, command)
    }

    /// Starts it in a pid namespace of its own, as its first process.
    pub fn start_apart(mode: Mode) -> Self {
        let inner = mode.command(binaries().join("agentd-launcher").as_os_str());
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]);
        command.arg(inner.get_program()).args(inner.get_args());
        Self::of(mode, command)
    }

    fn of(mode: Mode, mut command: Command) -> Self {
        let world = World::new(mode);
        let (channel, theirs) = Channel::pair().expect("a socket pair");
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("HOME", &world.home);
        let process = command
            .stdin(theirs.into_fd())
            .spawn()
            .expect("the launcher starts");
        drop(command);
        let mut launcher = Self {
            world,
            cgroup: String::new(),
            channel: Some(channel),
            process,
            next: 0,
            killed: false,
        };
        let (event, _) = launcher.event();
        let Event::Ready {
            tier,
            profiles,
            cgroup,
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        launcher.cgroup = cgroup;
        assert!(tier.to_string().starts_with(mode.tier()), "{tier}");
        for _ in 0..profiles {
            launcher.event();
        }
        launcher
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).expect("a pid")
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().expect("a KILL");
        self.bury();
    }

    /// Somebody has killed it.
    pub fn bury(&mut self) {
        self.process.wait().expect("its end");
        self.killed = true;
    }

    fn channel(&self) -> &Channel<Request, Event> {
        self.channel.as_ref().expect("open until the end")
    }

    pub fn send(&self, request: &Request, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        self.channel().send(request, &fds).expect("it is sent");
    }

    /// The next event, with its descriptors.
    #[track_caller]
    pub fn event(&mut self) -> (Event, Vec<OwnedFd>) {
        let mut fds = [PollFd::new(self.channel().as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(PATIENCE).expect("a timeout");
        assert_ne!(poll(&mut fds, timeout), Ok(0), "the launcher says nothing");
        let received = self.channel().recv().expect("a message");
        let received = received.expect("the launcher is there");
        (received.message, received.fds)
    }

    /// A command of the `workspace` profile; the rest as a client that asks for nothing.
    pub fn invocation(&self, program: Program) -> Invocation {
        let uid = self.world.mode.uid();
        Invocation {
            profile: "workspace".to_owned(),
            workspace: self.world.workspace.clone(),
            cwd: None,
            program,
            env_set: BTreeMap::new(),
            env_unset: Vec::new(),
            limits: LimitRequest::default(),
            caller: Caller { uid, gid: uid },
            stdin: Stdin::Null,
            terminal: None,
            lifetime: Lifetime::Call,
            in_session: None,
        }
    }

    /// Opens a session; what its commands carry is the caller's to fill in.
    pub fn session(&mut self) -> InSession {
        self.next += 1;
        self.session_of(SessionKey(self.next))
    }

    /// Opens a session of this name.
    pub fn session_of(&mut self, session: SessionKey) -> InSession {
        let plain = self.invocation(Program::Script);
        self.send(
            &Request::OpenSession {
                session,
                profile: plain.profile,
                workspace: plain.workspace,
                caller: plain.caller,
            },
            &[],
        );
        match self.event().0 {
            Event::SessionOpened {
                session: opened,
                result: Ok(environment),
            } => {
                assert_eq!(opened, session);
                assert!(environment.contains_key("PATH"), "{environment:?}");
            }
            other => panic!("{other:?}"),
        }
        InSession {
            session,
            carried: Carried::default(),
            report_state: false,
            output_file: None,
        }
    }

    /// Asks for a command and does not wait.
    pub fn ask(&mut self, invocation: Invocation, script: &str) -> Run<'_> {
        let script = (invocation.program == Program::Script).then(|| sealed(script.as_bytes()));
        self.ask_with(invocation, script)
    }

    pub fn ask_with(&mut self, invocation: Invocation, script: Option<OwnedFd>) -> Run<'_> {
        self.next += 1;
        let exec = ExecKey(self.next);
        let mut fds = Vec::new();
        let mut read = Vec::new();
        if invocation.terminal.is_none() {
            for _ in 0..2 {
                let (ours, theirs) = open_pipe();
                read.push(Reader::of(ours));
                fds.push(theirs);
            }
        }
        fds.extend(script);
        let mut stdin = None;
        if invocation.terminal.is_none() && invocation.stdin == Stdin::Pipe {
            let (theirs, ours) = open_pipe();
            fds.push(theirs);
            stdin = Some(File::from(ours));
        }
        let reports = invocation
            .in_session
            .as_ref()
            .is_some_and(|session| session.report_state);
        let mut state = None;
        if reports {
            let (ours, theirs) = open_pipe();
            state = Some(Reader::of(ours));
            fds.push(theirs);
        }
        let invocation = Box::new(invocation);
        self.send(&Request::Spawn { exec, invocation }, &fds);
        drop(fds);
        let mut read = read.into_iter();
        Run {
            exec,
            stdout: read.next(),
            stderr: read.next(),
            state,
            stdin,
            master: None,
            launcher: self,
        }
    }

    /// Runs a command to its end.
    #[track_caller]
    pub fn run(&mut self, invocation: Invocation, script: &str) -> Outcome {
        let mut run = self.ask(invocation, script);
        let started = run.started();
        run.end(started)
    }

    /// Runs a script without anything special to its end.
    #[track_caller]
    pub fn script(&mut self, script: &str) -> Outcome {
        let invocation = self.invocation(Program::Script);
        self.run(invocation, script)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // The end of the conversation is the end of the launcher and of everything that it runs.
        self.channel = None;
        let ended = self.process.wait();
        if !std::thread::panicking() && !self.killed {
            assert!(ended.expect("it ends").success());
        }
    }
}

/// What the launcher says of a command that runs.
#[derive(Debug, Clone)]
pub struct Started {
    pub limits: Limits,
    pub cwd: String,
    pub notes: Vec<String>,
}

/// A command that was asked for.
pub struct Run<'launcher> {
    pub launcher: &'launcher mut Launcher,
    pub exec: ExecKey,
    /// Standard output, or everything that the terminal shows.
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    pub state: Option<Reader>,
    pub stdin: Option<File>,
    /// The terminal's master.
    pub master: Option<File>,
}

impl Run<'_> {
    /// Waits for the start.
    #[track_caller]
    pub fn started(&mut self) -> Started {
        let (event, fds) = self.launcher.event();
        let Event::Started {
            exec,
            limits,
            cwd,
            notes,
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        assert_eq!(exec, self.exec);
        let mut fds = fds.into_iter();
        if self.stdout.is_none() {
            let master = fds.next().expect("the terminal comes with the start");
            // Held, it would hide the end of the output.
            drop(fds.next().expect("its other side comes, too"));
            let copy = master.try_clone().expect("a copy");
            self.stdout = Some(Reader::of(copy));
            self.master = Some(master.into());
        }
        assert!(fds.next().is_none(), "too many descriptors");
        Started { limits, cwd, notes }
    }

    /// Waits for a refusal or a failure.
    #[track_caller]
    pub fn not_started(self) -> Result<SetupFailure, Refusal> {
        match self.launcher.event().0 {
            Event::Refused { refusal, .. } => Err(refusal),
            Event::SetupFailed { failure, .. } => Ok(failure),
            event => panic!("{event:?}"),
        }
    }

    /// Waits until standard output, or the terminal, shows this.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        self.stdout.as_ref().expect("an output").wait_for(text);
    }

    /// Types into the terminal, or writes to standard input.
    pub fn types(&mut self, text: &str) {
        let to = self.master.as_mut().or(self.stdin.as_mut());
        to.expect("an input")
            .write_all(text.as_bytes())
            .expect("it is taken");
    }

    pub fn signal(&self, signal: i32, scope: SignalScope) {
        let exec = self.exec;
        let request = Request::Signal {
            exec,
            signal,
            scope,
        };
        self.launcher.send(&request, &[]);
    }

    /// Waits for the end of the leader, then for that of everything.
    #[track_caller]
    pub fn end(self, started: Started) -> Outcome {
        let (event, _) = self.launcher.event();
        let Event::LeaderExited { exec, status } = event else {
            panic!("{event:?}");
        };
        assert_eq!(exec, self.exec);
        self.launcher.send(&Request::Finish { exec }, &[]);
        let (event, _) = self.launcher.event();
        let Event::Ended {
            exec,
            cause,
            status: last,
            leftover,
            proven,
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        assert_eq!((exec, status), (self.exec, last));
        drop((self.master, self.stdin));
        let all = |reader: Option<Reader>| reader.map(Reader::finish).unwrap_or_default();
        Outcome {
            started,
            status,
            cause,
            leftover,
            proven,
            stdout: text(all(self.stdout)),
            stderr: text(all(self.stderr)),
            state: all(self.state),
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    pub started: Started,
    pub status: LeaderStatus,
    pub cause: Cause,
    pub leftover: u32,
    pub proven: bool,
    pub stdout: String,
    pub stderr: String,
    pub state: Vec<u8>,
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

/// A pipe that any user can open again by name, as the front end makes them.
fn open_pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    fchmod(&read, FileMode::from_bits_truncate(0o666)).expect("a mode");
    (read, write)
}

/// A memory file with this content, and no seals.
pub fn unsealed(bytes: &[u8]) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create("script", flags).expect("a memory file");
    let mut file = File::from(fd);
    file.write_all(bytes).expect("its content");
    file.into()
}

/// A script as the front end hands it over.
pub fn sealed(bytes: &[u8]) -> OwnedFd {
    let fd = unsealed(bytes);
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).expect("its seals");
    fd
}

/// A terminal of this size.
pub const fn terminal(columns: u16, rows: u16) -> TerminalSize {
    TerminalSize { columns, rows }
}

/// The leader ended with this exit code.
pub const fn exited(code: i32) -> LeaderStatus {
    LeaderStatus::Exited(code)
}

/// The leader was ended by this signal.
pub const fn signaled(signal: i32) -> LeaderStatus {
    LeaderStatus::Signaled {
        signal,
        core: false,
    }
}
