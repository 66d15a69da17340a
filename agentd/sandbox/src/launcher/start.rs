//! From a request to a running jail: facts → policy → plan → preparation → fork.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use super::{
    facts::{self, Reserved, Surroundings},
    jail::{Jail, Leavings},
    lifecycle::{Lifecycle, Millis},
    sessions::{Session, Sessions},
    stale,
    tripwire::Tripwires,
    uids::Uids,
};
use crate::{
    launch::{self, IdMaps, PrepareError, Resources},
    monitor::{ExecKey, JailReport, SetupFailure, Tripped},
    plan::Plan,
    policy::{self, Exposure, Identity, Invocation, Policy, Program, Refusal, Stdin, Tier},
    profile::Catalogue,
};

/// Why nothing was started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The policy refuses.
    Refused(Refusal),
    /// A step failed.
    Failed(SetupFailure),
}

impl From<Refusal> for NotStarted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What starting draws on.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) surroundings: Surroundings,
    pub(crate) catalogue: Catalogue,
    pub(crate) id_maps: IdMaps,
    pub(crate) uids: Uids,
    pub(crate) sessions: Sessions,
}

impl Workshop {
    /// Starts a command. What was reserved for it is given back when this fails.
    pub(crate) fn start(
        &mut self,
        exec: ExecKey,
        invocation: &Invocation,
        (fds, now): (Vec<OwnedFd>, Millis),
    ) -> Result<Jail, NotStarted> {
        self.sessions.remove_empty_output(now);
        let reserved = self.reserve(exec, invocation)?;
        let mut leavings = self.leavings(&reserved);
        let kept = self.keep_output(invocation, &mut leavings);
        let launched = kept.and_then(|kept| Ok((self.launch(invocation, &reserved, fds)?, kept)));
        match launched {
            Ok(((policy, plan, child), kept)) => {
                let times = (policy.limits.timeout_ms, policy.limits.kill_grace_ms);
                Ok(Jail {
                    life: Lifecycle::new(now, times, policy.tier),
                    report: report(&policy, &plan, self.surroundings.host.landlock_abi),
                    limits: policy.limits,
                    cwd: policy.cwd,
                    child,
                    failure: None,
                    session: invocation.in_session.as_ref().map(|wanted| wanted.session),
                    output_file: kept.shown,
                    started_fds: kept.fd.into_iter().collect(),
                    leavings: Leavings {
                        tripwires: Tripwires {
                            workspace: policy.workspace,
                            names: plan.tripwires,
                        },
                        ..leavings
                    },
                    steps: plan.mounts,
                })
            }
            Err(error) => {
                if let Some(file) = &leavings.output {
                    file.remove();
                }
                self.clean(leavings);
                Err(error)
            }
        }
    }

    /// Decides without starting.
    pub(crate) fn decide(&mut self, invocation: &Invocation) -> Result<Policy, Refusal> {
        let reserved = match self.reserved_of_session(ExecKey(0), invocation)? {
            Some(reserved) => reserved,
            None => Reserved {
                uid: self.uids.peek(),
                tmp: PathBuf::from("/tmp/agentd-private"),
                dirs: None,
            },
        };
        self.resolve(invocation, &reserved)
    }

    /// Gives back what an ended execution held; returns the tripwires that it sprang.
    pub(crate) fn clean(&mut self, leavings: Leavings) -> Vec<Tripped> {
        let sprung = leavings.tripwires.spring();
        if let Some(tmp) = leavings.tmp
            && let Err(error) = stale::remove(&tmp)
        {
            super::jail::complain(format_args!("{} remains: {error}", tmp.display()));
        }
        if let Some(script) = leavings.script {
            // It goes with the session at the latest.
            fs::remove_file(script).unwrap_or_default();
        }
        if let Some(uid) = leavings.uid {
            self.uids.give_back(uid);
        }
        sprung
    }

    fn leavings(&self, reserved: &Reserved) -> Leavings {
        let nested = self.surroundings.tier == Tier::Nested;
        let own = reserved.dirs.is_none();
        let script = reserved.dirs.as_ref().map(|dirs| dirs.script.clone());
        Leavings {
            uid: own.then_some(reserved.uid),
            tmp: (nested && own).then(|| reserved.tmp.clone()),
            script: script.filter(|_| nested),
            output: None,
            tripwires: Tripwires::default(),
        }
    }

    fn reserve(&mut self, exec: ExecKey, invocation: &Invocation) -> Result<Reserved, NotStarted> {
        if let Some(reserved) = self.reserved_of_session(exec, invocation)? {
            return Ok(reserved);
        }
        let failed = |stage: &str, errno: Errno, detail: String| {
            NotStarted::Failed(SetupFailure {
                stage: stage.to_owned(),
                errno: errno as i32,
                detail,
            })
        };
        let uid = self.uids.take().ok_or_else(|| {
            failed(
                "identity",
                Errno::EAGAIN,
                "all throw-away user ids are in use".to_owned(),
            )
        })?;
        if self.surroundings.tier != Tier::Nested {
            let tmp = PathBuf::from("/tmp");
            return Ok(Reserved {
                uid,
                tmp,
                dirs: None,
            });
        }
        let tmp = stale::make_private_dir(std::process::id(), exec.0).map_err(|error| {
            self.uids.give_back(uid);
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
            failed("tmp", errno, format!("{}: {error}", stale::PARENT))
        })?;
        Ok(Reserved {
            uid,
            tmp,
            dirs: None,
        })
    }

    pub(super) fn resolve(
        &mut self,
        invocation: &Invocation,
        reserved: &Reserved,
    ) -> Result<Policy, Refusal> {
        let profile = self.catalogue.select(&invocation.profile)?;
        let facts = facts::gather(&self.surroundings, invocation, reserved, &mut self.id_maps)?;
        policy::resolve(profile, invocation, &facts)
    }

    fn launch(
        &mut self,
        invocation: &Invocation,
        reserved: &Reserved,
        fds: Vec<OwnedFd>,
    ) -> Result<(Policy, Plan, launch::Child), NotStarted> {
        let policy = self.resolve(invocation, reserved)?;
        let survey = launch::survey(&policy, self.surroundings.host.landlock_abi);
        check_protected(&policy)?;
        let plan = Plan::compile(&policy, &survey);
        let id_map = match plan.idmap {
            Some(map) => Some(self.id_maps.get(map).map_err(|errno| at("id-map", errno))?),
            None => None,
        };
        let (stdio, script) = sort_fds(invocation, fds)?;
        let resources = Resources {
            stdio,
            script,
            id_map,
            namespaces: self.sessions.of(invocation)?.and_then(Session::namespaces),
        };
        let jail = launch::prepare(&policy, &plan, &invocation.program, resources)
            .map_err(|error| unprepared(&error))?;
        let child = launch::spawn(jail).map_err(|failed| at(failed.stage.name(), failed.errno))?;
        Ok((policy, plan, child))
    }
}

pub(super) fn at(stage: &str, errno: Errno) -> NotStarted {
    NotStarted::Failed(SetupFailure {
        stage: stage.to_owned(),
        errno: errno as i32,
        detail: errno.desc().to_owned(),
    })
}

fn unprepared(error: &PrepareError) -> NotStarted {
    let errno = match error {
        PrepareError::System(errno) => *errno,
        PrepareError::NoBash => Errno::ENOENT,
        PrepareError::Ruleset(failure) => failure.errno().unwrap_or(Errno::EIO),
        PrepareError::Nul(_) | PrepareError::Script { .. } => Errno::EIO,
    };
    let stage = error.layer().map_or("prepare", policy::Layer::name);
    let stage = if matches!(error, PrepareError::NoBash) {
        "exec"
    } else {
        stage
    };
    let mut detail = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    NotStarted::Failed(SetupFailure {
        stage: stage.to_owned(),
        errno: errno as i32,
        detail,
    })
}

/// A mount cannot protect a name that is a link, or that is reached through one: what is behind it stays
/// writable under its other name.
fn check_protected(policy: &Policy) -> Result<(), Refusal> {
    if policy.tier == Tier::Nested {
        // Nothing that exists is protected there, and the result says so.
        return Ok(());
    }
    let is_link =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink());
    let protected = policy.fs.rules.iter().filter(|rule| {
        matches!(rule.exposure, Exposure::Readonly | Exposure::Deny)
            && rule.path.starts_with(&policy.workspace)
    });
    for rule in protected {
        let mut parts = rule
            .path
            .ancestors()
            .take_while(|part| **part != *policy.workspace);
        if let Some(link) = parts.find(|part| is_link(part)) {
            return Err(Refusal::BadWorkspace {
                path: policy.workspace.clone(),
                reason: format!(
                    "{} is protected by {}, but {} is a symbolic link, which cannot be protected: \
                     replace it by what it points to",
                    rule.path.display(),
                    rule.rule,
                    link.display()
                ),
            });
        }
    }
    Ok(())
}

type Sorted = ([OwnedFd; 3], Option<OwnedFd>);

/// Sorts the descriptors of a request (see `SpawnFds`).
fn sort_fds(invocation: &Invocation, fds: Vec<OwnedFd>) -> Result<Sorted, NotStarted> {
    let missing = || NotStarted::Refused(Refusal::Malformed("descriptors are missing".to_owned()));
    let mut fds = fds.into_iter();
    let stdout = fds.next().ok_or_else(missing)?;
    let stderr = fds.next().ok_or_else(missing)?;
    let script = match invocation.program {
        Program::Script => Some(fds.next().ok_or_else(missing)?),
        Program::Argv(_) => None,
    };
    let stdin = match invocation.stdin {
        Stdin::Pipe => fds.next().ok_or_else(missing)?,
        Stdin::Null => fs::File::open("/dev/null")
            .map_err(|error| {
                at(
                    "stdio",
                    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)),
                )
            })?
            .into(),
    };
    if fds.next().is_some() {
        return Err(NotStarted::Refused(Refusal::Malformed(
            "too many descriptors".to_owned(),
        )));
    }
    Ok(([stdin, stdout, stderr], script))
}

fn report(policy: &Policy, plan: &Plan, landlock_abi: u32) -> JailReport {
    let own = nix::unistd::geteuid().as_raw();
    let uid = match policy.identity {
        Identity::Caller { .. } => plan.switch_to.map_or(own, |(uid, _)| uid),
        Identity::Ephemeral { uid, .. } => uid,
        Identity::RootWithoutCapabilities => 0,
    };
    JailReport {
        profile: policy.profile.clone(),
        digest: policy.digest.clone(),
        tier: policy.tier,
        layers: plan.layers.clone(),
        degraded: policy.degraded.clone(),
        landlock_abi,
        identity: policy.identity,
        uid,
        cgroup: "none".to_owned(),
    }
}
