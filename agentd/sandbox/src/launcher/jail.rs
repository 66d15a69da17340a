//! One running execution: its descriptors, its state machine, and what it leaves behind.

use std::{fmt, io, io::Write, os::fd::AsFd, path::PathBuf};

use nix::errno::Errno;

use super::{
    lifecycle::{Action, Input, Lifecycle, Millis},
    limits::Watch,
    tripwire::Tripwires,
};
use crate::{
    cgroup::{Counters, Group},
    launch::{Child, Command, Failure, Report, Stage},
    monitor::{JailReport, LeaderStatus, SetupFailure, Usage},
    plan::MountStep,
    policy::{Limits, Tier},
    sys::{files, socket, wait},
};

/// What has to be cleaned up when an execution is over.
#[derive(Debug)]
pub(crate) struct Leavings {
    /// Throw-away uid.
    pub(crate) uid: Option<u32>,
    /// Private directory on the nested tier.
    pub(crate) tmp: Option<PathBuf>,
    /// Protected names.
    pub(crate) tripwires: Tripwires,
    /// Control group.
    pub(crate) group: Option<Group>,
}

/// A running execution.
#[derive(Debug)]
pub(crate) struct Jail {
    pub(crate) child: Child,
    pub(crate) life: Lifecycle,
    pub(crate) report: JailReport,
    pub(crate) limits: Limits,
    pub(crate) cwd: PathBuf,
    pub(crate) failure: Option<Failure>,
    pub(crate) leavings: Leavings,
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
        let gone = !matches!(wait::reap(self.child.pid), Ok(None));
        let mut actions = Vec::new();
        if self.life.is_setting_up() {
            actions.extend(self.observe_setup(now));
        }
        let mut bytes = [0; 64];
        while let Ok(count) = files::read(self.child.control.as_fd(), &mut bytes) {
            if count == 0 {
                break;
            }
            match bytes.get(..count).and_then(Report::decode) {
                Some(report) => actions.extend(self.life.step(now, input(report))),
                None => complain(format_args!("bug: an init said something unknown")),
            }
        }
        if gone {
            actions.extend(self.life.step(now, Input::InitGone));
        }
        actions
    }

    fn observe_setup(&mut self, now: Millis) -> Vec<Action> {
        let mut bytes = [0; 64];
        match files::read(self.child.errors.as_fd(), &mut bytes) {
            Ok(0) if self.failure.is_none() => {
                self.watch_private_tmp();
                self.life.step(now, Input::Executed)
            }
            Ok(count) => {
                self.failure = bytes
                    .get(..count)
                    .and_then(Failure::decode)
                    .or(self.failure);
                self.life.step(now, Input::SetupFailed)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Vec::new(),
            Err(_) => self.life.step(now, Input::SetupFailed),
        }
    }

    /// The private directory only came up with the jail. Where it cannot be looked at (without
    /// privilege) its own size bounds it.
    fn watch_private_tmp(&mut self) {
        if self.report.tier > Tier::Nested && self.limits.disk_bytes.is_some() {
            let path = format!("/proc/{}/root/tmp", self.child.pid);
            if let Ok(directory) = std::fs::File::open(path) {
                self.watch.also(directory.into());
            }
        }
    }

    /// TERM or KILL by init.
    pub(crate) fn command(&self, command: Command) {
        // A broken conversation means that init is gone, which is observed on its own.
        socket::send_with_fds(self.child.control.as_fd(), &[command as u8], &[])
            .unwrap_or_default();
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

    /// Looks at the limits that are sampled.
    pub(crate) fn sample(&mut self, now: Millis) -> Option<Input> {
        let passed = self.watch.sample(now, self.leavings.group.as_ref());
        passed.map(Input::Limit)
    }

    /// The failure for the front end.
    pub(crate) fn setup_failure(&self, cwd: &str) -> SetupFailure {
        let Some(failure) = self.failure else {
            return SetupFailure {
                stage: "set-up".to_owned(),
                errno: Errno::EIO as i32,
                detail: "the jail's init ended without a word".to_owned(),
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
            format!("{cwd}: ")
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

fn input(report: Report) -> Input {
    match report {
        Report::LeaderExited { status } => Input::LeaderExited(leader_status(status)),
        Report::Empty {
            leftover,
            user_us,
            system_us,
            max_rss_bytes,
        } => Input::Empty {
            leftover,
            usage: Usage {
                user_us,
                system_us,
                max_rss_bytes,
                ..Usage::default()
            },
        },
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
