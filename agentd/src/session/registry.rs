//! All sessions the daemon knows. Ids belong to callers: nobody sees, uses or collides with a session of
//! somebody else. Their number is bounded, per caller and in all.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentd_sandbox::{
    monitor::StopReason,
    policy::{Caller, SessionKey},
};
use thiserror::Error;

use super::{NotOpened, Phase, Session, SessionId, SessionSpec, life};
use crate::{exec::Exec, launcher_link::Link};

/// Ended sessions whose ids are remembered, so that a client is told why its session is gone.
const REMEMBERED: usize = 1024;

/// Longest wait for a session to be gone: TERM, grace, KILL, and the launcher's clearing up.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// How many sessions there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of one user.
    pub per_user: usize,
    /// Of all users together.
    pub in_all: usize,
}

/// Why no session was created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    /// Same id, other request.
    #[error("session id '{0}' already names another request; choose a new id")]
    Conflict(SessionId),
    /// Too many.
    #[error(
        "{0} sessions are open already, the most there may be; delete one, or try again when one has expired"
    )]
    Full(usize),
    /// A session of this id is still being closed.
    #[error("session '{0}' is still being closed; try again later, or choose a new id")]
    Closing(SessionId),
    /// The daemon is about to stop.
    #[error("the daemon is being drained; use another one or try again later")]
    Draining,
    /// It did not open.
    #[error(transparent)]
    NotOpened(#[from] NotOpened),
}

/// Why there is no such session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unknown {
    /// It was there, and ended.
    #[error("it was deleted, or its lease ran out; open a new one")]
    Ended,
    /// An earlier daemon chose the id.
    #[error("the daemon was restarted, and no session survives that; open a new one")]
    OtherBoot,
    /// Nothing is known of it.
    #[error("there is none of this name of yours; open one first")]
    Never,
}

/// Why a session was not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DeleteError {
    /// There is none.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// It takes longer than a call may.
    #[error("the session is still being closed; ask again")]
    Unfinished,
}

/// All sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) link: Link,
    boot_id: String,
    room: Room,
    patience: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeMap<(u32, SessionId), Arc<Session>>,
    newest: u64,
    ended: VecDeque<(u32, SessionId)>,
    is_draining: bool,
}

/// What a request for a session comes to.
enum Admission {
    /// A new one.
    New(Arc<Session>),
    /// It is a retry.
    Known(Arc<Session>),
    /// One of this id is being closed.
    InTheWay(Arc<Session>),
}

impl Registry {
    /// No sessions yet. `boot_id` makes the ids it chooses differ from those of an earlier daemon.
    #[must_use]
    pub fn new(link: Link, boot_id: &str, room: Room) -> Self {
        Self(Arc::new(Shared::new(link, boot_id, room)))
    }

    /// Lets a call wait for that long for a session to be gone. For a registry that is still empty.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        let Shared {
            link,
            boot_id,
            room,
            ..
        } = &*self.0;
        Self(Arc::new(Shared {
            patience,
            ..Shared::new(link.clone(), boot_id, *room)
        }))
    }

    /// Opens a session, or finds it when the request is a retry. The second value: it is new. Opening
    /// goes on when the caller stops waiting; the lease ends what nobody asks for.
    pub async fn create(&self, spec: SessionSpec) -> Result<(Arc<Session>, bool), CreateError> {
        let admission = match self.admit(&spec)? {
            Admission::InTheWay(session) => {
                let id = session.id().clone();
                tokio::time::timeout(self.0.patience, gone(&session))
                    .await
                    .or(Err(CreateError::Closing(id)))?;
                self.admit(&spec)?
            }
            admitted @ (Admission::New(_) | Admission::Known(_)) => admitted,
        };
        match admission {
            Admission::New(session) => {
                tokio::spawn(life::live(Arc::clone(&self.0), Arc::clone(&session)));
                Ok((opened(session).await?, true))
            }
            Admission::Known(session) => Ok((opened(session).await?, false)),
            Admission::InTheWay(session) => Err(CreateError::Closing(session.id().clone())),
        }
    }

    fn admit(&self, spec: &SessionSpec) -> Result<Admission, CreateError> {
        let mut inner = self.0.lock();
        let uid = spec.caller.uid;
        if let Some(id) = &spec.id
            && let Some(known) = inner.sessions.get(&(uid, id.clone()))
        {
            return match known.phase() {
                Phase::Closing | Phase::Closed { .. } | Phase::NotOpened(_) => {
                    Ok(Admission::InTheWay(Arc::clone(known)))
                }
                Phase::Opening | Phase::Open if *known.digest() == spec.digest() => {
                    known.touch();
                    Ok(Admission::Known(Arc::clone(known)))
                }
                Phase::Opening | Phase::Open => Err(CreateError::Conflict(id.clone())),
            };
        }
        if inner.is_draining {
            return Err(CreateError::Draining);
        }
        let own = inner.sessions.keys().filter(|(owner, _)| *owner == uid);
        if own.count() >= self.0.room.per_user || inner.sessions.len() >= self.0.room.in_all {
            return Err(CreateError::Full(inner.sessions.len()));
        }
        inner.newest = inner.newest.saturating_add(1);
        let key = SessionKey(inner.newest);
        let id = spec
            .id
            .clone()
            .unwrap_or_else(|| SessionId::generated(&self.0.boot_id, key));
        let session = Session::new((id.clone(), key), spec.clone());
        let session = Arc::new(session);
        inner.sessions.insert((uid, id), Arc::clone(&session));
        Ok(Admission::New(session))
    }

    /// An open session of this caller. Finding it renews its lease.
    pub fn find(&self, caller: Caller, id: &str) -> Result<Arc<Session>, Unknown> {
        let session = self.get(caller, id)?;
        match session.phase() {
            Phase::Open => {
                session.touch();
                Ok(session)
            }
            // Nobody was told of it yet.
            Phase::Opening | Phase::NotOpened(_) => Err(Unknown::Never),
            Phase::Closing | Phase::Closed { .. } => Err(Unknown::Ended),
        }
    }

    /// Somebody asked for something of a command: that renews the lease of its session.
    pub fn used(&self, exec: &Exec) {
        let session = exec.session_id().map(|id| self.get(exec.owner(), id));
        if let Some(Ok(session)) = session
            && session.phase() == Phase::Open
            // Its id may name another session by now.
            && session.find(exec.id().as_str()).is_some_and(|known| known.exec.key() == exec.key())
        {
            session.touch();
        }
    }

    fn get(&self, caller: Caller, id: &str) -> Result<Arc<Session>, Unknown> {
        let id = SessionId::parse(id).ok_or(Unknown::Never)?;
        let inner = self.0.lock();
        let name = (caller.uid, id);
        if let Some(session) = inner.sessions.get(&name) {
            return Ok(Arc::clone(session));
        }
        if inner.ended.contains(&name) {
            return Err(Unknown::Ended);
        }
        if name.1.is_of_another_boot(&self.0.boot_id) {
            return Err(Unknown::OtherBoot);
        }
        Err(Unknown::Never)
    }

    /// The open sessions of this caller, oldest first. Listing renews no lease.
    #[must_use]
    pub fn list(&self, caller: Caller) -> Vec<Arc<Session>> {
        let inner = self.0.lock();
        let mut own: Vec<_> = inner
            .sessions
            .values()
            .filter(|session| session.caller().uid == caller.uid)
            .filter(|session| session.phase() == Phase::Open)
            .cloned()
            .collect();
        own.sort_by_key(|session| session.key());
        own
    }

    /// Ends a session with everything that runs in it. The answer comes when nothing of it is left: the
    /// number of executions that were ended.
    pub async fn delete(&self, caller: Caller, id: &str) -> Result<u32, DeleteError> {
        let session = self.get(caller, id)?;
        session.end(StopReason::Cancelled);
        match tokio::time::timeout(self.0.patience, gone(&session)).await {
            Ok(Phase::Closed { terminated }) => Ok(terminated),
            Ok(Phase::Opening | Phase::Open | Phase::Closing | Phase::NotOpened(_)) => {
                Err(Unknown::Never.into())
            }
            Err(_) => Err(DeleteError::Unfinished),
        }
    }

    /// Number of sessions, those that open or close included.
    #[must_use]
    pub fn active(&self) -> usize {
        self.0.lock().sessions.len()
    }

    /// Creates no more from now on.
    pub fn refuse_new(&self) {
        self.0.lock().is_draining = true;
    }

    /// Creates no more, ends all, and waits at most `patience` until they are gone.
    pub async fn drain(&self, patience: Duration) {
        let all: Vec<_> = {
            let mut inner = self.0.lock();
            inner.is_draining = true;
            inner.sessions.values().cloned().collect()
        };
        for session in &all {
            session.end(StopReason::Drained);
        }
        let all_gone = async {
            for session in &all {
                gone(session).await;
            }
        };
        if tokio::time::timeout(patience, all_gone).await.is_err() {
            tracing::warn!("some sessions did not end in time; the launcher ends them with us");
        }
    }
}

async fn opened(session: Arc<Session>) -> Result<Arc<Session>, CreateError> {
    match session.phase_where(|phase| *phase != Phase::Opening).await {
        Phase::NotOpened(why) => Err(why.into()),
        Phase::Closing | Phase::Closed { .. } => Err(CreateError::Closing(session.id().clone())),
        Phase::Opening | Phase::Open => Ok(session),
    }
}

async fn gone(session: &Session) -> Phase {
    let is_gone = |phase: &Phase| matches!(phase, Phase::Closed { .. } | Phase::NotOpened(_));
    session.phase_where(is_gone).await
}

impl Shared {
    fn new(link: Link, boot_id: &str, room: Room) -> Self {
        Self {
            link,
            boot_id: boot_id.to_owned(),
            room,
            patience: CLOSE_PATIENCE,
            inner: Mutex::default(),
        }
    }

    /// Forgets a session. Its id is free again.
    pub(super) fn remove(&self, session: &Session) {
        let mut inner = self.lock();
        let name = (session.caller().uid, session.id().clone());
        inner.sessions.remove(&name);
        if session.phase() == Phase::Closing {
            if inner.ended.len() >= REMEMBERED {
                inner.ended.pop_front();
            }
            inner.ended.push_back(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
