//! A daemon for tests: real gRPC over a socket pair, no jail behind it. Its tools are named for what they
//! do wrong.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use agentd_proto::v1::{
    self,
    call_tool_response::Message,
    exec_event::Event,
    exec_service_server::{ExecService, ExecServiceServer},
    tool_service_server::{ToolService, ToolServiceServer},
};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Server},
};

type Answer<T> = Result<Response<T>, Status>;
type Events<T> = ReceiverStream<Result<T, Status>>;

/// What the fake has been told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// How often it was told to end something.
    pub(super) terminate: AtomicU32,
    stop: Notify,
}

/// Starts a fake and connects to it.
pub(super) async fn start() -> (Channel, Arc<Told>) {
    let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
    let told = Arc::new(Told::default());
    let server = Server::builder()
        .add_service(ToolServiceServer::new(Fake(Arc::clone(&told))))
        .add_service(ExecServiceServer::new(Fake(Arc::clone(&told))))
        .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(theirs)));
    tokio::spawn(server);
    let channel = crate::connect::adopt(ours).await.unwrap();
    (channel, told)
}

struct Fake(Arc<Told>);

fn output(text: &'static str) -> Message {
    Message::Event(v1::ExecEvent {
        event: Some(Event::Output(v1::Output {
            stream: v1::Stream::Stdout.into(),
            data: text.into(),
            ..v1::Output::default()
        })),
        ..v1::ExecEvent::default()
    })
}

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
        let tool = v1::Tool {
            name: "bash".into(),
            description: "Run a shell command.".into(),
            input_schema_json: r#"{"type":"object"}"#.into(),
        };
        Ok(Response::new(v1::ListToolsResponse { tools: vec![tool] }))
    }

    async fn call_tool(
        &self,
        request: Request<v1::CallToolRequest>,
    ) -> Answer<Self::CallToolStream> {
        let name = request.into_inner().name;
        let (events, stream) = mpsc::channel(4);
        let told = Arc::clone(&self.0);
        if name == "refused" {
            return Err(Status::failed_precondition(
                "profile 'strict' requires tier T2",
            ));
        }
        tokio::spawn(async move {
            let send = async |message| {
                let message = v1::CallToolResponse {
                    message: Some(message),
                };
                events.send(Ok(message)).await.unwrap();
            };
            send(output("started\n")).await;
            match name.as_str() {
                "without-a-result" => {}
                "until-it-is-stopped" => {
                    told.stop.notified().await;
                    send(result("started", v1::ExitReason::Cancelled)).await;
                }
                _ => send(result("done", v1::ExitReason::Exited)).await,
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

#[tonic::async_trait]
impl ExecService for Fake {
    type RunStream = Events<v1::RunResponse>;
    type AttachStream = Events<v1::AttachResponse>;

    async fn read_output(
        &self,
        _: Request<v1::ReadOutputRequest>,
    ) -> Answer<v1::ReadOutputResponse> {
        Err(Status::unimplemented("not needed"))
    }

    /// Does not know the command the first time: the order was faster than the call.
    async fn terminate(&self, _: Request<v1::TerminateRequest>) -> Answer<v1::TerminateResponse> {
        if self.0.terminate.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(Status::not_found("no such execution"));
        }
        self.0.stop.notify_one();
        Ok(Response::new(v1::TerminateResponse::default()))
    }

    async fn start(&self, _: Request<v1::StartRequest>) -> Answer<v1::StartResponse> {
        unused()
    }

    async fn run(&self, _: Request<v1::RunRequest>) -> Answer<Self::RunStream> {
        unused()
    }

    async fn attach(&self, _: Request<v1::AttachRequest>) -> Answer<Self::AttachStream> {
        unused()
    }

    async fn wait(&self, _: Request<v1::WaitRequest>) -> Answer<v1::WaitResponse> {
        unused()
    }

    async fn get(&self, _: Request<v1::GetExecRequest>) -> Answer<v1::GetExecResponse> {
        unused()
    }

    async fn list(&self, _: Request<v1::ListExecsRequest>) -> Answer<v1::ListExecsResponse> {
        unused()
    }

    async fn write_stdin(
        &self,
        _: Request<v1::WriteStdinRequest>,
    ) -> Answer<v1::WriteStdinResponse> {
        unused()
    }

    async fn signal(&self, _: Request<v1::SignalRequest>) -> Answer<v1::SignalResponse> {
        unused()
    }

    async fn resize_pty(&self, _: Request<v1::ResizePtyRequest>) -> Answer<v1::ResizePtyResponse> {
        unused()
    }

    async fn delete(&self, _: Request<v1::DeleteExecRequest>) -> Answer<v1::DeleteExecResponse> {
        unused()
    }
}

/// What the tests do not use.
fn unused<T>() -> Answer<T> {
    Err(Status::unimplemented(""))
}
