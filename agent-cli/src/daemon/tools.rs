//! The loop's tools, executed by the daemon: `agent::ports::Tools` over `ToolService`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_proto::v1::{
    self, call_tool_response::Message as ToolMessage, tool_service_client::ToolServiceClient,
};
use sha2::{Digest, Sha256};
use tokio_stream::StreamExt;
use tonic::Status;

use super::{
    Daemon, DaemonError, ExecEvent, Lease, OutputStream, convert, error, exec,
    follow::{Call, Delivery, Follow, LastMessage, Piece, Pieces, Progress, Resume, Terms},
    link::{Line, Link},
};
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

/// How long the daemon lets a command wait for its turn.
const QUEUE: Duration = Duration::from_secs(30);
/// What the model reads after the session had to be opened again.
const RENEWED: &str = "[new session: the old one was gone (expired, or agentd was restarted); the working directory and exported variables started afresh, /tmp is empty, background commands of the old session have ended]";

/// Tools whose calls are about an execution and are none.
const ABOUT_OTHERS: [&str; 2] = ["bash_output", "bash_kill"];
/// What the model reads when such a call was interrupted.
const UNANSWERED: &str =
    "[interrupted before the answer came; read the command's state with bash_output]";

/// Where and how confined commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxChoice {
    /// Profile; the daemon's default when absent.
    pub profile: Option<String>,
    /// Workspace as the daemon sees it, absolute.
    pub workspace: PathBuf,
}

/// A session's place.
#[derive(Debug, Clone)]
pub struct ToolScope {
    /// Jail.
    pub sandbox: SandboxChoice,
    /// Directory in which commands start.
    pub cwd: PathBuf,
    /// Makes the calls' ids unique: at most 24 characters of `[A-Za-z0-9-]`.
    pub session: String,
    /// The daemon's session; without one every call has a jail of its own.
    pub lease: Option<Arc<Lease>>,
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
    link: Arc<Link>,
    lease: Option<Arc<Lease>>,
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
        let answer = ToolServiceClient::new(self.link().channel()?)
            .list_tools(v1::ListToolsRequest {})
            .await
            .map_err(|status| error::call(&status, "ToolService.ListTools"))?;
        let tools = answer.into_inner().tools;
        Ok(ToolPort {
            link: Arc::clone(self.link()),
            lease: scope.lease,
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
                () = cancel.cancelled() => {
                    if !is_execution(&call.name) {
                        // Nothing of the daemon's has to end: it looks at a command, or ends one by itself.
                        return ToolOutcome::of_text(ToolStatus::Interrupted, UNANSWERED.to_owned());
                    }
                    self.stop(&id, run.as_mut()).await
                }
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

    /// Runs a call. A session that is gone is replaced once, and the model is told.
    async fn run(
        &self,
        call: &ToolCall,
        id: &str,
        events: &dyn ToolEvents,
    ) -> Result<v1::ToolResult, DaemonError> {
        let session = self.lease.as_ref().map(|lease| lease.id());
        let request = self.request(call, id, session.as_deref());
        match (self.follow(request, events).await, &self.lease, session) {
            // Nothing was started, so nothing is started twice.
            (Err(error), Some(lease), Some(gone)) if error.is_session_gone() => {
                lease.replace(&gone).await?;
                let request = self.request(call, id, Some(&lease.id()));
                let mut result = self.follow(request, events).await?;
                result.text = format!("{}\n{RENEWED}", result.text.trim_end());
                Ok(result)
            }
            (result, _, _) => result,
        }
    }

    fn request(&self, call: &ToolCall, id: &str, session: Option<&str>) -> v1::CallToolRequest {
        let mut request = v1::CallToolRequest {
            name: call.name.clone(),
            input_json: call.input.to_string(),
            call_id: id.to_owned(),
            ..v1::CallToolRequest::default()
        };
        // A session knows its jail and where it is.
        if let Some(session) = session {
            session.clone_into(&mut request.session_id);
        } else {
            request.sandbox = Some(self.sandbox.clone());
            request.cwd.clone_from(&self.cwd);
        }
        request
    }

    async fn follow(
        &self,
        request: v1::CallToolRequest,
        events: &dyn ToolEvents,
    ) -> Result<v1::ToolResult, DaemonError> {
        let terms = Terms {
            patience: self.link.patience(),
            last: LastMessage::Result,
            can_redial: self.link.can_redial(),
            queue: QUEUE,
        };
        let link = Arc::clone(&self.link);
        let mut follow = Follow::new(link, ToolRequest(request), Progress::new(terms));
        loop {
            match follow.next().await?.ok_or(DaemonError::NoResult)? {
                Delivery::Result(result) => return Ok(*result),
                Delivery::Event(event) => {
                    if let ExecEvent::Output { stream, data } = *event {
                        events.output(port_stream(stream), &data);
                    }
                }
            }
        }
    }

    /// Ends a call and waits for its result, so that the model learns what had been printed.
    async fn stop(
        &self,
        id: &str,
        run: impl Future<Output = Result<v1::ToolResult, DaemonError>>,
    ) -> Result<v1::ToolResult, DaemonError> {
        let order = async {
            // A call that cannot be ended any more has ended, or its connection has: no result will come.
            if exec::terminate(&self.link, id).await.is_ok() {
                tokio::time::sleep(STOP_TIMEOUT).await;
            }
        };
        tokio::select! {
            result = run => result,
            () = order => Err(DaemonError::NoResult),
        }
    }
}

fn is_execution(tool: &str) -> bool {
    !ABOUT_OTHERS.contains(&tool)
}

/// The same call again gives the same result: the call's id is the execution's.
struct ToolRequest(v1::CallToolRequest);

impl Call for ToolRequest {
    fn name(&self) -> &'static str {
        "ToolService.CallTool"
    }

    fn open(&self, line: Line, resume: Resume) -> BoxFuture<'_, Result<Pieces, Status>> {
        Box::pin(async move {
            let channel = line.channel;
            if matches!(resume, Resume::After(_)) && is_execution(&self.0.name) {
                // ORDER: before the call: a daemon that has forgotten the execution would start it again.
                let exec_id = self.0.call_id.clone();
                exec::client(channel.clone())
                    .get(v1::GetExecRequest { exec_id })
                    .await?;
            }
            let answer = ToolServiceClient::new(channel)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES)
                .call_tool(v1::CallToolRequest {
                    expected_boot_id: line.boot.to_string(),
                    ..self.0.clone()
                })
                .await?;
            let pieces = answer.into_inner().map(|message| {
                Ok(match message?.message {
                    Some(ToolMessage::Event(event)) => Piece::Event(Box::new(event)),
                    Some(ToolMessage::Result(result)) => Piece::Result(Box::new(result)),
                    None => Piece::Nothing,
                })
            });
            Ok(Box::pin(pieces) as Pieces)
        })
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
