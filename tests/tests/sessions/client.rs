//! A front end as small as it gets: it sends requests to a real `agentd-launcher` and waits for events.

use std::{
    collections::VecDeque,
    fs::File,
    io::{Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use agentd_sandbox::{
    monitor::{Channel, Event, ExecKey, LeaderStatus, Request},
    policy::{
        Caller, Carried, InSession, Invocation, Lifetime, LimitRequest, Program, Refusal,
        SessionKey, Stdin,
    },
};
use agentd_tests::harness::{Mode, World, binaries, wait_until};
use nix::{
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::memfd::{MFdFlags, memfd_create},
    unistd::pipe2,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// A profile that every tier accepts.
const PROFILE: &str = "workspace";

/// A running launcher and our end of its channel.
pub struct Launcher {
    pub mode: Mode,
    process: Child,
    channel: Channel<Request, Event>,
    heard: VecDeque<(Event, Vec<OwnedFd>)>,
    next: u64,
}

/// A started command.
pub struct Running {
    pub exec: ExecKey,
    /// Path of its output file as the commands of the session see it.
    pub output_file: String,
    /// The output file.
    pub file: Option<File>,
    output: File,
}

/// An ended command.
#[derive(Debug)]
pub struct Ended {
    pub status: LeaderStatus,
    pub output: String,
}

impl Ended {
    /// The output of a command that must have succeeded.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.status, LeaderStatus::Exited(0), "{}", self.output);
        self.output
    }
}

impl Launcher {
    /// Starts one on this world's kind of host.
    pub fn start(world: &World) -> Self {
        let (channel, theirs) = Channel::<Request, Event>::pair().expect("a socket pair");
        let program = binaries().join("agentd-launcher");
        let mut command = world.mode.command(program.as_os_str());
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        command
            .env("HOME", &world.home)
            .current_dir(&world.workspace);
        command.stdin(Stdio::from(theirs.into_fd()));
        let process = command.spawn().expect("the launcher starts");
        let mut launcher = Self {
            mode: world.mode,
            process,
            channel,
            heard: VecDeque::new(),
            next: 1,
        };
        let (ready, _) = launcher.wait_for(|event| matches!(event, Event::Ready { .. }));
        if let Event::Ready { tier, .. } = ready {
            assert_eq!(tier.short(), world.mode.tier());
        }
        launcher
    }

    /// Its process id: what stands before it on the command line has become it.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Takes the first event that fits.
    #[track_caller]
    pub fn wait_for(&mut self, fits: impl Fn(&Event) -> bool) -> (Event, Vec<OwnedFd>) {
        let start = Instant::now();
        loop {
            if let Some(index) = self.heard.iter().position(|(event, _)| fits(event)) {
                return self.heard.remove(index).expect("it is there");
            }
            let left = PATIENCE.checked_sub(start.elapsed());
            let left = left.unwrap_or_else(|| panic!("it never came; heard: {:#?}", self.heard));
            let mut watched = [PollFd::new(self.channel.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).expect("a short time");
            if poll(&mut watched, timeout).expect("poll") > 0 {
                let received = self.channel.recv().expect("a message");
                let received = received.expect("the launcher is alive");
                // Nobody here asks what the profiles are.
                if !matches!(received.message, Event::Profile(_)) {
                    self.heard.push_back((received.message, received.fds));
                }
            }
        }
    }

    pub fn send(&self, request: &Request, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        self.channel
            .send(request, &fds)
            .expect("the launcher takes it");
    }

    /// Asks for a session as this user.
    pub fn try_open(&mut self, key: u64, workspace: &Path) -> Result<(), Refusal> {
        let session = SessionKey(key);
        let request = Request::OpenSession {
            session,
            profile: PROFILE.to_owned(),
            workspace: workspace.to_owned(),
            caller: caller(self.mode),
        };
        self.send(&request, &[]);
        let answer = |event: &Event| matches!(event, Event::SessionOpened { session: of, .. } if *of == session);
        match self.wait_for(answer).0 {
            Event::SessionOpened { result, .. } => result.map(drop),
            _ => unreachable!(),
        }
    }

    #[track_caller]
    pub fn open(&mut self, key: u64, world: &World) {
        self.try_open(key, &world.workspace).expect("a session");
    }

    /// Closes a session and waits until nothing is left of it.
    #[track_caller]
    pub fn close(&mut self, key: u64) {
        let session = SessionKey(key);
        self.send(&Request::CloseSession { session }, &[]);
        self.wait_for(
            |event| matches!(event, Event::SessionClosed { session: of } if *of == session),
        );
    }

    /// Starts a script.
    #[track_caller]
    pub fn spawn(&mut self, invocation: Invocation, script: &str) -> Result<Running, Refusal> {
        let exec = ExecKey(self.next);
        self.next += 1;
        let (output, into) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        let fds = [
            into.try_clone().expect("a copy"),
            into,
            script_file(script).into(),
        ];
        let request = Request::Spawn {
            exec,
            invocation: Box::new(invocation),
        };
        self.send(&request, &fds);
        drop(fds);
        let (event, fds) = self.wait_for(|event| match event {
            Event::Started { exec: of, .. }
            | Event::Refused { exec: of, .. }
            | Event::SetupFailed { exec: of, .. } => *of == exec,
            _ => false,
        });
        match event {
            Event::Started { output_file, .. } => Ok(Running {
                exec,
                output_file,
                file: fds.into_iter().next().map(File::from),
                output: output.into(),
            }),
            Event::Refused { refusal, .. } => Err(refusal),
            other => panic!("{script}: {other:?}"),
        }
    }

    /// Lets a command end, as a front end does once it has read everything; returns how it ended.
    #[track_caller]
    pub fn finish(&mut self, mut running: Running) -> Ended {
        let exec = running.exec;
        self.wait_for(|event| matches!(event, Event::LeaderExited { exec: of, .. } if *of == exec));
        self.send(&Request::Finish { exec }, &[]);
        self.ended(&mut running)
    }

    /// Waits for the end of a command that something else ends.
    #[track_caller]
    pub fn ended(&mut self, running: &mut Running) -> Ended {
        let exec = running.exec;
        let ended = |event: &Event| matches!(event, Event::Ended { exec: of, .. } if *of == exec);
        let Event::Ended { status, .. } = self.wait_for(ended).0 else {
            unreachable!()
        };
        let mut output = Vec::new();
        running.output.read_to_end(&mut output).expect("its output");
        Ended {
            status,
            output: String::from_utf8_lossy(&output).into_owned(),
        }
    }

    /// Runs a script in a session to its end.
    #[track_caller]
    pub fn run(&mut self, key: u64, world: &World, script: &str) -> Ended {
        let invocation = in_session(world, key);
        let running = self.spawn(invocation, script).expect("it is not refused");
        self.finish(running)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().expect("a KILL");
        self.process.wait().expect("its end");
    }

    /// Closes the channel and waits for the end.
    pub fn leave(self) {
        let Self {
            mut process,
            channel,
            ..
        } = self;
        drop(channel);
        assert!(wait_until(PATIENCE, || process
            .try_wait()
            .expect("its state")
            .is_some()));
        assert!(process.wait().expect("its end").success());
    }
}

impl Running {
    /// Reads one line of output.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).expect("output") == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }
}

pub fn caller(mode: Mode) -> Caller {
    Caller {
        uid: mode.uid(),
        gid: mode.uid(),
    }
}

/// A script outside any session.
pub fn alone(world: &World) -> Invocation {
    Invocation {
        profile: PROFILE.to_owned(),
        workspace: world.workspace.clone(),
        cwd: None,
        program: Program::Script,
        env_set: std::collections::BTreeMap::new(),
        env_unset: Vec::new(),
        limits: LimitRequest::default(),
        caller: caller(world.mode),
        stdin: Stdin::Null,
        terminal: None,
        lifetime: Lifetime::Call,
        in_session: None,
    }
}

/// A script in a session.
pub fn in_session(world: &World, key: u64) -> Invocation {
    Invocation {
        in_session: Some(Box::new(InSession {
            session: SessionKey(key),
            carried: Carried::default(),
            report_state: false,
            output_file: None,
        })),
        ..alone(world)
    }
}

/// A script in a session whose output is kept under this name.
pub fn kept(world: &World, key: u64, name: &str) -> Invocation {
    let mut invocation = in_session(world, key);
    if let Some(session) = &mut invocation.in_session {
        session.output_file = Some(name.to_owned());
    }
    invocation
}

/// A script as the front end hands it over: nobody can change it any more.
fn script_file(script: &str) -> File {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create("script", flags).expect("a memory file"));
    file.write_all(script.as_bytes()).expect("the script");
    file.rewind().expect("its start");
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("seals");
    file
}
