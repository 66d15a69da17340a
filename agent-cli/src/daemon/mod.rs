//! Talking to agentd: the only place in this crate that knows the `agentd.v1` messages. Everything leaves
//! it as this crate's own values.

mod convert;
mod error;
mod exec;
#[cfg(unix)]
#[cfg(test)]
mod fake;
mod info;
mod report;
mod tools;

use std::time::Duration;

use agentd_proto::v1::{self, info_service_client::InfoServiceClient};
use tonic::transport::Channel;

use crate::{
    config::Environment,
    connect::{self, Embedded},
};

pub use error::DaemonError;
pub use exec::{ExecCommand, ExecEvent, ExecRequest, ExecStream, OutputStream};
pub use info::{Capability, ProfileInfo, ServerInfo};
pub use report::{
    Blocked, Degradation, Denial, ExitReason, Limits, Outcome, Sandbox, SetupFailure, Started,
};
pub use tools::{SandboxChoice, ToolPort, ToolScope};

/// Oldest API generation this client can use.
const MIN_GENERATION: u32 = 1;
/// A daemon that says nothing for this long at the start is broken. Starting a private one includes
/// probing the kernel, which takes milliseconds.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// A daemon that has answered.
#[derive(Debug)]
pub struct Daemon {
    channel: Channel,
    embedded: Option<Embedded>,
    info: ServerInfo,
}

impl Daemon {
    /// Reaches a daemon and checks that it speaks this client's language.
    ///
    /// # Errors
    /// There is none, or it is too old.
    pub async fn connect(
        asked: Option<&str>,
        environment: &Environment,
    ) -> Result<Self, DaemonError> {
        let connection = connect::connect(asked, environment).await?;
        let mut client = InfoServiceClient::new(connection.channel.clone());
        let hello = client.get_server_info(v1::GetServerInfoRequest {});
        let answer = match tokio::time::timeout(HELLO_TIMEOUT, hello).await {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return Err(error::hello(status, connection).await),
            Err(_elapsed) => return Err(DaemonError::Silent(HELLO_TIMEOUT)),
        };
        if answer.generation < MIN_GENERATION {
            return Err(DaemonError::TooOld {
                version: answer.version,
            });
        }
        Ok(Self {
            channel: connection.channel,
            embedded: connection.embedded,
            info: convert::server_info(answer),
        })
    }

    /// What it said about itself.
    #[must_use]
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Whether it is a private one that dies with this client.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.embedded.is_some()
    }

    /// Hangs up. A private daemon has then ended, with everything it ran.
    ///
    /// Every stream and every [`ToolPort`] of it must have been dropped: they hold the connection open.
    pub async fn close(self) {
        drop(self.channel);
        #[cfg(unix)]
        if let Some(embedded) = self.embedded {
            // Its failure to be waited for changes no result, and it cannot be repeated.
            drop(embedded.wait().await);
        }
    }
}
