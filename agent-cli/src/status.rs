//! `agent-cli status`: the daemon, the host, the profiles.

use std::io;

use serde::Serialize;
use thiserror::Error;

use crate::{
    agent::ExitCode,
    args::{GlobalArgs, StatusArgs},
    config::Environment,
    daemon::{Capability, Daemon, DaemonError, ProfileInfo, ServerInfo},
    stdout,
    terminal::neutral,
};

/// Why there is no status.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The daemon failed or refused.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The text cannot be written.
    #[error("the status cannot be written to standard output; check where it is redirected to")]
    Write(#[source] io::Error),
}

impl StatusError {
    /// 2 for what the person can put right on the command line, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Daemon(error) if error.is_usage() => ExitCode::Usage.code(),
            Self::Daemon(_) => ExitCode::Error.code(),
            Self::Write(error) => stdout::exit_code(error, ExitCode::Error.code()),
        }
    }
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
pub struct Status {
    /// `private`, or `shared` with other clients.
    daemon: &'static str,
    #[serde(flatten)]
    info: ServerInfo,
    profiles: Vec<ProfileInfo>,
}

impl Status {
    /// Asks the daemon.
    ///
    /// # Errors
    /// The daemon refused or the connection broke.
    pub async fn ask(daemon: &Daemon) -> Result<Self, DaemonError> {
        Ok(Self {
            daemon: if daemon.is_private() {
                "private"
            } else {
                "shared"
            },
            info: daemon.info().clone(),
            profiles: daemon.profiles().await?,
        })
    }

    /// The status for a person.
    #[must_use]
    pub fn text(&self) -> String {
        let info = &self.info;
        let seconds = |millis: Option<u64>| millis.map_or(0, |millis| millis.div_euclid(1000));
        let mut lines = vec![format!(
            "agentd    {} ({}), kernel {}\ntier      {}, Landlock ABI {}\ntime      {} s unless asked for, at most {} s\n\nprofiles",
            info.version,
            match self.daemon {
                "private" => "private, ends with this client",
                other => other,
            },
            info.kernel,
            info.tier,
            info.landlock_abi,
            seconds(info.default_timeout_ms),
            seconds(info.max_timeout_ms),
        )];
        for profile in &self.profiles {
            let mark = if profile.is_default { '*' } else { ' ' };
            let rest = if profile.available {
                profile.description.clone()
            } else {
                format!("not on this host: {}", profile.unavailable_reason)
            };
            lines.push(format!("{mark} {:<12} {rest}", profile.name));
        }
        lines.push("\nhost".to_owned());
        for capability in &info.capabilities {
            let mark = if capability.available { '+' } else { '-' };
            let Capability { name, detail, .. } = capability;
            // What follows the first line is for `agentd doctor` and for programs.
            let detail = detail.lines().next().unwrap_or_default();
            lines.push(format!("{mark} {name:<24} {detail}"));
        }
        neutral(&(lines.join("\n") + "\n"))
    }
}

/// Prints the status and returns the exit code.
///
/// # Errors
/// See [`StatusError`].
pub async fn run(
    args: StatusArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, StatusError> {
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let status = Status::ask(&daemon).await;
    daemon.close().await;
    let status = status?;
    let text = if args.json {
        serde_json::to_string(&status).map_err(|error| StatusError::Write(error.into()))? + "\n"
    } else {
        status.text()
    };
    stdout::write(text.as_bytes()).map_err(StatusError::Write)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::Status;
    use crate::daemon::{Capability, ProfileInfo, ServerInfo};

    #[test]
    fn a_person_sees_what_the_host_can_enforce_and_why_not() {
        let profile = |name: &str, available| ProfileInfo {
            name: name.into(),
            description: "Write the workspace.".into(),
            digest: "d".into(),
            minimum_tier: "T1",
            available,
            unavailable_reason: "needs tier T2".into(),
            is_default: available,
        };
        let status = Status {
            daemon: "private",
            info: ServerInfo {
                version: "0.1.0".into(),
                generation: 1,
                kernel: "6.12".into(),
                tier: "T1",
                landlock_abi: 6,
                default_profile: "workspace".into(),
                default_timeout_ms: Some(120_000),
                max_timeout_ms: Some(600_000),
                capabilities: vec![Capability {
                    name: "user-namespaces".into(),
                    available: false,
                    detail: "max_user_namespaces is 0\ntried: this\ntried: that".into(),
                }],
            },
            profiles: vec![profile("workspace", true), profile("strict", false)],
        };
        expect_test::expect![[r"
            agentd    0.1.0 (private, ends with this client), kernel 6.12
            tier      T1, Landlock ABI 6
            time      120 s unless asked for, at most 600 s

            profiles
            * workspace    Write the workspace.
              strict       not on this host: needs tier T2

            host
            - user-namespaces          max_user_namespaces is 0
        "]]
        .assert_eq(&status.text());
    }
}
