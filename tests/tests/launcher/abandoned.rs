//! What a launcher leaves when its whole pid namespace is killed, so that nobody cleans up: the next one to
//! start removes it, and nothing of one that lives.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use agentd_sandbox::policy::{Program, SessionKey};
use agentd_tests::harness::{Mode, children_of, in_every_mode, is_running, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, geteuid},
};

use crate::drive::Launcher;

const SOON: Duration = Duration::from_secs(20);

/// How a daemon's pid namespace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Its first process is killed.
    First,
    /// So is the one that made it, and takes it along.
    Maker,
}

/// A launcher in a pid namespace of its own.
struct Apart {
    launcher: Launcher,
    /// Its pid here.
    pid: i32,
    /// Number of its pid namespace.
    namespace: String,
    session: u64,
}

impl Apart {
    fn start(mode: Mode) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let session = u64::from(std::process::id()) * 1_000_000 + number;
        let mut launcher = Launcher::start_apart(mode);
        let pid = children_of(launcher.pid())
            .first()
            .expect("the launcher")
            .pid;
        let link = fs::read_link(format!("/proc/{pid}/ns/pid")).expect("a namespace");
        let namespace = link.to_string_lossy().into_owned();
        let namespace = namespace.chars().filter(char::is_ascii_digit).collect();
        launcher.session_of(SessionKey(session));
        Self {
            launcher,
            pid,
            namespace,
            session,
        }
    }

    /// Starts a command and does not wait for its end.
    fn occupy(&mut self) {
        let invocation = self.launcher.invocation(Program::Script);
        let mut run = self.launcher.ask(invocation, "echo up; sleep 600");
        run.started();
        run.shows("up");
    }

    /// Its directory and its groups.
    fn traces(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let session = PathBuf::from(format!(
            "/tmp/agentd-1-{}-s{}",
            self.namespace, self.session
        ));
        found.extend(session.exists().then_some(session));
        collect(Path::new("/sys/fs/cgroup"), &self.namespace, &mut found);
        found
    }

    fn die(&mut self, death: Death) {
        // It would begin to clean up before it is killed too.
        let children = children_of(self.pid).into_iter();
        for janitor in children.filter(|child| child.name == "agentd-janitor") {
            kill(Pid::from_raw(janitor.pid), Signal::SIGSTOP).expect("a STOP");
        }
        match death {
            Death::First => {
                kill(Pid::from_raw(self.pid), Signal::SIGKILL).expect("a KILL");
                self.launcher.bury();
            }
            Death::Maker => self.launcher.kill(),
        }
        assert!(wait_until(SOON, || !is_running(self.pid)));
        let world = &self.launcher.world;
        assert!(wait_until(SOON, || world.everything().is_empty()));
    }
}

/// Groups of launchers of this pid namespace.
fn collect(directory: &Path, namespace: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // The number of a namespace comes back, and others may have left something: this one is its first.
            if name == format!("agentd-1-{namespace}") {
                found.push(entry.path());
            }
            collect(&entry.path(), namespace, found);
        }
    }
}

#[test]
fn the_next_launcher_removes_what_a_killed_pid_namespace_left_and_nothing_of_a_living_one() {
    if !geteuid().is_root() {
        eprintln!("only root makes a pid namespace without a user namespace");
        return;
    }
    in_every_mode(|mode| {
        let mut living = Apart::start(mode);
        let before = living.traces();
        let deaths: &[Death] = match mode {
            Mode::Root => &[Death::First, Death::Maker],
            // A change of user clears the wish to die with the maker.
            Mode::Rootless | Mode::Nested => &[Death::First],
        };
        for busy in [false, true] {
            for death in deaths {
                let mut dead = Apart::start(mode);
                if busy {
                    dead.occupy();
                }
                let made = dead.traces();
                let has_groups = made.len() > 1;
                assert!(
                    !made.is_empty() && (mode != Mode::Root || has_groups),
                    "{made:?}"
                );
                dead.die(*death);
                drop(Launcher::start(mode));
                // Another test's launcher may be at it in the same moment.
                let gone = wait_until(SOON, || dead.traces().is_empty());
                assert!(gone, "{mode:?} {death:?} {busy}: {:?}", dead.traces());
                // It runs nothing, so all of its groups are empty.
                assert_eq!(living.traces(), before, "{mode:?} {death:?} {busy}");
            }
        }
        // Nor does one in yet another namespace take it for dead, where all pids look alike.
        let other = Apart::start(mode);
        assert_eq!(living.traces(), before);
        assert_eq!(living.launcher.script("echo good").stdout, "good\n");
        drop(other);
    });
}
