//! One running execution: its descriptors, its state machine, and what it leaves behind.

use std::{
    fmt, io,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use super::{
    lifecycle::{Action, End, Input, Lifecycle, Millis},
    limits::Watch,
    session_home::KeptOutput,
    setup::{Ran, Setup},
    stale::OwnDir,
    tripwire::Tripwires,
};
use crate::{
    cgroup::{Counters, Group},
    launch::{Child, Command, Failure, Notice, RECORD, Record, Report, Stage},
    monitor::{Cause, JailReport, LeaderStatus, LimitKind, SetupFailure, SignalScope, Usage},
    plan::MountStep,
    policy::{Limits, SessionKey, TerminalSize, Tier},
    sys::{files, socket, terminal, wait},
};

/// What has to be cleaned up when an execution is over.
#[derive(Debug)]
pub(crate) struct Leavings {
    /// Throw-away uid.
    pub(crate) uid: Option<u32>,
    /// Private directory on the nested tier.
    pub(crate) tmp: Option<OwnDir>,
    /// Script in its session's directory, on the nested tier.
    pub(crate) script: Option<PathBuf>,
    /// File for its output.
    pub(crate) output: Option<KeptOutput>,
    /// Protected names.
    pub(crate) tripwires: Tripwires,
    /// Control group.
    pub(crate) group: Option<Group>,
}

/// Where a command starts when its session's directory cannot be entered.
#[derive(Debug)]
pub(crate) struct Fallback {
    /// The directory.
    pub(crate) cwd: PathBuf,
    /// What a person is told then.
    pub(crate) note: String,
}

/// Signals that a client may send.
const ACCEPTED: [libc::c_int; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGKILL,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTERM,
    libc::SIGCONT,
    libc::SIGSTOP,
    libc::SIGWINCH,
];

/// A running execution.
#[derive(Debug)]
pub(crate) struct Jail {
    pub(crate) child: Child,
    pub(crate) life: Lifecycle,
    pub(crate) report: JailReport,
    pub(crate) limits: Limits,
    pub(crate) cwd: PathBuf,
    pub(crate) fallback: Option<Fallback>,
    /// Remarks for a person.
    pub(crate) notes: Vec<String>,
    /// The master of its terminal, if it has one.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) setup: Setup,
    pub(crate) ran: Ran,
    pub(crate) failure: Option<Failure>,
    /// A client sent it a KILL.
    pub(crate) killed_by_client: bool,
    /// Its init was reaped.
    pub(crate) gone: bool,
    pub(crate) leavings: Leavings,
    /// The session it is in.
    pub(crate) session: Option<SessionKey>,
    /// Descriptors for the front end, given away when it starts (see `StartedFds`).
    pub(crate) started_fds: Vec<OwnedFd>,
    /// Where commands find its output file; empty without one.
    pub(crate) output_file: String,
    /// Limits that are sampled.
    pub(crate) watch: Watch,
    /// Mount steps of the plan, to say which one failed.
    pub(crate) steps: Vec<MountStep>,
}

impl Jail {
    /// Reads whatever the jail's init has said, and whether it is gone.
    pub(crate) fn observe(&mut self, now: Millis) -> Vec<Action> {
        // ORDER: whether it is gone is asked first: what it said before its end is then all there to
        // be read, and is taken before the end.
        self.gone = !matches!(wait::reap(self.child.pid), Ok(None));
        // ORDER: the pipe before the conversation: a terminal is sent before the program is executed,
        // so it is there to be read once that is known.
        let setup = self.hear_setup();
        let (reports, complete) = self.hear_init(now);
        let mut actions = Vec::new();
        let setup = if complete {
            setup
        } else {
            self.lose_terminal();
            actions.push(Action::KillInit);
            Some(Input::SetupFailed)
        };
        let gone = self.gone.then_some(Input::InitGone);
        for input in setup.into_iter().chain(reports).chain(gone) {
            actions.extend(self.life.step(now, input));
        }
        actions
    }

    /// What the new processes have said about the set-up on the error pipe, if that came to its end.
    fn hear_setup(&mut self) -> Option<Input> {
        if self.setup == Setup::Over {
            return None;
        }
        loop {
            let mut bytes = [0; RECORD];
            let end = match files::read(self.child.errors.as_fd(), &mut bytes) {
                Err(Errno::EAGAIN | Errno::EINTR) => return None,
                // Only a program that was executed closes the pipe without a failure after the notice;
                // whoever was killed before it closes it too.
                Ok(0) if self.setup == Setup::Executing && self.failure.is_none() => {
                    self.watch_private_tmp();
                    Input::Executed
                }
                Ok(0) | Err(_) => Input::SetupFailed,
                Ok(count) => match bytes.get(..count).and_then(Record::decode) {
                    Some(record) => {
                        self.note(record);
                        continue;
                    }
                    None => Input::SetupFailed,
                },
            };
            self.setup = Setup::Over;
            return Some(end);
        }
    }

    /// What init has said in the conversation; false beside it when a terminal was to come and did not.
    fn hear_init(&mut self, now: Millis) -> (Vec<Input>, bool) {
        let mut inputs = Vec::new();
        let mut complete = true;
        let mut bytes = [0; 64];
        while let Ok(received) = socket::recv_with_fds(self.child.control.as_fd(), &mut bytes) {
            if received.length == 0 {
                break;
            }
            match bytes.get(..received.length).and_then(Report::decode) {
                Some(Report::Terminal) => {
                    self.terminal = received.fds.into_iter().next();
                    complete &= self.terminal.is_some();
                }
                Some(Report::LeaderExited { status }) => {
                    let group = self.leavings.group.as_ref();
                    self.watch.leader_ended(now, group);
                    inputs.push(Input::LeaderExited(leader_status(status)));
                }
                Some(Report::Empty {
                    leftover,
                    user_us,
                    system_us,
                    max_rss_bytes,
                    ends,
                }) => {
                    let usage = Usage {
                        user_us,
                        system_us,
                        max_rss_bytes,
                        ..Usage::default()
                    };
                    inputs.push(Input::Empty {
                        leftover,
                        usage,
                        ends,
                    });
                }
                None => complain(format_args!("bug: an init said something unknown")),
            }
        }
        (inputs, complete)
    }

    /// The terminal's master did not arrive: this process has no room for another descriptor. A command
    /// whose terminal nobody can read would only hang.
    fn lose_terminal(&mut self) {
        self.setup = Setup::Over;
        // Nobody hears any more how far the others come before they are killed.
        self.ran = Ran::Perhaps;
        self.failure.get_or_insert(Failure {
            stage: Stage::Terminal,
            index: 0,
            errno: Errno::EMFILE,
        });
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Failure(failure) => {
                self.ran = Ran::Never;
                self.failure = Some(failure);
            }
            Record::Notice(Notice::Executing) => {
                self.ran = Ran::Perhaps;
                self.setup = Setup::Executing;
            }
            Record::Notice(Notice::CwdFellBack) => {
                if let Some(fallback) = self.fallback.take() {
                    self.cwd = fallback.cwd;
                    self.notes.push(fallback.note);
                }
            }
        }
    }

    /// The private directory only came up with the jail. Where it cannot be looked at (without
    /// privilege) its own size bounds it.
    fn watch_private_tmp(&mut self) {
        // ORDER: a pid that was reaped can be anybody's.
        if self.gone {
            return;
        }
        if self.report.tier > Tier::Nested && self.limits.disk_bytes.is_some() {
            let root = format!("/proc/{}/root", self.child.pid);
            if let Ok(directory) = std::fs::File::open(Path::new(&root).join("tmp")) {
                self.watch.also(directory.into());
            }
        }
    }

    /// A signal or KILL by init.
    pub(crate) fn command(&self, command: Command) {
        // A broken conversation means that init is gone, which is observed on its own.
        socket::send_with_fds(self.child.control.as_fd(), &command.encode(), &[])
            .unwrap_or_default();
    }

    /// A client's signal. One that no client may send is ignored, and so is one for a program that is not
    /// running yet: it would hit what builds the jail.
    pub(crate) fn signal(&mut self, signal: i32, scope: SignalScope) {
        let known = u8::try_from(signal).ok();
        if let Some(number) = known.filter(|_| ACCEPTED.contains(&signal))
            && !self.life.is_setting_up()
        {
            self.killed_by_client |= signal == libc::SIGKILL;
            self.command(Command::Signal {
                signal: number,
                scope,
            });
        }
    }

    /// Sets the size of the terminal, if there is one.
    pub(crate) fn resize(&self, size: TerminalSize) {
        if let Some(master) = &self.terminal
            && size.is_possible()
        {
            // It only fails for something that is no terminal.
            terminal::set_size(master.as_fd(), (size.columns, size.rows)).unwrap_or_default();
        }
    }

    /// KILL to init itself, and to its group in case that init cannot die.
    pub(crate) fn kill_init(&self) {
        // ESRCH only says that it is gone already.
        wait::signal_pidfd(self.child.pidfd.as_fd(), libc::SIGKILL).unwrap_or_default();
        if let Some(group) = &self.leavings.group {
            group.kill();
        }
    }

    /// KILL to the tree, by init. On the nested tier, where init has to find everybody by walking, also
    /// by the group, which init is not in: it reaps and reports.
    pub(crate) fn kill_tree(&self) {
        self.command(Command::Kill);
        if self.report.tier == Tier::Nested
            && let Some(group) = &self.leavings.group
        {
            group.kill();
        }
    }

    /// Nothing of it is left for certain: the pid namespace is gone, or the group is empty.
    pub(crate) fn is_proven_gone(&self) -> bool {
        self.report.tier > Tier::Nested || self.leavings.group.as_ref().is_some_and(Group::is_empty)
    }

    /// What the kernel counted; all zero without a group.
    pub(crate) fn counters(&self) -> Counters {
        let group = self.leavings.group.as_ref();
        group.map(Group::counters).unwrap_or_default()
    }

    /// What brought the end about. A leader that died of a KILL ran out of memory if the kernel killed
    /// for want of it just then and no client sent one.
    pub(crate) fn cause(&self, end: &End) -> Cause {
        let killed = matches!(
            end.status,
            LeaderStatus::Signaled { signal, .. } if signal == libc::SIGKILL
        );
        let by_the_kernel = killed && !self.killed_by_client;
        if end.cause == Cause::Leader && by_the_kernel && self.watch.ended_for_want_of_memory() {
            Cause::Limit(LimitKind::Memory)
        } else {
            end.cause
        }
    }

    /// Looks at the limits that are sampled.
    pub(crate) fn sample(&mut self, now: Millis) -> Option<Input> {
        let passed = self.watch.sample(now, self.leavings.group.as_ref());
        passed.map(Input::Limit)
    }

    /// The failure of a jail that took too long.
    pub(crate) fn slow_setup() -> SetupFailure {
        SetupFailure {
            stage: "set-up".to_owned(),
            errno: libc::ETIMEDOUT,
            detail: "the jail did not come up in time".to_owned(),
        }
    }

    /// The failure for the front end.
    pub(crate) fn setup_failure(&self) -> SetupFailure {
        let Some(failure) = self.failure else {
            return SetupFailure {
                stage: "set-up".to_owned(),
                errno: Errno::EIO as i32,
                detail: "the jail was ended while it was being built".to_owned(),
            };
        };
        let counters = self.counters();
        let detail = if counters.oom_kills > 0 {
            let limit = self.limits.memory_bytes.unwrap_or(0);
            format!("the memory limit of {limit} bytes is too small for the jail: ")
        } else if failure.stage == Stage::Mount {
            let step = self.steps.get(usize::from(failure.index));
            step.map_or_else(String::new, |step| format!("{step:?}: "))
        } else if failure.stage == Stage::Cwd {
            format!("{}: ", self.cwd.display())
        } else {
            String::new()
        };
        SetupFailure {
            stage: failure.stage.name().to_owned(),
            errno: failure.errno as i32,
            detail: format!("{detail}{}", failure.errno.desc()),
        }
    }
}

fn leader_status(status: i32) -> LeaderStatus {
    if libc::WIFEXITED(status) {
        LeaderStatus::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        LeaderStatus::Signaled {
            signal: libc::WTERMSIG(status),
            core: libc::WCOREDUMP(status),
        }
    } else {
        LeaderStatus::Unknown
    }
}

/// Says something to whoever reads the daemon's standard error.
pub(crate) fn complain(what: fmt::Arguments<'_>) {
    // Nobody is left to tell when this fails.
    drop(writeln!(io::stderr(), "agentd-launcher: {what}"));
}
