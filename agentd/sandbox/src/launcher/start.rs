//! From a request to a running jail: facts → policy → plan → preparation → fork.

use std::{fs, os::fd::OwnedFd};

use nix::errno::Errno;

use super::{
    burial::Burial,
    descriptors::{self, Sorted},
    facts::{self, Reserved, Surroundings},
    far::Mounts,
    jail::{Fallback, Jail, Leavings},
    janitor::Janitor,
    lifecycle::{Lifecycle, Millis},
    limits::Watch,
    not_started::{NotStarted, at, unprepared},
    protected,
    removal::Allowance,
    sessions::{Session, Sessions},
    setup::{Ran, Setup},
    stale::{self, OwnDir},
    tripwire::Tripwires,
    uids::Uids,
};
use crate::{
    cgroup::{Cgroups, Entry, Group},
    launch::{self, IdMaps, Resources, Stdio, Unstarted},
    monitor::{ExecKey, JailReport, SetupFailure},
    plan::Plan,
    policy::{self, Identity, Invocation, Policy, Refusal, SessionKey, Tier},
    profile::Catalogue,
    sys::terminal,
};

/// What starting draws on.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) surroundings: Surroundings,
    pub(crate) catalogue: Catalogue,
    pub(crate) id_maps: IdMaps,
    pub(crate) uids: Uids,
    pub(crate) sessions: Sessions,
    pub(crate) cgroups: Cgroups,
    pub(crate) janitor: Janitor,
    pub(crate) mounts: Mounts,
    /// Sessions in which an init may have been forked that nobody knows.
    pub(crate) strays: Vec<SessionKey>,
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
        let (reserved, tmp) = self.reserve(exec, invocation)?;
        let mut leavings = self.leavings(&reserved, tmp);
        let kept = self.keep_output(invocation, &mut leavings);
        let launched =
            kept.and_then(|kept| Ok((self.launch((exec, invocation), &reserved, fds)?, kept)));
        match launched {
            Ok((launched, kept)) => {
                let Launched {
                    policy,
                    plan,
                    child,
                    terminal,
                    group,
                    tripwires,
                } = launched;
                let (fallback, notes) = session_directory(invocation, &policy);
                let times = (policy.limits.timeout_ms, policy.limits.kill_grace_ms);
                Ok(Jail {
                    watch: Watch::new(now, &policy, group.as_ref(), &self.mounts),
                    life: Lifecycle::new(now, times, policy.tier),
                    report: report(&policy, &plan, self.surroundings.host.landlock_abi),
                    limits: policy.limits.in_force(&policy.cgroup, policy.identity),
                    cwd: policy.cwd,
                    fallback,
                    notes,
                    terminal,
                    child,
                    setup: Setup::Building,
                    ran: Ran::Never,
                    failure: None,
                    session: invocation.in_session.as_ref().map(|wanted| wanted.session),
                    output_file: kept.shown,
                    started_fds: kept.fd.into_iter().collect(),
                    killed_by_client: false,
                    gone: false,
                    leavings: Leavings {
                        tripwires,
                        group,
                        ..leavings
                    },
                    steps: plan.mounts,
                })
            }
            Err(error) => {
                if let Some(file) = &leavings.output {
                    file.remove();
                }
                self.clean(exec, leavings);
                Err(error)
            }
        }
    }

    /// Decides without starting.
    pub(crate) fn decide(&mut self, invocation: &Invocation) -> Result<Policy, Refusal> {
        let reserved = match self.reserved_of_session(ExecKey(0), invocation)? {
            Some(reserved) => reserved,
            None => Reserved::own(self.uids.peek(), "/tmp/agentd-private"),
        };
        self.resolve(invocation, &reserved)
    }

    /// Gives back what was reserved for an execution that never began.
    fn clean(&mut self, exec: ExecKey, mut leavings: Leavings) {
        self.janitor.over(exec);
        if let Some(tmp) = leavings.tmp.take()
            && let Err(error) = tmp.remove(&Allowance::unlimited())
        {
            super::jail::complain(format_args!("{} remains: {error}", tmp.path().display()));
        }
        if let Some(uid) = self.bury(leavings).1 {
            self.uids.give_back(uid);
        }
    }

    /// Gives back what an ended execution held. What it left in the file system is still to be removed, and
    /// after that its user id is to be given back.
    pub(super) fn bury(&mut self, leavings: Leavings) -> (Burial, Option<u32>) {
        if let Some(script) = leavings.script {
            // It goes with the session at the latest.
            for file in [launch::prelude_beside(&script), script] {
                fs::remove_file(file).unwrap_or_default();
            }
        }
        if let Some(group) = leavings.group {
            self.cgroups.retire(group);
        }
        (Burial::of(leavings.tripwires, leavings.tmp), leavings.uid)
    }

    fn leavings(&self, reserved: &Reserved, tmp: Option<OwnDir>) -> Leavings {
        let nested = self.surroundings.tier == Tier::Nested;
        let own = reserved.dirs.is_none();
        let script = reserved.dirs.as_ref().map(|dirs| dirs.script.clone());
        Leavings {
            uid: own.then_some(reserved.uid),
            tmp,
            script: script.filter(|_| nested),
            output: None,
            tripwires: Tripwires::default(),
            group: None,
        }
    }

    /// What a command gets for itself; on the nested tier also a directory that has to go when it is over.
    fn reserve(
        &mut self,
        exec: ExecKey,
        invocation: &Invocation,
    ) -> Result<(Reserved, Option<OwnDir>), NotStarted> {
        if let Some(reserved) = self.reserved_of_session(exec, invocation)? {
            return Ok((reserved, None));
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
            return Ok((Reserved::own(uid, "/tmp"), None));
        }
        let tmp = stale::make_private_dir(std::process::id(), exec.0).map_err(|error| {
            self.uids.give_back(uid);
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
            failed("tmp", errno, format!("{}: {error}", stale::PARENT))
        })?;
        Ok((Reserved::own(uid, tmp.path()), Some(tmp)))
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
        (exec, invocation): (ExecKey, &Invocation),
        reserved: &Reserved,
        fds: Vec<OwnedFd>,
    ) -> Result<Launched, NotStarted> {
        let policy = self.resolve(invocation, reserved)?;
        let (plan, tripwires) = protected::plan(&policy, self.surroundings.host.landlock_abi)?;
        let id_map = match plan.idmap {
            Some(map) => Some(self.id_maps.get(map).map_err(|errno| at("id-map", errno))?),
            None => None,
        };
        let Sorted {
            pipes,
            script,
            state,
        } = descriptors::sort(invocation, fds)?;
        let (stdio, terminal) = stdio(policy.tier, pipes)?;
        let (fallback, _) = session_directory(invocation, &policy);
        let namespaces = self.sessions.of(invocation)?.and_then(Session::namespaces);
        let (group, entry) = self.join(exec, &policy)?;
        // ORDER: before the command can make one of them and this process can be killed.
        self.janitor.entrust_names(exec, &tripwires);
        let resources = Resources {
            stdio,
            script,
            state,
            fallback_cwd: fallback.map(|fallback| fallback.cwd),
            id_map,
            namespaces,
            entry,
        };
        match self.spawn((&policy, &plan), invocation, resources) {
            Ok(child) => {
                self.janitor.started(exec, &child.pidfd);
                Ok(Launched {
                    policy,
                    plan,
                    child,
                    terminal,
                    group,
                    tripwires,
                })
            }
            Err(error) => {
                if let Some(group) = group {
                    self.cgroups.retire(group);
                }
                Err(error)
            }
        }
    }

    fn spawn(
        &mut self,
        (policy, plan): (&Policy, &Plan),
        invocation: &Invocation,
        resources: Resources,
    ) -> Result<launch::Child, NotStarted> {
        let jail = launch::prepare(policy, plan, &invocation.program, resources)
            .map_err(|error| unprepared(&error))?;
        launch::spawn(jail).map_err(|unstarted| {
            // In a session a process in between forks the init, and can be killed before it has told of it.
            if let (Unstarted::PerhapsSomebody(_), Some(inside)) =
                (unstarted, &invocation.in_session)
            {
                self.strays.push(inside.session);
            }
            let failure = unstarted.failure();
            at(failure.stage.name(), failure.errno)
        })
    }

    /// Makes the control group of an execution.
    fn join(&self, exec: ExecKey, policy: &Policy) -> Result<(Option<Group>, Entry), NotStarted> {
        match self.cgroups.create(exec.0, &policy.limits, policy.tier) {
            Ok(Some((group, entry))) => Ok((Some(group), entry)),
            Ok(None) => Ok((None, Entry::None)),
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
                Err(at("cgroup", errno))
            }
        }
    }
}

/// A command whose init was forked.
struct Launched {
    policy: Policy,
    plan: Plan,
    child: launch::Child,
    /// The master of a terminal of the host.
    terminal: Option<OwnedFd>,
    /// The control group.
    group: Option<Group>,
    /// Its protected names.
    tripwires: Tripwires,
}

/// Where to start when the directory that the session carries cannot be entered, and what there is to say
/// already, since the policy does not permit it.
fn session_directory(invocation: &Invocation, policy: &Policy) -> (Option<Fallback>, Vec<String>) {
    let carried = invocation
        .in_session
        .as_ref()
        .and_then(|session| session.carried.cwd.as_ref())
        .filter(|_| invocation.cwd.is_none());
    let Some(directory) = carried else {
        return (None, Vec::new());
    };
    let note = |what: &str| {
        let directory = directory.display();
        format!("the session's directory {directory} {what}; started in the workspace")
    };
    if *directory != policy.cwd {
        let what = format!(
            "is outside what profile '{}' lets a command read",
            policy.profile
        );
        return (None, vec![note(&what)]);
    }
    let fallback = Fallback {
        cwd: policy.workspace.clone(),
        note: note("is gone"),
    };
    (Some(fallback), Vec::new())
}

/// What the command gets for its standard descriptors, and the master of its terminal where that is made
/// here: a jail without a root of its own has no terminals of its own either.
fn stdio(tier: Tier, pipes: descriptors::Pipes) -> Result<(Stdio, Option<OwnedFd>), NotStarted> {
    let size = match pipes {
        descriptors::Pipes::Given(pipes) => return Ok((Stdio::Pipes(pipes), None)),
        descriptors::Pipes::Terminal(size) => (size.columns, size.rows),
    };
    if tier > Tier::Nested {
        return Ok((Stdio::Terminal(size), None));
    }
    let (master, slave) = terminal::open_host(size).map_err(|errno| at("terminal", errno))?;
    Ok((Stdio::HostTerminal(slave), Some(master)))
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
        cgroup: policy.cgroup.kind.name().to_owned(),
    }
}
