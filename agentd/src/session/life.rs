//! The life of a session: opened by the launcher, kept by its lease, and at the end everything that runs
//! in it ended before the launcher removes what is left. One task per session; it survives any call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_sandbox::{
    monitor::StopReason,
    policy::{Invocation, Lifetime, LimitRequest, Program, Stdin},
};

use super::{NotOpened, Phase, Session, registry::Shared};
use crate::{
    exec::Exec,
    launcher_link::{ExplainError, Link, LinkError, OpenError},
};

/// Longest wait for the launcher to open a session.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for commands to end: the longest grace, and time to kill and bury.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// After this time without the launcher's word that nothing is left, it is said in the log.
const CLOSES_SOON: Duration = Duration::from_secs(10);

/// A lease is looked at this many times over its length, so that a command that ends, or a reader that
/// goes, just before it runs out has renewed it.
const LOOKS: u32 = 4;

/// Shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(1);

/// Lives a session from its opening to its end.
pub(super) async fn live(shared: Arc<Shared>, session: Arc<Session>) {
    if let Err(why) = open(&shared.link, &session).await {
        return withdraw(&shared, &session, why).await;
    }
    session.touch();
    session.enter(Phase::Open);
    tracing::info!(session = %session.id(), "opened");
    let reason = tokio::select! {
        reason = session.ending() => reason,
        () = run_out(&session) => StopReason::Disconnected,
        () = shared.link.lost() => StopReason::Disconnected,
    };
    // ORDER: no new command before the running ones are counted, or one would slip through.
    session.enter(Phase::Closing);
    let running = session.shut();
    let terminated = stop(&running, reason).await;
    // ORDER: before the launcher removes the files, whose space is free only when nobody has them open.
    session.let_go_of_output();
    // ORDER: it is closed when the launcher says so, however long that takes, and counts until then.
    close(&shared.link, &session).await;
    shared.remove(&session);
    session.enter(Phase::Closed { terminated });
    tracing::info!(session = %session.id(), ?reason, terminated, "closed");
}

async fn open(link: &Link, session: &Session) -> Result<(), NotOpened> {
    let spec = session.spec();
    let opening = async {
        let place = (spec.profile.as_str(), spec.workspace.as_path());
        let environment = link.open_session(session.key(), place, spec.caller).await?;
        session.begin_with(environment);
        if spec.cwd.is_some() || !spec.env_set.is_empty() || !spec.env_unset.is_empty() {
            check(link, session).await?;
        }
        Ok(())
    };
    tokio::time::timeout(OPEN_PATIENCE, opening)
        .await
        .unwrap_or(Err(NotOpened::Late))
}

/// Takes a session back that did not open. Whatever the launcher made of it goes again; it answers for
/// unknown names too.
async fn withdraw(shared: &Shared, session: &Session, why: NotOpened) {
    let closing = close(&shared.link, session);
    tokio::pin!(closing);
    let closed = tokio::time::timeout(CLOSES_SOON, &mut closing).await;
    if closed.is_ok() {
        // ORDER: its id is free before anybody hears of the failure and tries again.
        shared.remove(session);
        session.enter(Phase::NotOpened(why));
    } else {
        session.enter(Phase::NotOpened(why));
        // It counts for as long as something of it may be there.
        closing.await;
        shared.remove(session);
    }
}

/// Directory and variables reach commands as what is carried, of which the policy silently leaves out what
/// it does not permit. Here it is asked once, so that the client hears of it.
async fn check(link: &Link, session: &Session) -> Result<(), NotOpened> {
    let spec = session.spec();
    let invocation = Invocation {
        profile: spec.profile.clone(),
        workspace: spec.workspace.clone(),
        cwd: spec.cwd.clone(),
        program: Program::Script,
        env_set: spec.env_set.clone(),
        env_unset: spec.env_unset.clone(),
        limits: LimitRequest::default(),
        caller: spec.caller,
        stdin: Stdin::Null,
        terminal: None,
        lifetime: Lifetime::Call,
        in_session: None,
    };
    link.explain(invocation, Vec::new()).await?;
    Ok(())
}

impl From<OpenError> for NotOpened {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Refused(refusal) => Self::Refused(refusal),
            OpenError::Link(error) => error.into(),
        }
    }
}

impl From<ExplainError> for NotOpened {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Refused(refusal) => Self::Refused(refusal),
            ExplainError::Link(error) => error.into(),
        }
    }
}

impl From<LinkError> for NotOpened {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::TooLarge(bytes) => {
                Self::Refused(agentd_sandbox::policy::Refusal::Malformed(format!(
                    "the request takes {bytes} bytes, too many; set fewer variables"
                )))
            }
            LinkError::Gone | LinkError::Watch(_) | LinkError::Channel(_) => Self::LauncherGone,
        }
    }
}

/// Waits until the lease has run out. Being used renews it.
async fn run_out(session: &Session) {
    loop {
        if session.is_busy() {
            session.touch();
        }
        let left = session.deadline().saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let look = session.spec().lease.checked_div(LOOKS).unwrap_or(left);
        tokio::time::sleep(left.min(look).max(SHORTEST)).await;
    }
}

/// Ends what runs; the answer is how many that were.
async fn stop(running: &[Arc<Exec>], reason: StopReason) -> u32 {
    for exec in running {
        exec.request_stop(reason, None);
    }
    let all_ended = async {
        for exec in running {
            exec.ended().await;
        }
    };
    if tokio::time::timeout(STOP_PATIENCE, all_ended)
        .await
        .is_err()
    {
        tracing::warn!("some commands of a session did not end in time; the launcher kills them");
    }
    u32::try_from(running.len()).unwrap_or(u32::MAX)
}

/// Has the launcher remove what is left, killing what still runs, and returns when it says that nothing is.
async fn close(link: &Link, session: &Session) {
    let closing = link.close_session(session.key());
    tokio::pin!(closing);
    let soon = tokio::time::timeout(CLOSES_SOON, &mut closing).await;
    let closed = if let Ok(closed) = soon {
        closed
    } else {
        tracing::warn!(session = %session.id(), "the launcher does not close it; it stays closing");
        closing.await
    };
    if let Err(error) = closed {
        // The launcher is gone, and everything with it.
        tracing::debug!(%error, "cannot close a session");
    }
}
