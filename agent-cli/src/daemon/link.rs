//! The connection to one daemon: shared by everything that talks to it, made again when it broke. Every
//! connection is introduced before it is used, so that a daemon that restarted is noticed.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_proto::v1::{self, info_service_client::InfoServiceClient};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Status, transport::Channel};

use super::{
    DaemonError, error,
    fault::Fault,
    follow::{Patience, backoff},
};
use crate::{
    connect::{Connector, DialFailure},
    ids,
};

/// How long a daemon may take to say who it is on a connection that was made again.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection, to a process that has said who it is. It never becomes a connection to another one.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) channel: Channel,
    /// Changes when the daemon restarts.
    pub(super) boot: Arc<str>,
    number: u64,
}

/// The connection to one daemon.
#[derive(Debug)]
pub struct Link {
    connector: Connector,
    patience: Patience,
    /// Absent once it was hung up.
    current: Mutex<Option<Line>>,
    /// Held while dialling, so that many broken calls make one new connection.
    dialling: tokio::sync::Mutex<()>,
}

impl Link {
    /// Reaches a daemon.
    ///
    /// # Errors
    /// Nobody answers there, or not in `agentd.v1`.
    pub async fn open(connector: Connector, patience: Patience) -> Result<Arc<Self>, DaemonError> {
        let failed = |fault: Fault| DaemonError::Broken(fault.to_string());
        let (channel, boot) = dial(&connector).await.map_err(failed)?;
        Ok(Self::new((connector, patience), channel, boot))
    }

    pub(super) fn new(
        (connector, patience): (Connector, Patience),
        channel: Channel,
        boot: String,
    ) -> Arc<Self> {
        let line = Line {
            channel,
            boot: boot.into(),
            number: 0,
        };
        Arc::new(Self {
            connector,
            patience,
            current: Mutex::new(Some(line)),
            dialling: tokio::sync::Mutex::default(),
        })
    }

    /// Whether a lost connection can be made again.
    pub(super) fn can_redial(&self) -> bool {
        self.connector.can_redial()
    }

    /// How long to wait for what does not come.
    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// The connection as it is now; it may be broken.
    pub(super) fn line(&self) -> Result<Line, Fault> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone().ok_or(Fault::HungUp)
    }

    /// The channel of the current connection.
    pub(super) fn channel(&self) -> Result<Channel, DaemonError> {
        let line = self
            .line()
            .map_err(|fault| DaemonError::Broken(fault.to_string()))?;
        Ok(line.channel)
    }

    /// The process at the other end of the current connection.
    pub(super) fn boot(&self) -> Result<String, DaemonError> {
        let line = self
            .line()
            .map_err(|fault| DaemonError::Broken(fault.to_string()))?;
        Ok(line.boot.to_string())
    }

    /// A connection other than `broken`: the one that somebody else has made meanwhile, or a new one.
    pub(super) async fn renew(&self, broken: &Line) -> Result<Line, Fault> {
        let _one_at_a_time = self.dialling.lock().await;
        let current = self.line()?;
        if current.number != broken.number {
            return Ok(current);
        }
        let (channel, boot) = dial(&self.connector).await?;
        let line = Line {
            channel,
            boot: boot.into(),
            number: broken.number.saturating_add(1),
        };
        let mut slot = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Hung up while dialling: it stays that way.
        if slot.is_none() {
            return Err(Fault::HungUp);
        }
        *slot = Some(line.clone());
        Ok(line)
    }

    /// Gives the connection up for good; a private daemon ends then. Streams hold it until they are dropped.
    pub(super) fn hang_up(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Makes a call that may be repeated, again and again while the connection is broken, for `patience`.
    pub(super) async fn ask<T, F>(
        &self,
        what: &'static str,
        patience: Duration,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, DaemonError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let give_up = Instant::now().checked_add(patience);
        let broken = |fault: Fault| DaemonError::Broken(fault.to_string());
        let mut line = self.line().map_err(broken)?;
        let mut attempt: u32 = 0;
        loop {
            let status = match call(line.channel.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            let in_time = give_up.is_none_or(|at| Instant::now() < at);
            if !self.can_redial() || !in_time || !Fault::of(&status).is_transport() {
                return Err(error::call(&status, what));
            }
            sleep(backoff(attempt, ids::chance())).await;
            attempt = attempt.saturating_add(1);
            match self.renew(&line).await {
                Ok(next) => line = next,
                Err(fault @ Fault::HungUp) => return Err(broken(fault)),
                Err(_unreachable) => {}
            }
        }
    }
}

/// Makes a connection and asks who answers on it.
async fn dial(connector: &Connector) -> Result<(Channel, String), Fault> {
    let channel = connector.dial().await.map_err(|failure| match failure {
        DialFailure::NobodyListens => Fault::NobodyListens,
        DialFailure::Never | DialFailure::Failed(_) => Fault::Transport(failure.to_string()),
    })?;
    let mut client = InfoServiceClient::new(channel.clone());
    let hello = client.get_server_info(v1::GetServerInfoRequest {});
    match timeout(HELLO_TIMEOUT, hello).await {
        Ok(Ok(answer)) => Ok((channel, answer.into_inner().boot_id)),
        Ok(Err(status)) => Err(Fault::of(&status)),
        Err(_elapsed) => Err(Fault::Silent),
    }
}
