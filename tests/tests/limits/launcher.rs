//! A launcher without a front end, driven in its own language.

use std::{
    fs,
    io::Read as _,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agentd_sandbox::{
    monitor::{
        Cause, Channel, Event, ExecKey, JailReport, LeaderStatus, LimitHit, LimitKind, Received,
        Request, SignalScope, StopReason, Usage,
    },
    policy::{Caller, Invocation, Lifetime, LimitRequest, Limits, Program, Stdin, TerminalSize},
};
use agentd_tests::harness::{Mode, World, binaries, wait_until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Longest wait for anything; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A launcher and the world its commands run in. Dropping it ends it and checks that no control group
/// of it is left.
pub(crate) struct Launcher {
    pub(crate) world: World,
    channel: Option<Channel<Request, Event>>,
    child: Child,
    /// What it said of the host's control groups.
    pub(crate) cgroup: String,
    /// Its capabilities: name, works, detail.
    pub(crate) capabilities: Vec<(String, bool, String)>,
    next: u64,
}

/// A command that runs.
pub(crate) struct Started {
    pub(crate) exec: ExecKey,
    pub(crate) report: JailReport,
    pub(crate) limits: Limits,
    output: OwnedFd,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) cause: Cause,
    pub(crate) status: LeaderStatus,
    pub(crate) usage: Usage,
    pub(crate) hits: Vec<LimitHit>,
    pub(crate) proven: bool,
    pub(crate) leftover: u32,
    pub(crate) output: String,
}

impl Ended {
    /// Whether a limit was named.
    pub(crate) fn hit(&self, limit: LimitKind) -> Option<&LimitHit> {
        self.hits.iter().find(|hit| hit.limit == limit)
    }
}

impl Launcher {
    /// Starts one on this kind of host.
    pub(crate) fn start(mode: Mode, args: &[&str]) -> Self {
        let program = binaries().join("agentd-launcher");
        let mut command = mode.command(program.as_os_str());
        command.args(args);
        Self::of(mode, command)
    }

    /// Starts one by this command.
    pub(crate) fn of(mode: Mode, mut command: Command) -> Self {
        let world = World::new(mode);
        let (channel, theirs) = Channel::<Request, Event>::pair().unwrap();
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .stdin(Stdio::from(theirs.into_fd()));
        let child = command.spawn().unwrap();
        drop(command);
        let mut launcher = Self {
            world,
            channel: Some(channel),
            child,
            cgroup: String::new(),
            capabilities: Vec::new(),
            next: 0,
        };
        match launcher.event() {
            Event::Ready {
                cgroup,
                capabilities,
                profiles,
                ..
            } => {
                (launcher.cgroup, launcher.capabilities) = (cgroup, capabilities);
                for _ in 0..profiles {
                    launcher.event();
                }
            }
            other => panic!("not a greeting: {other:?}"),
        }
        launcher
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// KILL to the launcher itself.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn channel(&self) -> &Channel<Request, Event> {
        self.channel.as_ref().unwrap()
    }

    /// The next word of the launcher.
    pub(crate) fn event(&self) -> Event {
        self.received().message
    }

    fn received(&self) -> Received<Event> {
        let mut watched = [PollFd::new(self.channel().as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).unwrap();
        assert_eq!(
            poll(&mut watched, patience),
            Ok(1),
            "the launcher is silent"
        );
        self.channel().recv().unwrap().expect("the launcher lives")
    }

    fn invocation(&self, argv: &[&str], limits: LimitRequest) -> Invocation {
        Invocation {
            profile: "workspace".to_owned(),
            workspace: self.world.workspace.canonicalize().unwrap(),
            cwd: None,
            program: Program::Argv(argv.iter().map(|word| word.as_bytes().to_vec()).collect()),
            env_set: std::collections::BTreeMap::new(),
            env_unset: Vec::new(),
            limits,
            caller: Caller {
                uid: self.world.mode.uid(),
                gid: self.world.mode.uid(),
            },
            stdin: Stdin::Null,
            terminal: None,
            lifetime: Lifetime::Call,
            in_session: None,
        }
    }

    /// Starts a command as the user of the world.
    pub(crate) fn spawn(&mut self, argv: &[&str], limits: LimitRequest) -> Started {
        let invocation = self.invocation(argv, limits);
        self.spawn_as(invocation)
            .unwrap_or_else(|event| panic!("{event:?}"))
    }

    /// Starts a command as somebody else.
    pub(crate) fn spawn_by(&mut self, uid: u32, argv: &[&str], limits: LimitRequest) -> Started {
        let mut invocation = self.invocation(argv, limits);
        invocation.caller = Caller { uid, gid: uid };
        self.spawn_as(invocation)
            .unwrap_or_else(|event| panic!("{event:?}"))
    }

    /// Starts a command of another profile; what the launcher says instead of `Started`.
    pub(crate) fn refused(&mut self, profile: &str) -> Option<Event> {
        let mut invocation = self.invocation(&["true"], LimitRequest::default());
        profile.clone_into(&mut invocation.profile);
        match self.spawn_as(invocation) {
            Ok(started) => {
                self.finish(started);
                None
            }
            Err(event) => Some(*event),
        }
    }

    fn spawn_as(&mut self, invocation: Invocation) -> Result<Started, Box<Event>> {
        let exec = ExecKey(self.next);
        self.next += 1;
        let (output, theirs) = std::io::pipe().unwrap();
        let request = Request::Spawn {
            exec,
            invocation: Box::new(invocation),
        };
        let fds = [theirs.as_fd(), theirs.as_fd()];
        self.channel().send(&request, &fds).unwrap();
        drop(theirs);
        match self.event() {
            Event::Started { report, limits, .. } => Ok(Started {
                exec,
                report: *report,
                limits,
                output: output.into(),
            }),
            other => Err(Box::new(other)),
        }
    }

    /// Starts a command that sleeps. Its terminal, if it is to have one, is among the descriptors; what the
    /// launcher says instead of `Started`.
    #[expect(clippy::result_large_err, reason = "a test, where it costs nothing")]
    pub(crate) fn sleeper(
        &mut self,
        terminal: Option<TerminalSize>,
    ) -> Result<(ExecKey, Vec<OwnedFd>), Event> {
        let exec = ExecKey(self.next);
        self.next += 1;
        let mut invocation = self.invocation(&["sleep", "300"], LimitRequest::default());
        invocation.terminal = terminal;
        let null = fs::File::open("/dev/null").unwrap();
        let fds = match terminal {
            Some(_) => Vec::new(),
            None => vec![null.as_fd(); 2],
        };
        let invocation = Box::new(invocation);
        let request = Request::Spawn { exec, invocation };
        self.channel().send(&request, &fds).unwrap();
        let received = self.received();
        match received.message {
            Event::Started { .. } => Ok((exec, received.fds)),
            other => Err(other),
        }
    }

    /// Waits until nothing of an execution is left.
    pub(crate) fn ended(&self, wanted: ExecKey) {
        while !matches!(self.event(), Event::Ended { exec, .. } if exec == wanted) {}
    }

    /// Asks for a command in another workspace, and does not wait for the answer.
    pub(crate) fn begin(&mut self, workspace: &Path) -> ExecKey {
        let exec = ExecKey(self.next);
        self.next += 1;
        let invocation = Box::new(self.invocation_in(workspace));
        let null = fs::File::open("/dev/null").unwrap();
        let fds = [null.as_fd(); 2];
        let request = Request::Spawn { exec, invocation };
        self.channel().send(&request, &fds).unwrap();
        exec
    }

    /// What `true` is asked for with in another workspace.
    pub(crate) fn invocation_in(&self, workspace: &Path) -> Invocation {
        Invocation {
            workspace: workspace.to_owned(),
            ..self.invocation(&["true"], LimitRequest::default())
        }
    }

    /// Says something to the launcher.
    pub(crate) fn tell(&self, request: &Request) {
        self.channel().send(request, &[]).unwrap();
    }

    /// Ends it for a reason of ours.
    pub(crate) fn stop(&self, exec: ExecKey) {
        let request = Request::Stop {
            exec,
            reason: StopReason::Cancelled,
            grace_ms: Some(0),
        };
        self.channel().send(&request, &[]).unwrap();
    }

    /// A client's KILL to the leader.
    pub(crate) fn kill_leader(&self, exec: ExecKey) {
        let request = Request::Signal {
            exec,
            signal: 9,
            scope: SignalScope::Leader,
        };
        self.channel().send(&request, &[]).unwrap();
    }

    /// Waits for the end of a command, and finishes it when its leader has ended.
    pub(crate) fn finish(&mut self, started: Started) -> Ended {
        let mut ended = loop {
            match self.event() {
                Event::LeaderExited { exec, .. } => {
                    self.channel().send(&Request::Finish { exec }, &[]).unwrap();
                }
                Event::Ended {
                    exec,
                    cause,
                    status,
                    leftover,
                    usage,
                    hits,
                    proven,
                    ..
                } => {
                    assert_eq!(exec, started.exec);
                    break Ended {
                        cause,
                        status,
                        usage,
                        hits,
                        proven,
                        leftover,
                        output: String::new(),
                    };
                }
                other => panic!("{other:?}"),
            }
        };
        fs::File::from(started.output)
            .read_to_string(&mut ended.output)
            .unwrap();
        ended
    }

    /// Runs a program to its end.
    pub(crate) fn run(&mut self, argv: &[&str], limits: LimitRequest) -> Ended {
        let started = self.spawn(argv, limits);
        self.finish(started)
    }

    /// Runs a script to its end.
    pub(crate) fn bash(&mut self, script: &str, limits: LimitRequest) -> Ended {
        self.run(&["bash", "-c", script], limits)
    }
}

impl Started {
    /// Waits until it has printed a line, and returns it.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let start = Instant::now();
        let mut output = fs::File::from(self.output.try_clone().unwrap());
        while !line.ends_with('\n') {
            assert!(start.elapsed() < PATIENCE, "no line: {line:?}");
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "ended after {line:?}");
            line.push(char::from(byte[0]));
        }
        line
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        drop(self.channel.take());
        let ended = wait_until(Duration::from_secs(10), || {
            self.child.try_wait().unwrap().is_some()
        });
        if !std::thread::panicking() {
            assert!(ended, "the launcher does not end");
            assert_eq!(groups_of(self.pid()), Vec::<PathBuf>::new());
        }
    }
}

/// The control groups of a launcher in every hierarchy.
pub(crate) fn groups_of(launcher: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(
        Path::new("/sys/fs/cgroup"),
        &format!("agentd-{launcher}-"),
        &mut found,
    );
    found
}

fn collect(directory: &Path, prefix: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            }
            collect(&entry.path(), prefix, found);
        }
    }
}
