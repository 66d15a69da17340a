//! The event loop: one thread, one `poll`, no waiting anywhere else.

mod act;
mod ahead;
mod farewell;
mod mourning;
mod strays;

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use ahead::Ahead;
use mourning::Mourning;
use strays::Strays;

use super::{
    args::Args,
    clock::Clock,
    facts::{self, Surroundings},
    far::Mounts,
    given_up::GivenUp,
    jail::Jail,
    janitor::Janitor,
    lifecycle::{Input, Millis},
    not_started::NotStarted,
    outbox::Outbox,
    sessions::{Claim, Sessions},
    setup::Setup,
    start::Workshop,
    uids::Uids,
};
use crate::{
    cgroup::Cgroups,
    claim,
    explain::{Query, Verdict, explain},
    launch::IdMaps,
    monitor::{Channel, ChannelError, Event, ExecKey, ProfileSummary, Request, SetupFailure},
    policy::{self, Invocation, Refusal, Tier},
    probe::Host,
    profile::Catalogue,
    sys::signals,
};

/// Requests taken before the jails get their turn.
const MOST_REQUESTS_AT_ONCE: u32 = 64;
/// Most questions in one request.
const MOST_QUERIES: usize = 64;

/// The launcher's state.
#[derive(Debug)]
pub(crate) struct Server {
    channel: Channel<Event, Request>,
    pub(super) outbox: Outbox,
    clock: Clock,
    pub(super) workshop: Workshop,
    pub(super) jails: BTreeMap<ExecKey, Jail>,
    given_up: GivenUp,
    /// Requests whose paths are being looked at.
    ahead: Ahead,
    /// What executions and sessions left, while it is being removed.
    pub(super) mourning: Mourning,
    /// Inits that nobody knows.
    pub(super) strays: Strays,
    /// When to look again at groups that could not be removed yet.
    tidy_at: Option<Millis>,
}

impl Server {
    /// A launcher without jails.
    pub(crate) fn new(
        channel: Channel<Event, Request>,
        (host, tier): (Host, Tier),
        (catalogue, args): (Catalogue, Args),
        (cgroups, janitor): (Cgroups, Janitor),
    ) -> Self {
        let cgroup = cgroups.facts().clone();
        Self {
            channel,
            outbox: Outbox::default(),
            clock: Clock::start(),
            workshop: Workshop {
                surroundings: Surroundings {
                    host,
                    tier,
                    args,
                    cgroup,
                },
                catalogue,
                id_maps: IdMaps::default(),
                uids: Uids::of_launcher(std::process::id(), claim::pid_namespace()),
                sessions: Sessions::default(),
                cgroups,
                janitor,
                mounts: Mounts::default(),
                strays: Vec::new(),
            },
            jails: BTreeMap::new(),
            given_up: GivenUp::default(),
            ahead: Ahead::default(),
            mourning: Mourning::default(),
            strays: Strays::default(),
            tidy_at: None,
        }
    }

    /// Removes what belongs to no single execution. The last call.
    pub(crate) fn close(&mut self) {
        self.workshop.cgroups.close();
    }

    /// Says what this host and the profiles are.
    pub(crate) fn announce(&mut self) {
        let profiles = self.profiles();
        let surroundings = &self.workshop.surroundings;
        let host = &surroundings.host;
        self.outbox.push(&Event::Ready {
            tier: surroundings.tier,
            tier_reason: host.tier_reason.clone(),
            landlock_abi: host.landlock_abi,
            capabilities: host
                .capabilities
                .iter()
                .map(|known| (known.name.to_owned(), known.available, known.detail.clone()))
                .collect(),
            cgroup: self.workshop.cgroups.kind().name().to_owned(),
            profiles: u32::try_from(profiles.len()).unwrap_or(u32::MAX),
        });
        self.push_profiles(profiles);
    }

    /// Runs until the front end is gone and every jail has ended.
    pub(crate) fn serve(&mut self) -> Result<(), ChannelError> {
        let result = loop {
            if let Err(error) = self.outbox.flush(&self.channel) {
                break Err(error);
            }
            self.wait();
            match self.hear() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            self.hear_scouts();
            self.observe_jails();
            self.go_on_burying();
            self.reap_own();
            self.finish_closing();
            self.tidy();
        };
        self.farewell();
        // However it went away: it is gone.
        match result {
            Err(error) if error.is_end() => Ok(()),
            result => result,
        }
    }

    /// Reaps whoever of the launcher's own processes has ended.
    fn reap_own(&mut self) {
        for uid in self.given_up.reap() {
            self.workshop.uids.give_back(uid);
        }
        self.workshop.janitor.look_after();
        // ORDER: the last, when nobody else's is left that has ended.
        self.reap_strays();
    }

    /// Removes the groups of executions that are over.
    fn tidy(&mut self) {
        let now = self.clock.now();
        let again = self.workshop.cgroups.tidy();
        self.tidy_at = again.map(|milliseconds| now.after(milliseconds));
    }

    fn wait(&self) {
        let mut front = signals::readable(self.channel.as_fd().as_raw_fd());
        if self.outbox.is_waiting() {
            front.events |= libc::POLLOUT;
        }
        let mut fds = vec![front];
        for jail in self.jails.values() {
            fds.push(signals::readable(jail.child.control.as_raw_fd()));
            fds.push(signals::readable(jail.child.pidfd.as_raw_fd()));
            if jail.setup != Setup::Over {
                fds.push(signals::readable(jail.child.errors.as_raw_fd()));
            }
        }
        fds.extend(self.given_up.watched());
        fds.extend(self.workshop.janitor.watched());
        fds.extend(self.ahead.watched());
        fds.extend(self.mourning.watched());
        let now = self.clock.now();
        let janitor_at = self.workshop.janitor.due().map(|due| now.after(due));
        let deadline = self
            .jails
            .values()
            .flat_map(|jail| [jail.life.deadline(), jail.watch.due()])
            .chain([self.tidy_at, janitor_at, self.ahead.due()])
            .chain([self.mourning.due(now), self.strays.due(now)])
            .flatten()
            .min();
        let timeout = deadline.map_or(-1, |deadline| {
            // One more: a timer that fires early would only spin.
            let left = deadline.0.saturating_sub(now.0).saturating_add(1);
            i32::try_from(left).unwrap_or(i32::MAX)
        });
        if let Err(errno) = signals::poll(&mut fds, timeout) {
            super::jail::complain(format_args!("poll: {}", errno.desc()));
        }
    }

    /// Takes every waiting request; false when the front end is gone.
    fn hear(&mut self) -> Result<bool, ChannelError> {
        // A flood of requests must not keep timers from firing.
        for _ in 0..MOST_REQUESTS_AT_ONCE {
            match self.channel.recv() {
                Ok(Some(received)) if received.fds_lost => self.refuse_for_room(&received.message),
                Ok(Some(received)) => self.receive(received.message, received.fds),
                Ok(None) => return Ok(false),
                Err(ChannelError::WouldBlock) => return Ok(true),
                // Whoever speaks outside the protocol is not the front end we started.
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn obey(&mut self, request: Request, fds: Vec<OwnedFd>) {
        let now = self.clock.now();
        match request {
            Request::Spawn { exec, invocation } => self.spawn(exec, &invocation, fds),
            Request::Finish { exec } => self.step(exec, now, Input::Finish),
            Request::Stop {
                exec,
                reason,
                grace_ms,
            } => {
                self.step(exec, now, Input::Stop { reason, grace_ms });
            }
            Request::Explain {
                id,
                invocation,
                queries,
            } => {
                let result = self.explain(&invocation, &queries);
                self.outbox.push(&Event::Explained { id, result });
            }
            Request::Reload => self.reload(),
            Request::Signal {
                exec,
                signal,
                scope,
            } => {
                if let Some(jail) = self.jails.get_mut(&exec) {
                    jail.signal(signal, scope);
                }
            }
            Request::Resize { exec, size } => {
                if let Some(jail) = self.jails.get(&exec) {
                    jail.resize(size);
                }
            }
            Request::OpenSession {
                session,
                profile,
                workspace,
                caller,
            } => {
                let claim = Claim {
                    profile,
                    workspace,
                    caller,
                };
                let result = self.workshop.open_session(session, claim);
                self.outbox.push(&Event::SessionOpened { session, result });
            }
            Request::CloseSession { session } => self.close_session(session, now),
        }
    }

    /// The descriptors of a request did not all arrive. Only that request fails; others have none.
    fn refuse_for_room(&mut self, request: &Request) {
        if let Request::Spawn { exec, .. } = request {
            self.outbox.push(&Event::SetupFailed {
                exec: *exec,
                failure: SetupFailure {
                    stage: "descriptors".to_owned(),
                    errno: libc::EMFILE,
                    detail:
                        "the launcher has no room for more descriptors; raise the limit of open \
                             files of agentd"
                            .to_owned(),
                },
            });
        }
    }

    fn spawn(&mut self, exec: ExecKey, invocation: &Invocation, fds: Vec<OwnedFd>) {
        if self.jails.contains_key(&exec) {
            let refusal = Refusal::Malformed("this execution is running already".to_owned());
            self.outbox.push(&Event::Refused { exec, refusal });
            return;
        }
        let now = self.clock.now();
        match self.workshop.start(exec, invocation, (fds, now)) {
            Ok(jail) => drop(self.jails.insert(exec, jail)),
            Err(NotStarted::Refused(refusal)) => {
                self.outbox.push(&Event::Refused { exec, refusal });
            }
            Err(NotStarted::Failed(failure)) => {
                self.outbox.push(&Event::SetupFailed { exec, failure });
            }
        }
    }

    fn explain(
        &mut self,
        invocation: &Invocation,
        queries: &[Query],
    ) -> Result<Vec<Verdict>, Refusal> {
        if queries.len() > MOST_QUERIES {
            return Err(Refusal::Malformed(format!(
                "at most {MOST_QUERIES} questions at once"
            )));
        }
        let policy = self.workshop.decide(invocation)?;
        Ok(queries
            .iter()
            .map(|query| explain(&policy, query))
            .collect())
    }

    fn reload(&mut self) {
        let dirs = &self.workshop.surroundings.args.profile_dirs;
        match Catalogue::load(dirs) {
            Ok(catalogue) => {
                self.workshop.catalogue = catalogue;
                let profiles = self.profiles();
                let count = u32::try_from(profiles.len()).unwrap_or(u32::MAX);
                self.outbox.push(&Event::Reloaded { result: Ok(count) });
                self.push_profiles(profiles);
            }
            Err(error) => self.outbox.push(&Event::Reloaded {
                result: Err(error.to_string()),
            }),
        }
    }

    fn profiles(&self) -> Vec<ProfileSummary> {
        let facts = facts::general(&self.workshop.surroundings);
        let summary = |profile: &crate::profile::Profile| ProfileSummary {
            name: profile.name.clone(),
            description: profile.description.clone(),
            digest: profile.digest.clone(),
            minimum_tier: profile.require.tier,
            unavailable: policy::unavailable(profile, &facts),
            limits: profile.limits.defaults,
            max_timeout_ms: profile.limits.max_timeout_ms,
            commands: profile.commands.clone(),
            meta: profile.meta.clone(),
        };
        self.workshop.catalogue.usable().map(summary).collect()
    }

    fn push_profiles(&mut self, profiles: Vec<ProfileSummary>) {
        for profile in profiles {
            self.outbox.push(&Event::Profile(Box::new(profile)));
        }
    }

    fn observe_jails(&mut self) {
        let now = self.clock.now();
        let keys: Vec<ExecKey> = self.jails.keys().copied().collect();
        for exec in keys {
            if let Some(jail) = self.jails.get_mut(&exec) {
                let actions = jail.observe(now);
                let passed = jail.sample(now);
                self.act(exec, actions);
                if let Some(input) = passed {
                    self.step(exec, now, input);
                }
            }
            self.step(exec, now, Input::Tick);
        }
    }
}
