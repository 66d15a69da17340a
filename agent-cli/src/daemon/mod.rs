//! Talking to agentd: the only place in this crate that knows the `agentd.v1` messages. Everything leaves
//! it as this crate's own values.

mod command;
mod convert;
mod error;
mod exec;
#[cfg(unix)]
#[cfg(test)]
mod fake;
mod fault;
pub mod follow;
mod info;
mod input;
mod jobs;
mod link;
mod report;
mod session;
mod tools;

use std::{sync::Arc, time::Duration};

use agentd_proto::v1::{self, info_service_client::InfoServiceClient};

use crate::{
    config::Environment,
    connect::{self, Embedded},
};

pub use command::{ExecCommand, ExecInput, ExecPlace, ExecRequest, TerminalSize};
pub use error::{DaemonError, Lost};
pub use exec::{ExecEvent, ExecStream, OutputStream};
pub use fault::{Fault, Refusal};
use follow::Patience;
pub use info::{Capability, ProfileInfo, ServerInfo};
pub(crate) use input::resize;
pub use input::{Input, PIECE, Taken};
pub use jobs::{Ending, Job, Printed};
pub use link::Link;
pub use report::{
    Blocked, Degradation, Denial, ExitReason, LimitHit, Limits, Outcome, OutputFile, Sandbox,
    SetupFailure, Started,
};
pub use session::{Lease, SessionScope};
pub use tools::{SandboxChoice, ToolPort, ToolScope};

/// Oldest API generation this client can use.
const MIN_GENERATION: u32 = 1;
/// A daemon that says nothing for this long at the start is broken. Starting a private one includes
/// probing the kernel, which takes milliseconds.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// A daemon that has answered.
#[derive(Debug)]
pub struct Daemon {
    link: Arc<Link>,
    embedded: Option<Embedded>,
    info: ServerInfo,
    features: Vec<String>,
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
        let boot = answer.boot_id.clone();
        Ok(Self {
            link: Link::new(
                (connection.connector, Patience::default()),
                connection.channel,
                boot,
            ),
            embedded: connection.embedded,
            features: answer.features.clone(),
            info: convert::server_info(answer),
        })
    }

    /// Whether it has a feature, by the name that `required_features` takes.
    #[must_use]
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }

    /// The connection to it.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
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
    /// Every stream of it must have been dropped: it holds the connection open.
    pub async fn close(self) {
        self.link.hang_up();
        #[cfg(unix)]
        if let Some(embedded) = self.embedded {
            // Its failure to be waited for changes no result, and it cannot be repeated.
            drop(embedded.wait().await);
        }
    }
}
