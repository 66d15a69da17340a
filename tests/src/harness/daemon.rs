//! A daemon on its own socket.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal;

use super::{
    binaries,
    program::{Ended, Program, Running},
    survivors::{children_of, parent_of, processes_named},
    wait::wait_until,
    world::World,
};

const START: Duration = Duration::from_secs(20);

/// A running `agentd serve`. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    running: Running,
    /// Its socket.
    pub socket: PathBuf,
}

impl Daemon {
    /// Starts a daemon of this world and waits until it listens.
    pub fn start(world: &World) -> Self {
        Self::start_by(world, |world, agentd, words| {
            world.program(agentd).args(words)
        })
    }

    /// Starts a daemon by a program of the caller's making, which must become agentd in the end. It is
    /// given the path of agentd and its arguments.
    pub fn start_by(
        world: &World,
        program: impl FnOnce(&World, &Path, &[&str]) -> Program,
    ) -> Self {
        let directory = world.base.join("run");
        fs::create_dir_all(&directory).expect("a directory for the socket");
        world.give(&directory);
        let socket = directory.join("agentd.sock");
        let listen = format!("unix:{}", socket.display());
        let agentd = binaries().join("agentd");
        let mut running = program(world, &agentd, &["serve", "--listen", &listen]).start();
        let mut ended = None;
        let listens = wait_until(START, || {
            ended = running.try_wait();
            ended.is_some() || UnixStream::connect(&socket).is_ok()
        });
        let daemon = Self { running, socket };
        assert!(
            listens && ended.is_none(),
            "no daemon: {}",
            daemon.running.stderr()
        );
        daemon
    }

    /// `agent-cli` of this world, connected to this daemon.
    pub fn cli(&self, world: &World, words: &[&str]) -> Program {
        let url = format!("unix://{}", self.socket.display());
        world.cli(["--connect", &url]).args(words)
    }

    /// Process id of agentd.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Process id of its launcher.
    pub fn launcher(&self) -> i32 {
        let children = children_of(self.pid());
        let launcher = children
            .iter()
            .find(|child| child.name == "agentd-launcher");
        launcher
            .unwrap_or_else(|| panic!("no launcher among {children:?}"))
            .pid
    }

    /// Processes of the daemon itself while it lives: agentd, its launcher, and the one that cleans up
    /// after a killed launcher. Everything else belongs to a command.
    pub fn own_processes(&self, launcher: i32) -> Vec<i32> {
        let janitors = processes_named("agentd-janitor");
        let ours = janitors.into_iter().filter(|process| {
            parent_of(process.pid).is_some_and(|parent| parent == launcher || parent == self.pid())
        });
        let mut pids = vec![self.pid(), launcher];
        pids.extend(ours.map(|process| process.pid));
        pids
    }

    /// Peak resident memory of agentd in KiB.
    pub fn peak_memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("status");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|text| text.parse().ok()).expect("VmHWM")
    }

    /// Whether agentd is still there.
    pub fn is_running(&mut self) -> bool {
        self.running.try_wait().is_none()
    }

    /// Sends a signal to agentd.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits for the end of agentd.
    pub fn wait(self, deadline: Duration) -> Ended {
        self.running.wait(deadline)
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.running.stderr()
    }
}
