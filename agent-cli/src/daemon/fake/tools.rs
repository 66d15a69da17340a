//! Tools of the fake, named for what they do wrong.

use std::sync::Arc;

use agentd_proto::v1::{self, call_tool_response::Message, tool_service_server::ToolService};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{Answer, Events, Fake, events};

fn result(text: &str, reason: v1::ExitReason) -> Message {
    Message::Result(v1::ToolResult {
        text: text.to_owned(),
        is_error: reason != v1::ExitReason::Exited,
        exit: Some(v1::ExitResult {
            reason: reason.into(),
            ..v1::ExitResult::default()
        }),
        ..v1::ToolResult::default()
    })
}

#[tonic::async_trait]
impl ToolService for Fake {
    type CallToolStream = Events<v1::CallToolResponse>;

    async fn list_tools(&self, _: Request<v1::ListToolsRequest>) -> Answer<v1::ListToolsResponse> {
        let tool = |name: &str| v1::Tool {
            name: name.into(),
            description: "Run a shell command.".into(),
            input_schema_json: r#"{"type":"object"}"#.into(),
        };
        let tools = ["bash", "bash_output", "bash_kill"].map(tool).into();
        Ok(Response::new(v1::ListToolsResponse { tools }))
    }

    async fn call_tool(
        &self,
        request: Request<v1::CallToolRequest>,
    ) -> Answer<Self::CallToolStream> {
        let request = request.into_inner();
        self.same_boot(&request.expected_boot_id)?;
        let session = request.session_id.clone();
        self.session(&session)?;
        self.0.called_in.lock().unwrap().push(session);
        if request.name == "refused" {
            return Err(Status::failed_precondition(
                "profile 'strict' requires tier T2",
            ));
        }
        self.begin(&request.call_id);
        let mut messages: Vec<Message> = events().into_iter().map(Message::Event).collect();
        match request.name.as_str() {
            "without-a-result" => {}
            "until-it-is-stopped" => return Ok(Response::new(self.until_stopped(messages))),
            _ => messages.push(result("done", v1::ExitReason::Exited)),
        }
        let wrap = |message| v1::CallToolResponse {
            message: Some(message),
        };
        Ok(Response::new(
            self.stream(messages.into_iter().map(wrap).collect()),
        ))
    }
}

impl Fake {
    /// Says what it has said until it is told to end, and its end then.
    fn until_stopped(&self, messages: Vec<Message>) -> Events<v1::CallToolResponse> {
        let (sender, stream) = mpsc::channel(8);
        let told = Arc::clone(&self.0);
        tokio::spawn(async move {
            let send = async |message| {
                let message = Some(message);
                drop(sender.send(Ok(v1::CallToolResponse { message })).await);
            };
            for message in messages.into_iter().take(2) {
                send(message).await;
            }
            told.stop.notified().await;
            send(result("started", v1::ExitReason::Cancelled)).await;
        });
        ReceiverStream::new(stream)
    }
}
