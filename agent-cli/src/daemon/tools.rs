//! The loop's tools, executed by the daemon: `agent::ports::Tools` over `ToolService`.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use agentd_proto::v1::{
    self, call_tool_response::Message as ToolMessage, tool_service_client::ToolServiceClient,
};
use sha2::{Digest, Sha256};
use tonic::{Streaming, transport::Channel};

use super::{Daemon, DaemonError, ExecEvent, OutputStream, convert, error, exec};
use crate::{
    agent::{
        Cancel,
        ports::{self, BoxFuture, ToolEvents, Tools},
    },
    model::{ToolCall, ToolDefinition, ToolOutcome, ToolStatus},
};

const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// How long a command that was told to end may take: the daemon's longest grace and a margin.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);

/// Where and how confined commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxChoice {
    /// Profile; the daemon's default when absent.
    pub profile: Option<String>,
    /// Workspace as the daemon sees it, absolute.
    pub workspace: PathBuf,
}

/// A session's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolScope {
    /// Jail.
    pub sandbox: SandboxChoice,
    /// Directory in which commands start.
    pub cwd: PathBuf,
    /// Makes the calls' ids unique: at most 24 characters of `[A-Za-z0-9-]`.
    pub session: String,
}

impl SandboxChoice {
    pub(super) fn wire(&self) -> Result<v1::SandboxSpec, DaemonError> {
        Ok(v1::SandboxSpec {
            profile: self.profile.clone().unwrap_or_default(),
            workspace: wire_path(&self.workspace)?,
        })
    }
}

/// Paths are text on the wire.
pub(super) fn wire_path(path: &Path) -> Result<String, DaemonError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| DaemonError::Path(path.to_owned()))
}

/// The daemon's tools, for one session.
#[derive(Debug)]
pub struct ToolPort {
    channel: Channel,
    sandbox: v1::SandboxSpec,
    cwd: String,
    definitions: Vec<ToolDefinition>,
    session: String,
    calls: AtomicU64,
}

impl Daemon {
    /// Asks once for the tools, and binds them to a jail.
    ///
    /// # Errors
    /// The daemon refused, or a definition is not JSON.
    pub async fn tools(&self, scope: ToolScope) -> Result<ToolPort, DaemonError> {
        let answer = ToolServiceClient::new(self.channel.clone())
            .list_tools(v1::ListToolsRequest {})
            .await
            .map_err(|status| error::call(&status, "ToolService.ListTools"))?;
        let tools = answer.into_inner().tools;
        Ok(ToolPort {
            channel: self.channel.clone(),
            sandbox: scope.sandbox.wire()?,
            cwd: wire_path(&scope.cwd)?,
            definitions: tools
                .into_iter()
                .map(definition)
                .collect::<Result<_, _>>()?,
            session: scope.session,
            calls: AtomicU64::new(0),
        })
    }
}

fn definition(tool: v1::Tool) -> Result<ToolDefinition, DaemonError> {
    let input_schema = serde_json::from_str(&tool.input_schema_json)
        .map_err(|_source| DaemonError::Malformed("a valid tool schema"))?;
    Ok(ToolDefinition {
        name: tool.name,
        description: tool.description,
        input_schema,
    })
}

impl Tools for ToolPort {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.definitions.clone()
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        events: &'a dyn ToolEvents,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let id = self.call_id(&call.id);
            let run = self.run(call, &id, events);
            tokio::pin!(run);
            let result = tokio::select! {
                result = &mut run => result,
                () = cancel.cancelled() => self.stop(&id, run.as_mut()).await,
            };
            match result {
                Ok(result) => outcome(result, cancel),
                Err(error) if cancel.is_cancelled() => {
                    ToolOutcome::of_text(ToolStatus::Interrupted, format!("Error: {error}"))
                }
                Err(error) => ToolOutcome::failed(format!("Error: {error}")),
            }
        })
    }
}

impl ToolPort {
    /// An id that no other call has, even if a gateway repeats its own.
    fn call_id(&self, tool_use: &str) -> String {
        let digest = Sha256::digest(tool_use.as_bytes());
        let short = digest
            .iter()
            .take(6)
            .fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}-{short:012x}", self.session)
    }

    async fn run(
        &self,
        call: &ToolCall,
        id: &str,
        events: &dyn ToolEvents,
    ) -> Result<v1::ToolResult, DaemonError> {
        let request = v1::CallToolRequest {
            name: call.name.clone(),
            input_json: call.input.to_string(),
            sandbox: Some(self.sandbox.clone()),
            call_id: id.to_owned(),
            cwd: self.cwd.clone(),
            ..v1::CallToolRequest::default()
        };
        let stream = ToolServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
            .call_tool(request)
            .await
            .map_err(|status| error::call(&status, "ToolService.CallTool"))?;
        follow(stream.into_inner(), events).await
    }

    /// Ends a call and waits for its result, so that the model learns what had been printed.
    async fn stop(
        &self,
        id: &str,
        run: impl Future<Output = Result<v1::ToolResult, DaemonError>>,
    ) -> Result<v1::ToolResult, DaemonError> {
        let order = async {
            // A call that cannot be ended any more has ended, or its connection has.
            drop(exec::terminate(self.channel.clone(), id).await);
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            result = run => result,
            () = order => Err(DaemonError::NoResult),
        }
    }
}

async fn follow(
    mut stream: Streaming<v1::CallToolResponse>,
    events: &dyn ToolEvents,
) -> Result<v1::ToolResult, DaemonError> {
    loop {
        let message = stream
            .message()
            .await
            .map_err(|status| error::call(&status, "ToolService.CallTool"))?
            .ok_or(DaemonError::NoResult)?;
        match message.message {
            Some(ToolMessage::Result(result)) => return Ok(result),
            Some(ToolMessage::Event(event)) => {
                let Some(event) = event.event else {
                    return Err(DaemonError::Malformed("an event"));
                };
                if let Some(ExecEvent::Output { stream, data }) = exec::translate(event)? {
                    events.output(port_stream(stream), &data);
                }
            }
            None => return Err(DaemonError::Malformed("a message")),
        }
    }
}

fn port_stream(stream: OutputStream) -> ports::OutputStream {
    match stream {
        OutputStream::Stdout => ports::OutputStream::Stdout,
        OutputStream::Stderr => ports::OutputStream::Stderr,
    }
}

fn outcome(result: v1::ToolResult, cancel: &Cancel) -> ToolOutcome {
    let end = convert::outcome(result.exit.unwrap_or_default());
    let status = if cancel.is_cancelled() && end.reason == super::ExitReason::Cancelled {
        ToolStatus::Interrupted
    } else if result.is_error {
        ToolStatus::Failed
    } else {
        ToolStatus::Done
    };
    ToolOutcome {
        status,
        text: result.text,
        exit_code: end.exit_code,
        truncated: result.omitted_chars > 0 || result.omitted_lines > 0,
        output_bytes: end.stdout_bytes.saturating_add(end.stderr_bytes),
    }
}

#[cfg(unix)]
#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
