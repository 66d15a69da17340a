//! `ToolService`: the tools a model is offered, and a call by name.

mod answer;
mod definitions;
mod input;
mod kill;
mod output;
mod session;

use std::sync::Arc;

use agentd_proto::v1::{self as pb, tool_service_server::ToolService};
use tonic::{Request, Response, Status};

use self::{definitions::Tool, session::Missing};
use super::{
    Daemon, convert::Asker, encode, features, seat::Placed, status::Problem, stream, tool_text,
};
use crate::exec::{Exec, Reader};

/// Bytes of output that are kept in a file for later commands of the session.
const OUTPUT_FILE: u64 = 64 * 1024 * 1024;

/// What a model is told that asks for a background command without a session.
const NO_BACKGROUND: &str = "Error: background needs a session, and this conversation has none. Run the command without background.";

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Tools(pub(super) Arc<Daemon>);

type Answer = Result<answer::Responses, Missing>;

impl Tools {
    async fn call(&self, asker: Asker<'_>, call: pb::CallToolRequest) -> Answer {
        match Tool::named(&call.name) {
            Some(Tool::Bash) => self.bash(asker, call).await,
            Some(Tool::BashOutput) => self.bash_output(asker, call),
            Some(Tool::BashKill) => self.bash_kill(asker, &call),
            None => {
                let name = crate::text::neutralise(&call.name);
                Err(Problem::unknown_tool(&name, &definitions::names()).into())
            }
        }
    }

    async fn bash(&self, asker: Asker<'_>, call: pb::CallToolRequest) -> Answer {
        let input = input::Bash::parse(&call.input_json)?;
        if input.background && call.session_id.is_empty() {
            return Err(Missing::Told(NO_BACKGROUND.to_owned()));
        }
        let placed = self.placed(asker, call, &input)?;
        let (exec, _) = self.0.submit(placed)?;
        let reader = Reader::new(&exec, 0);
        self.0
            .executor
            .started(&exec)
            .await
            .map_err(Problem::from)?;
        if input.background && ran(&exec) {
            return Ok(answer::at_once(started_in_background(&exec)));
        }
        let encode = |id: &str, item| pb::CallToolResponse {
            message: Some(pb::call_tool_response::Message::Event(encode::item(
                id, item,
            ))),
        };
        let last = async |exec: Arc<Exec>| {
            let result = tool_text::result(&exec).await?;
            Some(pb::CallToolResponse {
                message: Some(pb::call_tool_response::Message::Result(result)),
            })
        };
        Ok(Box::pin(stream::follow(reader, encode, last)))
    }

    fn placed(
        &self,
        asker: Asker<'_>,
        call: pb::CallToolRequest,
        input: &input::Bash,
    ) -> Result<Placed, Problem> {
        let mut placed = self.0.place(asker, wire_spec(call, input))?;
        // The shorter of what the model and what the client ask for.
        let limits = &mut placed.spec.invocation.limits;
        limits.timeout_ms = [limits.timeout_ms, input.timeout_ms]
            .into_iter()
            .flatten()
            .min();
        Ok(placed)
    }

    fn bash_output(&self, asker: Asker<'_>, call: pb::CallToolRequest) -> Answer {
        let input = input::BashOutput::parse(&call.input_json)?;
        let session = session::of(&self.0, asker, &call)?;
        refuse_fields_of_bash(&call)?;
        let exec = session::find(&session, &input.bash_id)?.exec;
        let (answers, responses) = answer::stream();
        let read = output::Read {
            session,
            exec,
            input,
            call: call.call_id,
        };
        tokio::spawn(output::run(read, answers));
        Ok(responses)
    }

    fn bash_kill(&self, asker: Asker<'_>, call: &pb::CallToolRequest) -> Answer {
        let input = input::BashKill::parse(&call.input_json)?;
        let session = session::of(&self.0, asker, call)?;
        refuse_fields_of_bash(call)?;
        let exec = session::find(&session, &input.bash_id)?.exec;
        let (answers, responses) = answer::stream();
        tokio::spawn(kill::run(exec, answers));
        Ok(responses)
    }
}

/// A call of `bash` as an execution.
fn wire_spec(call: pb::CallToolRequest, input: &input::Bash) -> pb::ExecSpec {
    let has_session = !call.session_id.is_empty();
    pb::ExecSpec {
        session_id: call.session_id,
        exec_id: call.call_id,
        command: Some(pb::CommandSpec {
            command: Some(pb::command_spec::Command::Shell(pb::ShellScript {
                script: input.command.clone().into(),
            })),
            cwd: call.cwd,
            env: None,
        }),
        limits: call.limits,
        sandbox: call.sandbox,
        io: has_session.then(|| pb::IoSpec {
            output_file_bytes: OUTPUT_FILE,
            ..pb::IoSpec::default()
        }),
        required_features: call.required_features,
        expected_boot_id: call.expected_boot_id,
        background: input.background,
        ..pb::ExecSpec::default()
    }
}

/// What says how a command runs means nothing to a tool that runs none, and is never ignored.
fn refuse_fields_of_bash(call: &pb::CallToolRequest) -> Result<(), Problem> {
    let given = [
        (
            "sandbox",
            call.sandbox
                .as_ref()
                .is_some_and(|own| *own != pb::SandboxSpec::default()),
        ),
        ("cwd", !call.cwd.is_empty()),
        (
            "limits",
            call.limits
                .as_ref()
                .is_some_and(|own| *own != pb::LimitRequest::default()),
        ),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((field, _)) => Err(Problem::invalid(format!(
            "'{field}' does not apply to {}, which runs no command; leave it out",
            crate::text::neutralise(&call.name)
        ))),
        None => Ok(()),
    }
}

/// Something of it ran. Where nothing did, the model has to hear why.
fn ran(exec: &Exec) -> bool {
    exec.start_report().is_some()
}

fn started_in_background(exec: &Exec) -> pb::ToolResult {
    let id = exec.id();
    pb::ToolResult {
        text: format!(
            "Started in the background as {id}\n[read it with bash_output, end it with bash_kill, bash_id {:?}; it ends with the session]",
            id.as_str()
        ),
        exec_id: id.to_string(),
        ..pb::ToolResult::default()
    }
}

#[tonic::async_trait]
impl ToolService for Tools {
    type CallToolStream = answer::Responses;

    async fn list_tools(
        &self,
        _: Request<pb::ListToolsRequest>,
    ) -> Result<Response<pb::ListToolsResponse>, Status> {
        Ok(Response::new(pb::ListToolsResponse {
            tools: definitions::all(),
        }))
    }

    async fn call_tool(
        &self,
        mut request: Request<pb::CallToolRequest>,
    ) -> Result<Response<Self::CallToolStream>, Status> {
        let call = std::mem::take(request.get_mut());
        let asker = self.0.asker(&request)?;
        self.0.require_boot(&call.expected_boot_id)?;
        // ORDER: before anything is done, for every tool alike.
        features::require(&call.required_features, asker.features)?;
        match self.call(asker, call).await {
            Ok(responses) => Ok(Response::new(responses)),
            Err(Missing::Told(text)) => Ok(Response::new(answer::at_once(answer::error(text)))),
            Err(Missing::Refused(problem)) => Err(problem.into()),
        }
    }
}
