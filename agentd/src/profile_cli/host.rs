//! What the questions are about: the profiles in force here, and the facts of this host, gathered the
//! way an agentd started by this person now would gather them.

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use agentd_sandbox::{
    policy::{
        Caller, HostFacts, Invocation, Lifetime, LimitRequest, Program, Refusal, Stdin, Tier,
    },
    probe,
    profile::{Catalogue, ProfileError},
};
use thiserror::Error;

use crate::{
    cli::ServeArgs,
    config::{Config, ConfigError, Environment, Purpose},
    exit::Exit,
};

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum ProfileCliError {
    /// The settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A profile file.
    #[error("the profiles cannot be used")]
    Profile(#[from] ProfileError),
    /// The profile does not exist, or the policy engine refuses the question.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The workspace.
    #[error("workspace {}", path.display())]
    Workspace {
        /// Path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// `--host` cannot be read.
    #[error("--host {0} is not HOST:PORT; write for example example.org:443 or [::1]:80")]
    Host(String),
}

impl ProfileCliError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Profile(_) => Exit::Config,
            Self::Workspace { .. } | Self::Host(_) => Exit::Usage,
            Self::Refused(refusal) => match refusal {
                Refusal::TierTooLow { .. } | Refusal::LayerMissing { .. } => Exit::Config,
                Refusal::UnknownProfile { .. }
                | Refusal::AbstractProfile { .. }
                | Refusal::BadWorkspace { .. }
                | Refusal::BadCwd { .. }
                | Refusal::EnvDenied { .. }
                | Refusal::NoSession(_)
                | Refusal::Malformed(_) => Exit::Usage,
            },
        }
    }
}

/// Profiles and facts.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) catalogue: Catalogue,
    /// Facts that hold for every question; those about the workspace are filled in per question.
    pub(super) facts: HostFacts,
    pub(super) caller: Caller,
}

/// Reads the profiles and tries the host.
pub(super) fn open(profile_dirs: &[PathBuf]) -> Result<Surroundings, ProfileCliError> {
    let uid = nix::unistd::Uid::current().as_raw();
    // As a service of root, else as the daemon that a person's own client starts.
    let args = ServeArgs {
        embedded: uid != 0,
        profile_dir: profile_dirs.to_vec(),
        ..ServeArgs::default()
    };
    let config = Config::load(&args, &Environment::read(), Purpose::Inspect)?;
    let catalogue = Catalogue::load(&config.launcher.profile_dirs)?;
    let host = probe::probe();
    let facts = HostFacts {
        tier: host.tier.unwrap_or(Tier::Nested),
        // Without any tier nothing can be enforced, and that is what no Landlock means.
        landlock_abi: if host.tier.is_some() {
            host.landlock_abi
        } else {
            0
        },
        tier_reason: host.tier_reason,
        cgroup: probe::cgroups(),
        launcher_uid: host.uid,
        launcher_gid: host.gid,
        environment: config.launcher.pass.into_iter().collect(),
        idmap: host.tier == Some(Tier::HostRoot),
        ephemeral_uid: EXAMPLE_UID,
        workspace_uid: uid,
        workspace_gid: nix::unistd::Gid::current().as_raw(),
        home: home(),
        nested_tmp: PathBuf::from("/tmp/agentd-private"),
        session: None,
        state_dirs: Vec::new(),
    };
    let caller = Caller {
        uid,
        gid: nix::unistd::Gid::current().as_raw(),
    };
    Ok(Surroundings {
        catalogue,
        facts,
        caller,
    })
}

/// Stands for the throw-away uid that an execution would get.
const EXAMPLE_UID: u32 = 0x7000_0000;

fn home() -> PathBuf {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current());
    user.ok()
        .flatten()
        .map_or_else(|| PathBuf::from("/nonexistent"), |user| user.dir)
}

impl Surroundings {
    /// A request for `profile` in `workspace`, and the facts for it.
    pub(super) fn question(
        &self,
        profile: &str,
        workspace: Option<&Path>,
    ) -> Result<(Invocation, HostFacts), ProfileCliError> {
        let given = workspace.unwrap_or_else(|| Path::new("."));
        let failed = |source| ProfileCliError::Workspace {
            path: given.to_path_buf(),
            source,
        };
        let path = std::fs::canonicalize(given).map_err(failed)?;
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        if !metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let facts = HostFacts {
            workspace_uid: metadata.uid(),
            workspace_gid: metadata.gid(),
            ..self.facts.clone()
        };
        let invocation = Invocation {
            profile: profile.to_owned(),
            workspace: path,
            cwd: None,
            program: Program::Script,
            env_set: std::collections::BTreeMap::new(),
            env_unset: Vec::new(),
            limits: LimitRequest::default(),
            caller: self.caller,
            stdin: Stdin::Null,
            terminal: None,
            lifetime: Lifetime::Call,
            in_session: None,
        };
        Ok((invocation, facts))
    }
}
