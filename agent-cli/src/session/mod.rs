//! A session: a model, a daemon and the loop between them, put together from the command line. Checks
//! everything that can be wrong before the first prompt.

mod error;
mod source;
mod turn;

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Notify;

pub use error::SessionError;
pub use source::{ModelSource, choose};
pub use turn::{Interrupts, Turn, take};

use crate::{
    agent::{
        Agent, Ports, Settings,
        ports::{Observer, Tools},
    },
    args::GlobalArgs,
    config::{self, Environment},
    daemon::{Daemon, DaemonError, Lease, SandboxChoice, SessionScope, ToolPort, ToolScope},
    ids,
    permission::Permissions,
    terminal::Input,
};

/// What a session is, for those who report it.
#[derive(Debug, Clone)]
pub struct About {
    /// Its id.
    pub session_id: String,
    /// Model id.
    pub model: String,
    /// Directory in which commands start.
    pub cwd: PathBuf,
    /// Profile of the jail.
    pub profile: String,
    /// Best tier of the host.
    pub tier: &'static str,
    /// Names of the tools.
    pub tools: Vec<String>,
}

/// Where a session takes place: decided before the daemon is there.
#[derive(Debug, Clone)]
pub struct Place {
    /// Jail.
    pub sandbox: SandboxChoice,
    /// Directory in which commands start.
    pub cwd: PathBuf,
}

impl Place {
    /// The place that the command line asks for.
    ///
    /// # Errors
    /// The workspace is no directory.
    pub fn choose(global: &GlobalArgs, environment: &Environment) -> Result<Self, SessionError> {
        let here = &environment.current_dir;
        let workspace = config::workspace(global.workspace.as_deref(), here)?;
        Ok(Self {
            cwd: config::start_directory(None, here, &workspace),
            sandbox: SandboxChoice {
                profile: global.profile.clone(),
                workspace,
            },
        })
    }
}

/// Who watches and who is asked.
pub struct Company {
    /// Watches.
    pub observer: Arc<dyn Observer>,
    /// Is asked when the permissions say so; absent when nobody can be.
    pub person: Option<Arc<Input>>,
    /// Told when that person answers with Ctrl-C.
    pub interrupted: Arc<Notify>,
}

impl std::fmt::Debug for Company {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Company")
            .field("person", &self.person)
            .finish_non_exhaustive()
    }
}

/// A session that is ready for prompts.
#[derive(Debug)]
pub struct Session {
    /// The loop.
    pub agent: Agent,
    /// The daemon.
    pub daemon: Daemon,
    /// What it is.
    pub about: About,
    /// The daemon's session, where directory and exports live; absent when the daemon has none.
    lease: Option<Arc<Lease>>,
}

impl Session {
    /// Binds a model to a daemon. The daemon is handed back on failure, so that it can be closed.
    ///
    /// # Errors
    /// The profile cannot be used, or the daemon refused.
    pub async fn open(
        daemon: Daemon,
        source: ModelSource,
        (place, global): (Place, &GlobalArgs),
        company: Company,
    ) -> Result<Self, (SessionError, Daemon)> {
        let session_id = ids::unique("s");
        let profile = match usable_profile(&daemon, place.sandbox.profile.as_deref()).await {
            Ok(profile) => profile,
            Err(error) => return Err((error, daemon)),
        };
        if let Err(error) = daemon.check(&place.sandbox).await {
            return Err((SessionError::Place(error), daemon));
        }
        let (lease, tools) = match tools(&daemon, &place, &session_id).await {
            Ok(opened) => opened,
            Err(error) => return Err((error.into(), daemon)),
        };
        let definitions = tools.definitions();
        let about = About {
            session_id,
            model: source.model.clone(),
            cwd: place.cwd.clone(),
            profile,
            tier: daemon.info().tier,
            tools: definitions.into_iter().map(|tool| tool.name).collect(),
        };
        let approver = Permissions::new(global.permissions, company.person, company.interrupted);
        let ports = Ports {
            provider: source.provider,
            tools,
            approver: Arc::new(approver),
            observer: company.observer,
        };
        let settings = Settings {
            max_turns: source.max_turns,
            ..Settings::new(source.model, &place.cwd.to_string_lossy())
        };
        Ok(Self {
            agent: Agent::new(settings, ports),
            daemon,
            about,
            lease,
        })
    }

    /// Ends the session with everything that runs in it and, if it is private, the daemon.
    pub async fn close(self) {
        drop(self.agent);
        // A private daemon ends its sessions when it ends.
        if let Some(lease) = self.lease
            && !self.daemon.is_private()
        {
            lease.close().await;
        }
        self.daemon.close().await;
    }
}

/// Opens the daemon's session and binds the tools to it.
async fn tools(
    daemon: &Daemon,
    place: &Place,
    session_id: &str,
) -> Result<(Option<Arc<Lease>>, Arc<ToolPort>), DaemonError> {
    let lease = daemon
        .open_session(SessionScope {
            session_id: session_id.to_owned(),
            sandbox: place.sandbox.clone(),
            cwd: place.cwd.clone(),
            lease: None,
        })
        .await?;
    let scope = ToolScope {
        sandbox: place.sandbox.clone(),
        cwd: place.cwd.clone(),
        session: session_id.to_owned(),
        lease: lease.clone(),
    };
    match daemon.tools(scope).await {
        Ok(tools) => Ok((lease, Arc::new(tools))),
        Err(error) => {
            if let Some(lease) = lease {
                lease.close().await;
            }
            Err(error)
        }
    }
}

/// The name of the profile that will be used: known, and enforceable on this host.
async fn usable_profile(daemon: &Daemon, asked: Option<&str>) -> Result<String, SessionError> {
    let profiles = daemon.profiles().await?;
    let found = profiles.iter().find(|profile| match asked {
        Some(name) => profile.name == name,
        None => profile.is_default,
    });
    match found {
        Some(profile) if profile.available => Ok(profile.name.clone()),
        Some(profile) => Err(SessionError::ProfileUnavailable {
            name: profile.name.clone(),
            reason: profile.unavailable_reason.clone(),
        }),
        None => Err(SessionError::UnknownProfile {
            name: asked.unwrap_or("(default)").to_owned(),
            known: profiles
                .iter()
                .map(|profile| profile.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}
