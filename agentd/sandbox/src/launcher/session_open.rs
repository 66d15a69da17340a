//! Opening and closing sessions, and what a command takes from its own.

use std::{collections::BTreeMap, os::fd::OwnedFd, path::PathBuf};

use nix::errno::Errno;

use super::{
    facts::Reserved,
    jail::Leavings,
    not_started::{NotStarted, at},
    removal::Allowance,
    session_home::SessionHome,
    sessions::{Claim, Session},
    stale::OwnDir,
    start::Workshop,
};
use crate::{
    launch::{Namespaces, Room},
    monitor::ExecKey,
    policy::{
        Invocation, Lifetime, LimitRequest, Policy, Program, Refusal, SessionKey, Stdin, Tier,
    },
};

/// A file for a command's output.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Where commands find it; empty when none was asked for.
    pub(crate) shown: String,
    /// For the front end.
    pub(crate) fd: Option<OwnedFd>,
}

/// What a session is made of, and the environment of its commands.
type Made = (SessionHome, Option<Namespaces>, BTreeMap<String, String>);

impl Workshop {
    /// Opens a session. Everything about it that can be refused is refused here, before any command. The
    /// answer is the environment of a command that asks for nothing.
    pub(crate) fn open_session(
        &mut self,
        key: SessionKey,
        claim: Claim,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        if self.sessions.contains(key) {
            return Err(Refusal::Malformed(
                "this session is open already".to_owned(),
            ));
        }
        let uid = self.uids.take().ok_or_else(|| {
            Refusal::NoSession(
                "all throw-away user ids are in use; close another session".to_owned(),
            )
        })?;
        let made = self.make_session(key, &claim, uid);
        match made {
            Ok((home, namespaces, env)) => {
                let session = Session::new(claim, uid, home, namespaces);
                self.sessions.insert(key, session);
                Ok(env)
            }
            Err(refusal) => {
                self.uids.give_back(uid);
                Err(refusal)
            }
        }
    }

    fn make_session(&mut self, key: SessionKey, claim: &Claim, uid: u32) -> Result<Made, Refusal> {
        let home = SessionHome::make(key).map_err(|error| {
            unmade(&format!(
                "its directory in {}: {error}",
                super::stale::PARENT
            ))
        })?;
        match self.furnish_session(&home, claim, uid) {
            Ok((namespaces, env)) => Ok((home, namespaces, env)),
            Err(refusal) => {
                // What is told is why there is no session.
                let unused = home.forget().remove(&Allowance::unlimited());
                unused.unwrap_or_default();
                Err(refusal)
            }
        }
    }

    fn furnish_session(
        &mut self,
        home: &SessionHome,
        claim: &Claim,
        uid: u32,
    ) -> Result<(Option<Namespaces>, BTreeMap<String, String>), Refusal> {
        let reserved = reserve(home, uid, (self.surroundings.tier, ExecKey(0)));
        let policy = self.resolve(&claim.as_invocation(), &reserved)?;
        let namespaces = match policy.tier {
            Tier::Nested => None,
            Tier::Rootless | Tier::HostRoot => {
                let made = room(&policy, &home.tmp()).make();
                Some(made.map_err(|failure| {
                    unmade(&format!(
                        "{}: {}",
                        failure.stage.name(),
                        failure.errno.desc()
                    ))
                })?)
            }
        };
        Ok((namespaces, policy.env))
    }

    /// Forgets a session. To be called when its last command is gone. Returns its user id, which is given back
    /// when nothing of it is left, and its directory, which is to be removed.
    pub(crate) fn forget_session(&mut self, key: SessionKey) -> Option<(u32, OwnDir)> {
        let session = self.sessions.remove(key)?;
        Some((session.uid, session.home.forget()))
    }

    /// What a command takes from its session; `None` when it is in none.
    pub(super) fn reserved_of_session(
        &self,
        exec: ExecKey,
        invocation: &Invocation,
    ) -> Result<Option<Reserved>, Refusal> {
        let session = self.sessions.of(invocation)?;
        let tier = self.surroundings.tier;
        Ok(session.map(|session| reserve(&session.home, session.uid, (tier, exec))))
    }

    /// Makes the file for a command's output, if one is asked for.
    pub(super) fn keep_output(
        &self,
        invocation: &Invocation,
        leavings: &mut Leavings,
    ) -> Result<Kept, NotStarted> {
        let wanted = invocation.in_session.as_ref();
        let name = wanted.and_then(|wanted| wanted.output_file.as_deref());
        let (Some(name), Some(session)) = (name, self.sessions.of(invocation)?) else {
            return Ok(Kept::default());
        };
        let made = session.home.make_output(name);
        let (file, fd) = made.map_err(|errno| no_output_file(name, errno))?;
        leavings.output = Some(file);
        let dirs = session.home.dirs(ExecKey(0));
        let shown = dirs.output_inside(self.surroundings.tier).join(name);
        Ok(Kept {
            shown: shown.display().to_string(),
            fd: Some(fd),
        })
    }
}

impl Claim {
    /// A request for a command that asks for nothing, to see whether the policy would have it.
    pub(super) fn as_invocation(&self) -> Invocation {
        Invocation {
            profile: self.profile.clone(),
            workspace: self.workspace.clone(),
            cwd: None,
            program: Program::Script,
            env_set: BTreeMap::new(),
            env_unset: Vec::new(),
            limits: LimitRequest::default(),
            caller: self.caller,
            stdin: Stdin::Null,
            terminal: None,
            lifetime: Lifetime::Call,
            in_session: None,
        }
    }
}

fn unmade(what: &str) -> Refusal {
    Refusal::NoSession(format!("it could not be made: {what}"))
}

fn no_output_file(name: &str, errno: Errno) -> NotStarted {
    let refused = |text: String| NotStarted::Refused(Refusal::Malformed(text));
    if errno == Errno::EINVAL {
        refused("an output file needs a name of 1 to 64 letters, digits, `_` and `-`".to_owned())
    } else if errno == Errno::EEXIST {
        refused(format!(
            "there is an output file '{name}' already; choose another name"
        ))
    } else {
        at("output-file", errno)
    }
}

fn reserve(home: &SessionHome, uid: u32, (tier, exec): (Tier, ExecKey)) -> Reserved {
    Reserved {
        uid,
        tmp: match tier {
            Tier::Nested => home.tmp(),
            Tier::Rootless | Tier::HostRoot => PathBuf::from("/tmp"),
        },
        dirs: Some(home.dirs(exec)),
    }
}

fn room<'path>(policy: &Policy, tmp: &'path std::path::Path) -> Room<'path> {
    Room {
        tier: policy.tier,
        net: policy.net,
        tmp,
        size: policy.fs.tmp,
    }
}
