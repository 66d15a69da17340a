//! `ToolService`: the tools a model is offered, and a call by name.

use std::sync::Arc;

use agentd_proto::v1::{self as pb, tool_service_server::ToolService};
use serde::Deserialize;
use tonic::{Request, Response, Status};

use super::{
    Daemon,
    convert::{self, Asker},
    encode,
    status::Problem,
    stream::{self, Responses},
    tool_text,
};
use crate::exec::{ExecSpec, Reader};

/// The name of the one tool.
const BASH: &str = "bash";

/// What the model reads of it. Byte-stable: it is part of a model's cached prefix.
const BASH_DESCRIPTION: &str = "Run a shell command. \
It is a bash script, run in a sandbox in the workspace directory, without a terminal and without \
standard input; stdout and stderr come back together, in the order in which they arrived. Every call \
starts in the same directory with the same environment. Processes that are still running when the \
script ends are killed. What the sandbox refuses is reported with the rule that refuses it.";

/// Its input, as JSON Schema. Byte-stable too.
const BASH_SCHEMA: &str = r#"{"type":"object","properties":{"command":{"type":"string","description":"The bash script to run."},"timeout_ms":{"type":"integer","minimum":1,"description":"Wall clock limit in milliseconds; default 120000."}},"required":["command"],"additionalProperties":false}"#;

/// Longest input in bytes.
const MAX_INPUT: usize = 1024 * 1024;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Tools(pub(super) Arc<Daemon>);

/// Input of the tool `bash`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BashInput {
    command: String,
    timeout_ms: Option<u64>,
}

fn bash_input(json: &str) -> Result<BashInput, Problem> {
    if json.len() > MAX_INPUT {
        return Err(Problem::invalid(format!(
            "the input has {} bytes, the most is {MAX_INPUT}; write the script to a file in parts",
            json.len()
        )));
    }
    let input: BashInput = serde_json::from_str(json).map_err(|error| {
        Problem::invalid(format!("the input of '{BASH}' is not valid: {error}"))
    })?;
    if input.timeout_ms == Some(0) {
        return Err(Problem::invalid(
            "'timeout_ms' is 0; leave it out for the default",
        ));
    }
    Ok(input)
}

/// A call as an execution.
fn spec_of(call: pb::CallToolRequest, asker: Asker<'_>) -> Result<ExecSpec, Problem> {
    if call.name != BASH {
        let name = crate::text::neutralise(&call.name);
        return Err(Problem::unknown_tool(&name, BASH));
    }
    let input = bash_input(&call.input_json)?;
    let wire = pb::ExecSpec {
        session_id: call.session_id,
        exec_id: call.call_id,
        command: Some(pb::CommandSpec {
            command: Some(pb::command_spec::Command::Shell(pb::ShellScript {
                script: input.command.into(),
            })),
            cwd: call.cwd,
            env: None,
        }),
        limits: call.limits,
        sandbox: call.sandbox,
        required_features: call.required_features,
        ..pb::ExecSpec::default()
    };
    let mut spec = convert::exec_spec(wire, asker)?;
    // The shorter of what the model and what the client ask for.
    let limits = &mut spec.invocation.limits;
    limits.timeout_ms = [limits.timeout_ms, input.timeout_ms]
        .into_iter()
        .flatten()
        .min();
    Ok(spec)
}

#[tonic::async_trait]
impl ToolService for Tools {
    type CallToolStream = Responses<pb::CallToolResponse>;

    async fn list_tools(
        &self,
        _: Request<pb::ListToolsRequest>,
    ) -> Result<Response<pb::ListToolsResponse>, Status> {
        Ok(Response::new(pb::ListToolsResponse {
            tools: vec![pb::Tool {
                name: BASH.to_owned(),
                description: BASH_DESCRIPTION.to_owned(),
                input_schema_json: BASH_SCHEMA.to_owned(),
            }],
        }))
    }

    async fn call_tool(
        &self,
        mut request: Request<pb::CallToolRequest>,
    ) -> Result<Response<Self::CallToolStream>, Status> {
        use pb::call_tool_response::Message;
        let call = std::mem::take(request.get_mut());
        let spec = spec_of(call, self.0.asker(&request)?)?;
        let (exec, _) = self.0.executor.submit(spec).map_err(Problem::from)?;
        let reader = Reader::new(&exec, 0);
        self.0
            .executor
            .started(&exec)
            .await
            .map_err(Problem::from)?;
        let encode = |id: &str, item| pb::CallToolResponse {
            message: Some(Message::Event(encode::item(id, item))),
        };
        let last = |reader: &Reader| {
            Some(pb::CallToolResponse {
                message: Some(Message::Result(tool_text::result(reader.exec())?)),
            })
        };
        Ok(Response::new(stream::follow(reader, encode, last)))
    }
}

#[cfg(test)]
mod tests {
    use agentd_sandbox::policy::{Caller, Program};

    use super::*;

    const ASKER: Asker<'static> = Asker {
        caller: Caller { uid: 1, gid: 1 },
        default_profile: "workspace",
    };

    fn call(input: &str) -> pb::CallToolRequest {
        pb::CallToolRequest {
            name: BASH.to_owned(),
            input_json: input.to_owned(),
            sandbox: Some(pb::SandboxSpec {
                profile: String::new(),
                workspace: "/w".to_owned(),
            }),
            ..pb::CallToolRequest::default()
        }
    }

    #[test]
    fn the_schema_is_json_and_agrees_with_the_input_type() {
        let schema: serde_json::Value = serde_json::from_str(BASH_SCHEMA).unwrap();
        assert_eq!(schema["required"], serde_json::json!(["command"]));
        assert!(BASH_DESCRIPTION.starts_with("Run a shell command."));
    }

    #[test]
    fn a_call_becomes_a_script_with_the_shorter_timeout() {
        let mut ask = call(r#"{"command":"echo \"hi\"","timeout_ms":5000}"#);
        ask.limits = Some(pb::LimitRequest {
            timeout: Some(prost_types::Duration {
                seconds: 3,
                nanos: 0,
            }),
            ..pb::LimitRequest::default()
        });
        let spec = spec_of(ask, ASKER).unwrap();
        assert_eq!(spec.script.as_deref(), Some(br#"echo "hi""#.as_slice()));
        assert_eq!(spec.invocation.program, Program::Script);
        assert_eq!(spec.invocation.limits.timeout_ms, Some(3000));
    }

    #[test]
    fn malformed_input_is_refused_with_the_reason() {
        for (input, word) in [
            ("", "EOF"),
            ("[]", "invalid"),
            ("{}", "command"),
            (r#"{"command":1}"#, "string"),
            (r#"{"command":""}"#, "empty"),
            (r#"{"command":"x","timeout":1}"#, "timeout"),
            (r#"{"command":"x","timeout_ms":0}"#, "timeout_ms"),
            (r#"{"command":"x","timeout_ms":-1}"#, "-1"),
        ] {
            let problem = spec_of(call(input), ASKER).unwrap_err();
            assert!(
                problem.message().contains(word),
                "{input}: {}",
                problem.message()
            );
        }
        let mut other = call("{}");
        other.name = "python".to_owned();
        assert!(
            spec_of(other, ASKER)
                .unwrap_err()
                .message()
                .contains("known tools: bash")
        );
    }
}
