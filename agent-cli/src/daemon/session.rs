//! A session of the daemon, kept alive while this client lives, replaced when the daemon has forgotten it,
//! deleted at the end.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_proto::v1::{self, session_service_client::SessionServiceClient};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{Daemon, DaemonError, SandboxChoice, convert, link::Link, tools::wire_path};

/// The daemon's name for what this needs.
const FEATURE: &str = "sessions";
/// How long opening may take while the connection is broken.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);
/// How long deleting may take; what is not deleted expires by itself.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Length of a lease when the daemon does not say.
const USUAL_LEASE: Duration = Duration::from_secs(300);

/// What a session is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionScope {
    /// Id, chosen by this client: at most 40 characters of `[A-Za-z0-9_-]`.
    pub session_id: String,
    /// Jail of everything in it.
    pub sandbox: SandboxChoice,
    /// Directory in which its first command starts.
    pub cwd: PathBuf,
    /// Length of the lease; the daemon's default when absent.
    pub lease: Option<Duration>,
}

/// A session that is kept alive until it is closed or dropped.
#[derive(Debug)]
pub struct Lease {
    link: Arc<Link>,
    scope: SessionScope,
    current: Arc<Mutex<String>>,
    /// Held while a new session is opened, so that parallel calls open one.
    replacing: tokio::sync::Mutex<u32>,
    keeper: JoinHandle<()>,
}

impl Daemon {
    /// Opens a session and keeps it alive; `None` when this daemon has no sessions.
    ///
    /// # Errors
    /// The daemon refused it, or the connection broke.
    pub async fn open_session(
        &self,
        scope: SessionScope,
    ) -> Result<Option<Arc<Lease>>, DaemonError> {
        if !self.has(FEATURE) {
            return Ok(None);
        }
        Lease::open(Arc::clone(self.link()), scope).await.map(Some)
    }

    /// Uses a session that may exist already, or opens it. `workspace` is the one that was asked for, if one
    /// was: a session that exists knows its own. It is neither kept alive nor deleted: it stays for
    /// the next command, until its lease runs out.
    ///
    /// # Errors
    /// The daemon has no sessions, refused it, or the connection broke; or the session has another workspace
    /// or profile than asked for.
    pub async fn use_session(
        &self,
        scope: &SessionScope,
        workspace: Option<&Path>,
    ) -> Result<(), DaemonError> {
        if !self.has(FEATURE) {
            return Err(DaemonError::Unimplemented { what: "sessions" });
        }
        let request = v1::GetSessionRequest {
            session_id: scope.session_id.clone(),
        };
        let found = self
            .link()
            .ask("SessionService.Get", OPEN_PATIENCE, |channel| {
                let request = request.clone();
                async move { SessionServiceClient::new(channel).get(request).await }
            });
        match found.await {
            Ok(answer) => {
                let session = answer.into_inner().session.unwrap_or_default();
                fits(&session, scope, workspace)
            }
            Err(error) if error.is_session_gone() => create(self.link(), scope, &scope.session_id)
                .await
                .map(drop),
            Err(error) => Err(error),
        }
    }
}

/// Whether a session that exists is the one that is meant.
fn fits(
    session: &v1::Session,
    scope: &SessionScope,
    workspace: Option<&Path>,
) -> Result<(), DaemonError> {
    let has = session.sandbox.clone().unwrap_or_default();
    let workspace = workspace.map(wire_path).transpose()?;
    let profile = scope.sandbox.profile.clone();
    for (what, has, wants) in [
        ("workspace", &has.workspace, workspace),
        ("profile", &has.profile, profile),
    ] {
        if wants.is_some_and(|wants| wants != *has) {
            return Err(DaemonError::OtherSession {
                session_id: session.session_id.clone(),
                what,
                has: has.clone(),
            });
        }
    }
    Ok(())
}

impl Lease {
    pub(super) async fn open(
        link: Arc<Link>,
        scope: SessionScope,
    ) -> Result<Arc<Self>, DaemonError> {
        let lease = create(&link, &scope, &scope.session_id).await?;
        let current = Arc::new(Mutex::new(scope.session_id.clone()));
        let keeper = tokio::spawn(keep(Arc::clone(&link), Arc::clone(&current), lease));
        Ok(Arc::new(Self {
            link,
            scope,
            current,
            replacing: tokio::sync::Mutex::new(1),
            keeper,
        }))
    }

    /// Its id now.
    #[must_use]
    pub fn id(&self) -> String {
        read(&self.current)
    }

    /// Opens a new session in the place of `gone`, unless another call has done so already.
    pub(super) async fn replace(&self, gone: &str) -> Result<(), DaemonError> {
        let mut count = self.replacing.lock().await;
        if self.id() != gone {
            return Ok(());
        }
        *count = count.saturating_add(1);
        let id = format!("{}-{count}", self.scope.session_id);
        create(&self.link, &self.scope, &id).await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = id;
        Ok(())
    }

    /// Deletes the session with everything that runs in it. Takes 2 s at most.
    pub async fn close(&self) {
        self.keeper.abort();
        let request = v1::DeleteSessionRequest {
            session_id: self.id(),
        };
        let deleted = self
            .link
            .ask("SessionService.Delete", CLOSE_TIMEOUT, |channel| {
                let request = request.clone();
                async move { SessionServiceClient::new(channel).delete(request).await }
            });
        // What cannot be deleted now expires, or ends with its daemon.
        drop(timeout(CLOSE_TIMEOUT, deleted).await);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

fn read(current: &Mutex<String>) -> String {
    let current = current.lock().unwrap_or_else(PoisonError::into_inner);
    current.clone()
}

/// Opens a session and returns the length of its lease.
async fn create(link: &Link, scope: &SessionScope, id: &str) -> Result<Duration, DaemonError> {
    let request = v1::CreateSessionRequest {
        session_id: id.to_owned(),
        sandbox: Some(scope.sandbox.wire()?),
        lease: scope.lease.map(convert::wire_duration),
        cwd: wire_path(&scope.cwd)?,
        ..v1::CreateSessionRequest::default()
    };
    let answer = link
        .ask("SessionService.Create", OPEN_PATIENCE, |channel| {
            let request = request.clone();
            async move { SessionServiceClient::new(channel).create(request).await }
        })
        .await?;
    let lease = answer
        .into_inner()
        .session
        .and_then(|session| session.lease);
    Ok(lease.map_or(USUAL_LEASE, convert::local_duration))
}

/// Renews the lease at a third of its length, so that two renewals may fail.
async fn keep(link: Arc<Link>, current: Arc<Mutex<String>>, lease: Duration) {
    let pause = lease
        .checked_div(3)
        .unwrap_or(lease)
        .max(Duration::from_millis(10));
    loop {
        sleep(pause).await;
        let request = v1::KeepAliveRequest {
            session_id: read(&current),
        };
        let renewed = link.ask("SessionService.KeepAlive", pause, |channel| {
            let request = request.clone();
            async move { SessionServiceClient::new(channel).keep_alive(request).await }
        });
        // The next call finds out that the session is gone, and opens another.
        drop(renewed.await);
    }
}
