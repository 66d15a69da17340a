//! One running execution: its descriptors, its state machine, and what it leaves behind.

use std::{
    fmt, io,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use nix::errno::Errno;

use super::{
    lifecycle::{Action, Input, Lifecycle, Millis},
    session_home::KeptOutput,
    tripwire::Tripwires,
};
use crate::{
    launch::{Child, Command, Failure, Report, Stage},
    monitor::{JailReport, LeaderStatus, SetupFailure, Usage},
    plan::MountStep,
    policy::{Limits, SessionKey},
    sys::{files, socket, wait},
};

/// What has to be cleaned up when an execution is over.
#[derive(Debug)]
pub(crate) struct Leavings {
    /// Throw-away uid.
    pub(crate) uid: Option<u32>,
    /// Private directory on the nested tier.
    pub(crate) tmp: Option<PathBuf>,
    /// Script in its session's directory, on the nested tier.
    pub(crate) script: Option<PathBuf>,
    /// File for its output.
    pub(crate) output: Option<KeptOutput>,
    /// Protected names.
    pub(crate) tripwires: Tripwires,
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
    /// The session it is in.
    pub(crate) session: Option<SessionKey>,
    /// Descriptors for the front end, given away when it starts (see `StartedFds`).
    pub(crate) started_fds: Vec<OwnedFd>,
    /// Where commands find its output file; empty without one.
    pub(crate) output_file: String,
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
            Ok(0) if self.failure.is_none() => self.life.step(now, Input::Executed),
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

    /// TERM or KILL by init.
    pub(crate) fn command(&self, command: Command) {
        // A broken conversation means that init is gone, which is observed on its own.
        socket::send_with_fds(self.child.control.as_fd(), &[command as u8], &[])
            .unwrap_or_default();
    }

    /// KILL to init itself.
    pub(crate) fn kill_init(&self) {
        // ESRCH only says that it is gone already.
        wait::signal_pidfd(self.child.pidfd.as_fd(), libc::SIGKILL).unwrap_or_default();
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
        let detail = if failure.stage == Stage::Mount {
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
