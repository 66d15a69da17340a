//! The daemon's API without agent-cli: a channel to a socket, and requests with a test's own marks.

use std::{path::Path, time::Duration};

use agentd_proto::v1::{
    self, exec_service_client::ExecServiceClient, info_service_client::InfoServiceClient,
    session_service_client::SessionServiceClient, tool_service_client::ToolServiceClient,
};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::World;

/// Large enough for everything that one message can hold.
const MAX_MESSAGE: usize = 8 << 20;

/// How a silent peer is found out: a ping after this long, and the answer due after that long.
#[derive(Debug, Clone, Copy)]
pub struct Pings {
    /// Silence before a ping.
    pub after: Duration,
    /// Time for the answer.
    pub within: Duration,
}

/// A connection to a daemon.
#[derive(Debug, Clone)]
pub struct Api {
    channel: Channel,
}

impl Api {
    /// Dials a socket.
    pub async fn dial(socket: &Path) -> Result<Self, tonic::transport::Error> {
        Self::connect(socket, endpoint()).await
    }

    /// Dials a socket, and gives the connection up when nothing is heard for long.
    pub async fn dial_with_pings(
        socket: &Path,
        pings: Pings,
    ) -> Result<Self, tonic::transport::Error> {
        let endpoint = endpoint()
            .http2_keep_alive_interval(pings.after)
            .keep_alive_timeout(pings.within)
            .keep_alive_while_idle(true);
        Self::connect(socket, endpoint).await
    }

    async fn connect(socket: &Path, endpoint: Endpoint) -> Result<Self, tonic::transport::Error> {
        let socket = socket.to_owned();
        let connector = service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connector).await?;
        Ok(Self { channel })
    }

    /// The channel itself, for services that have no method here.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// `ExecService`.
    pub fn execs(&self) -> ExecServiceClient<Channel> {
        ExecServiceClient::new(self.channel())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// `SessionService`.
    pub fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel())
    }

    /// `ToolService`.
    pub fn tools(&self) -> ToolServiceClient<Channel> {
        ToolServiceClient::new(self.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// Whether the daemon names this feature.
    pub async fn has_feature(&self, name: &str) -> bool {
        let mut info = InfoServiceClient::new(self.channel());
        let answer = info.get_server_info(v1::GetServerInfoRequest {}).await;
        let features = answer.expect("the daemon tells about itself").into_inner();
        features.features.iter().any(|feature| feature == name)
    }

    /// One execution as the daemon sees it.
    pub async fn get(&self, exec_id: &str) -> Result<v1::Exec, tonic::Status> {
        let request = v1::GetExecRequest {
            exec_id: exec_id.to_owned(),
        };
        let answer = self.execs().get(request).await?;
        Ok(answer.into_inner().exec.expect("an execution"))
    }

    /// Starts a command without reading it.
    pub async fn start(&self, spec: v1::ExecSpec) -> Result<v1::StartResponse, tonic::Status> {
        let request = v1::StartRequest { spec: Some(spec) };
        Ok(self.execs().start(request).await?.into_inner())
    }

    /// See `ExecService.Run`: starts it and reads what comes.
    pub async fn run(
        &self,
        spec: v1::ExecSpec,
    ) -> Result<tonic::Streaming<v1::RunResponse>, tonic::Status> {
        let request = v1::RunRequest { spec: Some(spec) };
        Ok(self.execs().run(request).await?.into_inner())
    }

    /// Waits for the end of a command, for at most a minute.
    pub async fn wait(&self, exec_id: &str) -> Result<v1::Exec, tonic::Status> {
        let request = v1::WaitRequest {
            exec_id: exec_id.to_owned(),
            ..v1::WaitRequest::default()
        };
        let answer = self.execs().wait(request).await?;
        Ok(answer.into_inner().exec.expect("an execution"))
    }

    /// Ends a command.
    pub async fn terminate(&self, exec_id: &str) -> Result<v1::TerminateResponse, tonic::Status> {
        let request = v1::TerminateRequest {
            exec_id: exec_id.to_owned(),
            ..v1::TerminateRequest::default()
        };
        Ok(self.execs().terminate(request).await?.into_inner())
    }

    /// Forgets an execution; running, it is ended first.
    pub async fn delete(&self, exec_id: &str) -> Result<(), tonic::Status> {
        let request = v1::DeleteExecRequest {
            exec_id: exec_id.to_owned(),
            force: true,
        };
        self.execs().delete(request).await.map(drop)
    }
}

fn endpoint() -> Endpoint {
    // The authority is never looked up: the connector decides where the bytes go.
    Endpoint::from_static("http://agentd.invalid")
        .connect_timeout(Duration::from_secs(5))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .max_frame_size(128 << 10)
}

/// A bash script in the workspace of this world. Its environment carries the mark of the world, so that
/// nothing of it can hide.
pub fn script(world: &World, exec_id: &str, text: &str) -> v1::ExecSpec {
    let shell = v1::ShellScript {
        script: text.as_bytes().to_vec().into(),
    };
    v1::ExecSpec {
        exec_id: exec_id.to_owned(),
        command: Some(v1::CommandSpec {
            command: Some(v1::command_spec::Command::Shell(shell)),
            cwd: String::new(),
            env: Some(v1::EnvSpec {
                set: [("PROOF_MARK".to_owned(), world.mark.clone())].into(),
                unset: Vec::new(),
            }),
        }),
        sandbox: Some(v1::SandboxSpec {
            profile: String::new(),
            workspace: world.workspace.to_string_lossy().into_owned(),
        }),
        ..v1::ExecSpec::default()
    }
}

/// A duration on the wire.
pub fn wire(duration: Duration) -> Option<prost_types::Duration> {
    Some(duration.try_into().expect("a short duration"))
}
