//! A place for a command in a session: what the session adds to a request, fixed once and the same for
//! every retry.

use std::{path::Path, sync::Arc};

use agentd_sandbox::{
    monitor::{ExecKey, StopReason},
    policy::{InSession, Lifetime, Program},
};
use thiserror::Error;

use super::{Session, hook::StateHook, state::Beginning, work::Terms};
use crate::exec::{Disconnect, Exec, ExecId, ExecSpec, Hook};

/// Most commands of a session that somebody waits for, at once.
const MAX_FOREGROUND: usize = 16;

/// Numbers of a session's ids: more than it will ever choose.
const IDS_PER_SESSION: u64 = 1_000_000_000;

/// Longest name of an output file to which a number can still be added.
const LONGEST_NAME: usize = 48;

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody waits for it; where it ends, the next one begins.
    Foreground,
    /// It lives as long as the session.
    Background,
}

/// What is asked of a session for one command.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// Id chosen by the client.
    pub id: Option<ExecId>,
    /// The execution that this id names now: the request is a retry of it. `None`: it is new.
    pub known: Option<ExecKey>,
    /// What for.
    pub kind: Kind,
    /// Most bytes of output that are kept in a file; 0 for no file.
    pub output_file_bytes: u64,
    /// Boot id of the daemon, for ids that it chooses.
    pub boot_id: &'a str,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SeatError {
    /// Too many at once.
    #[error(
        "{MAX_FOREGROUND} commands of this session are running, the most at once; wait for one, or start long ones in the background"
    )]
    Full,
    /// It ended meanwhile.
    #[error("the session is being closed; open a new one")]
    Closing,
}

/// A place in a session.
#[derive(Debug, Clone)]
pub struct Seat {
    session: Arc<Session>,
    terms: Terms,
}

impl Session {
    /// A place for a command; for a retry the place it has.
    pub fn seat(self: &Arc<Self>, wish: &Wish<'_>) -> Result<Seat, SeatError> {
        let directory = self.cwd();
        let known = self.known();
        let mut work = self.work();
        if !work.is_open {
            return Err(SeatError::Closing);
        }
        if let Some(terms) = wish.known.and_then(|key| work.terms(key)) {
            let terms = terms.again(wish);
            return Ok(self.give(terms));
        }
        let in_foreground = known
            .iter()
            .filter(|known| known.kind == Kind::Foreground && known.is_running());
        if wish.kind == Kind::Foreground && in_foreground.count() >= MAX_FOREGROUND {
            return Err(SeatError::Full);
        }
        let number = work.number();
        let id = match &wish.id {
            Some(id) => id.clone(),
            None => own_id(self, wish.boot_id, number),
        };
        let output_file = (wish.output_file_bytes > 0).then(|| file_name(&id, number));
        Ok(self.give(Terms {
            id,
            kind: wish.kind,
            directory,
            output_file,
        }))
    }

    fn give(self: &Arc<Self>, terms: Terms) -> Seat {
        Seat {
            session: Arc::clone(self),
            terms,
        }
    }
}

/// An id that the daemon chooses: it names the boot, as all such do, and is unlike those of commands
/// without a session.
fn own_id(session: &Session, boot_id: &str, number: u64) -> ExecId {
    let key = session.key().0.saturating_mul(IDS_PER_SESSION);
    ExecId::generated(boot_id, ExecKey(key.saturating_add(number)))
}

/// A name that no other file of the session has: an id comes again once its command is forgotten.
fn file_name(id: &ExecId, number: u64) -> String {
    let short: String = id.as_str().chars().take(LONGEST_NAME).collect();
    format!("{short}-{number}")
}

impl Terms {
    /// The same for a request with the same id: what it asks for is its own, so that another request is
    /// seen to be another one.
    fn again(&self, wish: &Wish<'_>) -> Self {
        let output_file = (wish.output_file_bytes > 0).then(|| {
            let known = self.output_file.clone();
            known.unwrap_or_else(|| file_name(&self.id, 0))
        });
        Self {
            kind: wish.kind,
            output_file,
            ..self.clone()
        }
    }
}

impl Seat {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What a relative directory of the request is relative to.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.terms.directory
    }

    /// Adds what the session gives to a request.
    pub fn furnish(&self, spec: &mut ExecSpec) {
        let is_script = matches!(spec.invocation.program, Program::Script);
        let carried = self.session.carried();
        let report_state = match self.terms.kind {
            Kind::Foreground => is_script,
            Kind::Background => false,
        };
        let beginning = report_state.then(|| Beginning {
            carried: carried.clone(),
            env_set: spec.invocation.env_set.clone(),
            env_unset: spec.invocation.env_unset.clone(),
            cwd: spec.invocation.cwd.clone(),
        });
        let hook = StateHook::new(Arc::clone(&self.session), beginning, spec.script.as_deref());
        spec.id = Some(self.terms.id.clone());
        spec.hook = Some(Hook(Arc::new(hook)));
        spec.invocation.caller = self.session.caller();
        spec.invocation.in_session = Some(Box::new(InSession {
            session: self.session.key(),
            carried,
            report_state,
            output_file: self.terms.output_file.clone(),
        }));
        if self.terms.kind == Kind::Background {
            spec.invocation.lifetime = Lifetime::Session;
            spec.disconnect = Disconnect::Keep;
        }
    }

    /// The command has started, or is being started.
    pub fn take(self, exec: &Arc<Exec>) {
        let mut work = self.session.work();
        if !work.is_open {
            // The session ended between the two: nothing may outlive it.
            exec.request_stop(StopReason::Cancelled, None);
        }
        work.add(self.terms, exec);
    }
}
