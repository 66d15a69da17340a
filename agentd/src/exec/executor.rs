//! The one way to get something executed: admits it, and gives it a driver.

use std::{sync::Arc, time::Duration};

use agentd_sandbox::monitor::StopReason;
use thiserror::Error;

use super::{
    AdmitError, Exec, ExecSpec, ExecState, NotStarted, Registry, Stats,
    driver::{self, Ending, Job},
};
use crate::launcher_link::Link;

/// Why nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// Not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// Admitted, and then not started.
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
}

/// How a drain went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Commands that ended by themselves.
    pub finished: usize,
    /// Commands that were ended.
    pub terminated: usize,
}

/// Executes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Executor {
    registry: Arc<Registry>,
    link: Link,
    stats: Arc<Stats>,
}

impl Executor {
    /// An executor of its own registry and counters.
    #[must_use]
    pub fn new(registry: Registry, link: Link) -> Self {
        let stats = Arc::clone(registry.stats());
        Self {
            registry: Arc::new(registry),
            link,
            stats,
        }
    }

    /// All executions.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The launcher.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Starts a command, or finds it when the request is a retry. Answers at once; see
    /// [`Executor::started`]. The second value: it is new.
    pub fn submit(&self, spec: ExecSpec) -> Result<(Arc<Exec>, bool), AdmitError> {
        let admitted = self.registry.admit(&spec)?;
        let created = admitted.work.is_some();
        if let Some((inbox, entry)) = admitted.work {
            let job = Job {
                exec: Arc::clone(&admitted.exec),
                ending: Ending::new(&admitted.exec, spec.hook.clone()),
                spec,
                inbox,
                link: self.link.clone(),
                stats: Arc::clone(&self.stats),
            };
            let (registry, exec) = (Arc::clone(&self.registry), Arc::clone(&admitted.exec));
            // Not tied to the call: a command outlives the connection it came by.
            tokio::spawn(async move {
                Box::pin(driver::drive(job, entry)).await;
                // Whoever asked for it may be gone, so this is not left to it.
                if matches!(exec.state(), ExecState::NotStarted(_)) {
                    registry.forget(&exec);
                }
            });
        }
        Ok((admitted.exec, created))
    }

    /// Waits until a command runs or is over. One that never started is known no longer: its id is free
    /// for another try.
    pub async fn started(&self, exec: &Exec) -> Result<(), NotStarted> {
        exec.started().await
    }

    /// Admits nothing more, gives what runs `patience` to end by itself, then ends it and waits until
    /// it is over, at most `kill_patience`.
    pub async fn drain(&self, patience: Duration, kill_patience: Duration) -> Drained {
        let running = self.registry.drain();
        let all_ended = async {
            for exec in &running {
                exec.ended().await;
            }
        };
        if tokio::time::timeout(patience, all_ended).await.is_ok() {
            return Drained {
                finished: count_ended(&running),
                terminated: 0,
            };
        }
        let rest: Vec<_> = running
            .iter()
            .filter(|exec| exec.finished_at().is_none())
            .collect();
        for exec in &rest {
            exec.request_stop(StopReason::Drained, None);
        }
        let rest_ended = async {
            for exec in &rest {
                exec.ended().await;
            }
        };
        if tokio::time::timeout(kill_patience, rest_ended)
            .await
            .is_err()
        {
            tracing::warn!("some commands did not end in time; the launcher ends them with us");
        }
        let terminated = rest.len();
        Drained {
            finished: count_ended(&running).saturating_sub(terminated),
            terminated,
        }
    }
}

/// Those with an end; what was sent away from the queue has none.
fn count_ended(execs: &[Arc<Exec>]) -> usize {
    execs.iter().filter(|exec| exec.result().is_some()).count()
}
