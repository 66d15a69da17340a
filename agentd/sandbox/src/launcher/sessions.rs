//! The sessions that are open: whose they are, and what the launcher holds for each.

use std::{collections::BTreeMap, path::PathBuf, rc::Rc};

use super::{
    lifecycle::Millis,
    session_home::{KeptOutput, SessionHome},
};
use crate::{
    launch::Namespaces,
    policy::{Caller, Invocation, Refusal, SessionKey},
};

/// Whose a session is. A command in it has to say the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Profile name.
    pub(crate) profile: String,
    /// Workspace.
    pub(crate) workspace: PathBuf,
    /// Who asked for it.
    pub(crate) caller: Caller,
}

/// What the launcher holds for a session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Whose it is.
    pub(crate) claim: Claim,
    /// Throw-away uid of all its commands.
    pub(crate) uid: u32,
    /// Its directory on the host.
    pub(crate) home: SessionHome,
    /// Its namespaces; `None` on the nested tier.
    namespaces: Option<Rc<Namespaces>>,
    /// Output files of commands that have ended, and when.
    ended: Vec<(Millis, KeptOutput)>,
    /// No command is started in it any more.
    closing: bool,
}

/// After this long the front end has read what a command wrote: it drains for at most 2 s.
const DRAINED_MS: u64 = 5_000;

impl Session {
    /// One that takes commands.
    pub(crate) fn new(
        claim: Claim,
        uid: u32,
        home: SessionHome,
        namespaces: Option<Namespaces>,
    ) -> Self {
        Self {
            claim,
            uid,
            home,
            namespaces: namespaces.map(Rc::new),
            ended: Vec::new(),
            closing: false,
        }
    }

    /// Its namespaces, to start a command in.
    pub(crate) fn namespaces(&self) -> Option<Rc<Namespaces>> {
        self.namespaces.clone()
    }
}

/// All sessions that are open or being closed.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: BTreeMap<SessionKey, Session>,
}

impl Sessions {
    /// The session that a request names and may use; `None` when it names none.
    pub(crate) fn of(&self, invocation: &Invocation) -> Result<Option<&Session>, Refusal> {
        let Some(wanted) = &invocation.in_session else {
            return Ok(None);
        };
        let refused = |text: &str| Err(Refusal::NoSession(text.to_owned()));
        let Some(session) = self.all.get(&wanted.session) else {
            return refused("it was never opened, or it has been closed; open one first");
        };
        if session.closing {
            return refused("it is being closed; open another one");
        }
        let claim = &session.claim;
        if claim.caller != invocation.caller {
            return refused("it belongs to another user; open one of your own");
        }
        if claim.profile != invocation.profile || claim.workspace != invocation.workspace {
            return refused("it was opened with another profile or workspace; open one with these");
        }
        Ok(Some(session))
    }

    /// Whether this name is in use.
    pub(crate) fn contains(&self, key: SessionKey) -> bool {
        self.all.contains_key(&key)
    }

    /// Takes a session that was made.
    pub(crate) fn insert(&mut self, key: SessionKey, session: Session) {
        self.all.insert(key, session);
    }

    /// Remembers the output file of a command that has ended: whether it stays empty shows only later,
    /// since the front end may still be reading.
    pub(crate) fn retire(&mut self, key: SessionKey, now: Millis, file: KeptOutput) {
        if let Some(session) = self.all.get_mut(&key) {
            session.ended.push((now, file));
        }
    }

    /// Removes output files that stayed empty.
    pub(crate) fn remove_empty_output(&mut self, now: Millis) {
        for session in self.all.values_mut() {
            session.ended.retain(|(ended, file)| {
                let recent = now < ended.after(DRAINED_MS);
                if !recent {
                    file.remove_if_empty();
                }
                recent
            });
        }
    }

    /// Starts no more commands in it. False when the name is unknown.
    pub(crate) fn start_closing(&mut self, key: SessionKey) -> bool {
        let session = self.all.get_mut(&key);
        session.map(|session| session.closing = true).is_some()
    }

    /// The sessions being closed.
    pub(crate) fn closing(&self) -> Vec<SessionKey> {
        let closing = self.all.iter().filter(|(_, session)| session.closing);
        closing.map(|(key, _)| *key).collect()
    }

    /// The throw-away uid of a session's commands.
    pub(crate) fn uid(&self, key: SessionKey) -> Option<u32> {
        self.all.get(&key).map(|session| session.uid)
    }

    /// Every session.
    pub(crate) fn keys(&self) -> Vec<SessionKey> {
        self.all.keys().copied().collect()
    }

    /// Forgets a session.
    pub(crate) fn remove(&mut self, key: SessionKey) -> Option<Session> {
        self.all.remove(&key)
    }
}
