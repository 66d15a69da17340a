//! Starts the launcher, the one process that agentd ever starts, and reads its greeting.

use std::{
    ffi::OsString,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use agentd_sandbox::monitor::{Channel, ChannelError, Event, ProfileSummary, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;

use crate::{cli::CgroupChoice, exit::Exit, launcher_link::HostReport};

/// Name of the launcher's program.
const PROGRAM: &str = "agentd-launcher";

/// Where a package installs it.
const INSTALLED: &str = "/usr/libexec/agentd/agentd-launcher";

/// Longest wait for the greeting: it probes the host and reads profiles, both in milliseconds.
const GREETING_PATIENCE: Duration = Duration::from_secs(20);

/// Longest wait for the launcher to end after its socket was closed; it kills every jail first.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no launcher.
#[derive(Debug, Error)]
pub enum BootError {
    /// Its program is nowhere.
    #[error(
        "{PROGRAM} is neither next to agentd nor at {INSTALLED}; build it with \
         'cargo build -p agentd-sandbox' or name it with --launcher"
    )]
    NotFound,
    /// It does not start.
    #[error("cannot start {}; name another one with --launcher", path.display())]
    Start {
        /// Program.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The channel does not work.
    #[error("cannot talk to the launcher")]
    Channel(#[from] ChannelError),
    /// It refused to work here, and has said why on stderr in its one line: nothing is to be added.
    #[error("the launcher refused to start; its own message is above")]
    Refused(Exit),
    /// It died before it was up.
    #[error("the launcher died before it was ready ({0}); run 'agentd doctor'")]
    Died(String),
    /// It says nothing.
    #[error("the launcher did not answer within {} s", GREETING_PATIENCE.as_secs())]
    Silent,
    /// It says something else.
    #[error("the launcher is not of this version of agentd; install both from one build")]
    OtherVersion,
}

/// How the launcher is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LauncherCommand {
    /// Program; `None` to look for it.
    pub program: Option<PathBuf>,
    /// Directories with further profiles.
    pub profile_dirs: Vec<PathBuf>,
    /// Paths of our own, such as the sockets, which no workspace may contain.
    pub state_dirs: Vec<PathBuf>,
    /// Variables of our environment that profiles may pass on.
    pub pass: Vec<(String, String)>,
    /// Whether to use control groups.
    pub cgroup: CgroupChoice,
}

/// The launcher is up.
#[derive(Debug)]
pub struct Booted {
    /// Our end. Closing it ends the launcher and everything it runs.
    pub channel: Channel<Request, Event>,
    /// What it says of the host.
    pub host: HostReport,
    /// The profiles in force.
    pub profiles: Vec<ProfileSummary>,
    /// The process.
    pub process: LauncherProcess,
}

type Greeting = (HostReport, Vec<ProfileSummary>);

/// The launcher's process, to be waited for at the very end.
#[derive(Debug)]
pub struct LauncherProcess(Child);

impl LauncherProcess {
    /// Waits until it has ended, at most a few seconds. Its socket must be closed by now.
    /// `None` when it has not.
    pub fn wait(mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() <= END_PATIENCE {
            if let Some(status) = self.0.try_wait().transpose() {
                return status.ok();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        tracing::warn!("the launcher is still ending its jails");
        None
    }
}

impl LauncherCommand {
    /// Starts it and reads its greeting. There must be no other thread yet.
    pub fn boot(&self) -> Result<Booted, BootError> {
        let program = self.find()?;
        let (channel, theirs) = Channel::<Request, Event>::pair()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the one process that agentd starts, before it serves anybody"
        )]
        let child = Command::new(&program)
            .args(self.arguments())
            .env_clear()
            .stdin(Stdio::from(theirs.into_fd()))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| BootError::Start {
                path: program,
                source,
            })?;
        let process = LauncherProcess(child);
        match greeting(&channel) {
            Ok(Some((host, profiles))) => Ok(Booted {
                channel,
                host,
                profiles,
                process,
            }),
            Ok(None) => Err(early_end(process.wait())),
            Err(error) => Err(error),
        }
    }

    fn find(&self) -> Result<PathBuf, BootError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let beside = std::env::current_exe()
            .ok()
            .and_then(|own| Some(own.parent()?.join(PROGRAM)));
        [beside, Some(PathBuf::from(INSTALLED))]
            .into_iter()
            .flatten()
            .find(|path| Path::is_file(path))
            .ok_or(BootError::NotFound)
    }

    /// The only place that knows the launcher's command line.
    fn arguments(&self) -> Vec<OsString> {
        let dirs = self
            .profile_dirs
            .iter()
            .flat_map(|dir| ["--profile-dir".into(), dir.clone().into_os_string()]);
        let pass = self
            .pass
            .iter()
            .flat_map(|(name, value)| ["--pass".into(), format!("{name}={value}").into()]);
        let state = self
            .state_dirs
            .iter()
            .flat_map(|dir| ["--state-dir".into(), dir.clone().into_os_string()]);
        let cgroup: &[&str] = match self.cgroup {
            CgroupChoice::Auto => &[],
            CgroupChoice::None => &["--cgroup", "none"],
        };
        let cgroup = cgroup.iter().map(OsString::from);
        dirs.chain(state).chain(pass).chain(cgroup).collect()
    }
}

/// What an end before the greeting means. Its codes are the same as ours.
fn early_end(status: Option<ExitStatus>) -> BootError {
    let refusals = [
        Exit::Usage,
        Exit::Unavailable,
        Exit::NotPermitted,
        Exit::Config,
    ];
    let code = status.and_then(|status| status.code());
    let refusal = refusals
        .into_iter()
        .find(|exit| code == Some(i32::from(exit.code())));
    match refusal {
        Some(exit) => BootError::Refused(exit),
        None => BootError::Died(status.map_or_else(
            || "it closed its socket and still runs".to_owned(),
            |status| status.to_string(),
        )),
    }
}

/// `None`: the launcher ended first.
fn greeting(channel: &Channel<Request, Event>) -> Result<Option<Greeting>, BootError> {
    let Some(first) = next(channel)? else {
        return Ok(None);
    };
    let Event::Ready {
        tier,
        tier_reason,
        landlock_abi,
        capabilities,
        cgroup,
        profiles: count,
    } = first
    else {
        return Err(BootError::OtherVersion);
    };
    let mut profiles = Vec::new();
    for _ in 0..count {
        match next(channel)? {
            Some(Event::Profile(profile)) => profiles.push(*profile),
            Some(_) => return Err(BootError::OtherVersion),
            None => return Ok(None),
        }
    }
    let host = HostReport {
        tier,
        tier_reason,
        landlock_abi,
        capabilities,
        cgroup,
    };
    Ok(Some((host, profiles)))
}

fn next(channel: &Channel<Request, Event>) -> Result<Option<Event>, BootError> {
    let patience = u16::try_from(GREETING_PATIENCE.as_millis()).unwrap_or(u16::MAX);
    let mut watched = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut watched, PollTimeout::from(patience)).map_err(ChannelError::Socket)?;
    if ready == 0 {
        return Err(BootError::Silent);
    }
    match channel.recv() {
        Ok(received) => Ok(received.map(|received| received.message)),
        Err(ChannelError::Protocol(_)) => Err(BootError::OtherVersion),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher_link::fake::profile;
    use agentd_sandbox::policy::Tier;

    fn ready(profiles: u32) -> Event {
        Event::Ready {
            tier: Tier::Rootless,
            tier_reason: "not root".to_owned(),
            landlock_abi: 7,
            capabilities: vec![("landlock".to_owned(), true, "ABI 7".to_owned())],
            cgroup: "none".to_owned(),
            profiles,
        }
    }

    fn greet(events: &[Event]) -> Result<Option<Greeting>, BootError> {
        let (ours, theirs) = Channel::<Request, Event>::pair().unwrap();
        for event in events {
            theirs.send(event, &[]).unwrap();
        }
        drop(theirs);
        greeting(&ours)
    }

    #[test]
    fn a_greeting_is_ready_and_then_every_profile() {
        let profile = || Event::Profile(Box::new(profile("workspace")));
        let (host, profiles) = greet(&[ready(2), profile(), profile()]).unwrap().unwrap();
        assert_eq!((host.tier, profiles.len()), (Tier::Rootless, 2));
        assert!(matches!(greet(&[]), Ok(None)));
        assert!(matches!(greet(&[ready(2), profile()]), Ok(None)));
        assert!(matches!(greet(&[profile()]), Err(BootError::OtherVersion)));
        assert!(matches!(
            greet(&[ready(1), ready(1)]),
            Err(BootError::OtherVersion)
        ));
    }

    #[test]
    fn an_early_end_keeps_the_code_of_a_refusal_and_reports_any_other() {
        use std::os::unix::process::ExitStatusExt;
        let ended = |wait_status| early_end(Some(ExitStatus::from_raw(wait_status)));
        for exit in [
            Exit::Usage,
            Exit::Unavailable,
            Exit::NotPermitted,
            Exit::Config,
        ] {
            let error = ended(i32::from(exit.code()) << 8_u32);
            assert!(matches!(error, BootError::Refused(same) if same == exit));
        }
        for other in [0, 1 << 8_u32, libc_sigkill()] {
            assert!(matches!(ended(other), BootError::Died(_)), "{other}");
        }
        assert!(ended(libc_sigkill()).to_string().contains("signal: 9"));
    }

    /// Raw wait status of a process that SIGKILL ended.
    fn libc_sigkill() -> i32 {
        nix::sys::signal::Signal::SIGKILL as i32
    }

    #[test]
    fn arguments_name_every_directory_and_variable() {
        let command = LauncherCommand {
            program: None,
            profile_dirs: vec!["/a".into(), "/b c".into()],
            state_dirs: vec!["/run/agentd".into()],
            pass: vec![("TZ".to_owned(), "UTC=x".to_owned())],
            cgroup: CgroupChoice::None,
        };
        let expected = [
            "--profile-dir",
            "/a",
            "--profile-dir",
            "/b c",
            "--state-dir",
            "/run/agentd",
            "--pass",
            "TZ=UTC=x",
            "--cgroup",
            "none",
        ];
        assert_eq!(command.arguments(), expected);
    }

    #[test]
    fn a_missing_program_is_named() {
        let command = LauncherCommand {
            program: Some("/nonexistent/launcher".into()),
            ..LauncherCommand::default()
        };
        let error = command.boot().unwrap_err();
        assert!(error.to_string().contains("/nonexistent/launcher"));
    }
}
