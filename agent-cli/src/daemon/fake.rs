//! A daemon for tests: real gRPC over a Unix socket, no jail behind it. Its tools are named for what they
//! do wrong; its streams end where a test says.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use agentd_proto::v1::{
    self,
    call_tool_response::Message,
    exec_event::Event,
    exec_service_server::{ExecService, ExecServiceServer},
    info_service_server::{InfoService, InfoServiceServer},
    session_service_server::{SessionService, SessionServiceServer},
    tool_service_server::{ToolService, ToolServiceServer},
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Code, Request, Response, Status, transport::Server};

use super::{error::tests::refusal, follow::Patience, link::Link};
use crate::{connect::Connector, ids};

type Answer<T> = Result<Response<T>, Status>;
type Events<T> = ReceiverStream<Result<T, Status>>;

/// How a stream ends that a test cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// As if everything had been said.
    Quietly,
    /// With a status that agentd does not send.
    Unavailable,
    /// As for a reader that is too slow.
    TooSlow,
    /// Nothing more comes.
    Stall,
    /// Every connection to the fake breaks.
    Reset,
    /// The daemon is replaced by another that knows nothing.
    Restart,
}

/// What the fake has been told, and what it does.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// How often it was told to end something.
    pub(super) terminate: AtomicU32,
    /// How many executions it has begun.
    pub(super) begun: AtomicU32,
    /// How many sessions it was told to delete, keep alive.
    pub(super) deleted: AtomicU32,
    pub(super) kept_alive: AtomicU32,
    /// Streams end after so many messages, one entry a stream.
    pub(super) cuts: Mutex<VecDeque<(usize, How)>>,
    /// What was written to standard input, and whether it was closed.
    pub(super) stdin: Mutex<(Vec<u8>, bool)>,
    boot: AtomicU32,
    execs: Mutex<HashSet<String>>,
    pub(super) sessions: Mutex<HashMap<String, v1::CreateSessionRequest>>,
    /// Sessions of the calls, in order.
    pub(super) called_in: Mutex<Vec<String>>,
    stop: Notify,
    breaks: Notify,
}

impl Told {
    /// Forgets everything, as a daemon does that is restarted.
    pub(super) fn restart(&self) {
        self.boot.fetch_add(1, Ordering::Relaxed);
        self.execs.lock().unwrap().clear();
        self.sessions.lock().unwrap().clear();
        self.breaks.notify_waiters();
    }
}

impl Told {
    /// Every connection breaks; the daemon stays.
    pub(super) fn break_connections(&self) {
        self.breaks.notify_waiters();
    }
}

/// A fake that listens. It stops when this is dropped.
pub(super) struct Running {
    pub(super) link: Arc<Link>,
    pub(super) told: Arc<Told>,
    path: PathBuf,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        drop(std::fs::remove_file(&self.path));
        drop(std::fs::remove_file(self.path.with_extension("real")));
    }
}

/// Starts a fake and connects to it. What lies between can be made to break.
pub(super) async fn start() -> Running {
    start_with(Patience::default()).await
}

pub(super) async fn start_with(patience: Patience) -> Running {
    let path = std::env::temp_dir().join(ids::unique("fake"));
    let real = path.with_extension("real");
    let told = Arc::new(Told::default());
    let listener = UnixListener::bind(&real).unwrap();
    let fake = || Fake(Arc::clone(&told));
    let server = Server::builder()
        .add_service(ToolServiceServer::new(fake()))
        .add_service(ExecServiceServer::new(fake()))
        .add_service(SessionServiceServer::new(fake()))
        .add_service(InfoServiceServer::new(fake()))
        .serve_with_incoming(UnixListenerStream::new(listener));
    let serving = tokio::spawn(async move { server.await.unwrap() });
    let outer = UnixListener::bind(&path).unwrap();
    let between = tokio::spawn(forward(outer, real, Arc::clone(&told)));
    let link = Link::open(Connector::Unix(path.clone()), patience).await;
    Running {
        link: link.unwrap(),
        told,
        path,
        tasks: vec![serving, between],
    }
}

/// Passes connections on until they are told to break.
async fn forward(listener: UnixListener, real: PathBuf, told: Arc<Told>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let (real, told) = (real.clone(), Arc::clone(&told));
        tokio::spawn(async move {
            let mut server = UnixStream::connect(real).await.unwrap();
            let breaks = told.breaks.notified();
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                () = breaks => {}
            }
        });
    }
}

/// What an execution says: its events from the first to the last.
pub(super) fn events() -> Vec<v1::ExecEvent> {
    let started = Event::Started(v1::Started {
        sandbox: Some(v1::AppliedSandbox::default()),
        ..v1::Started::default()
    });
    let output = |offset: u64, text: &'static str| {
        Event::Output(v1::Output {
            stream: v1::Stream::Stdout.into(),
            offset,
            data: text.into(),
        })
    };
    let exited = Event::Exited(v1::ExitResult {
        reason: v1::ExitReason::Exited.into(),
        exit_code: Some(0),
        ..v1::ExitResult::default()
    });
    let all = [started, output(0, "one\n"), output(4, "two\n"), exited];
    let number = |(seq, event)| v1::ExecEvent {
        seq,
        event: Some(event),
        ..v1::ExecEvent::default()
    };
    (1..).zip(all).map(number).collect()
}

struct Fake(Arc<Told>);

impl Fake {
    /// Streams messages, up to where the test cuts.
    fn stream<T: Send + 'static>(&self, messages: Vec<T>) -> Events<T> {
        let cut = self.0.cuts.lock().unwrap().pop_front();
        let (sender, stream) = mpsc::channel(1);
        let told = Arc::clone(&self.0);
        tokio::spawn(async move {
            let (until, how) = cut.unwrap_or((usize::MAX, How::Quietly));
            for message in messages.into_iter().take(until) {
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
            }
            if cut.is_none() {
                return;
            }
            match how {
                How::Quietly => {}
                How::Unavailable => drop(sender.send(Err(Status::unavailable("cut"))).await),
                How::TooSlow => {
                    let status = refusal(Code::Aborted, "agentd", "SLOW_CONSUMER");
                    drop(sender.send(Err(status)).await);
                }
                How::Stall => sender.closed().await,
                How::Reset => {
                    // What was sent before is on its way; it may arrive or not.
                    told.breaks.notify_waiters();
                    sender.closed().await;
                }
                How::Restart => told.restart(),
            }
        });
        ReceiverStream::new(stream)
    }

    fn begin(&self, exec_id: &str) {
        if self.0.execs.lock().unwrap().insert(exec_id.to_owned()) {
            self.0.begun.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn known(&self, exec_id: &str) -> Result<(), Status> {
        if self.0.execs.lock().unwrap().contains(exec_id) {
            Ok(())
        } else {
            Err(refusal(Code::NotFound, "agentd", "EXEC_EXPIRED"))
        }
    }

    fn session(&self, id: &str) -> Result<(), Status> {
        if id.is_empty() || self.0.sessions.lock().unwrap().contains_key(id) {
            Ok(())
        } else {
            Err(refusal(Code::NotFound, "agentd", "SESSION_EXPIRED"))
        }
    }
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
impl InfoService for Fake {
    async fn get_server_info(
        &self,
        _: Request<v1::GetServerInfoRequest>,
    ) -> Answer<v1::GetServerInfoResponse> {
        Ok(Response::new(v1::GetServerInfoResponse {
            boot_id: self.0.boot.load(Ordering::Relaxed).to_string(),
            ..v1::GetServerInfoResponse::default()
        }))
    }
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

#[tonic::async_trait]
impl SessionService for Fake {
    async fn create(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Answer<v1::CreateSessionResponse> {
        let request = request.into_inner();
        let session = v1::Session {
            session_id: request.session_id.clone(),
            sandbox: request.sandbox.clone(),
            lease: request.lease,
            ..v1::Session::default()
        };
        let mut sessions = self.0.sessions.lock().unwrap();
        sessions.insert(request.session_id.clone(), request);
        Ok(Response::new(v1::CreateSessionResponse {
            session: Some(session),
            session_token: String::new(),
        }))
    }

    async fn get(&self, request: Request<v1::GetSessionRequest>) -> Answer<v1::GetSessionResponse> {
        let id = request.into_inner().session_id;
        self.session(&id)?;
        let sandbox = self.0.sessions.lock().unwrap()[&id].sandbox.clone();
        let session = v1::Session {
            session_id: id,
            sandbox,
            ..v1::Session::default()
        };
        Ok(Response::new(v1::GetSessionResponse {
            session: Some(session),
        }))
    }

    async fn list(&self, _: Request<v1::ListSessionsRequest>) -> Answer<v1::ListSessionsResponse> {
        unused()
    }

    async fn keep_alive(
        &self,
        request: Request<v1::KeepAliveRequest>,
    ) -> Answer<v1::KeepAliveResponse> {
        self.session(&request.into_inner().session_id)?;
        self.0.kept_alive.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(v1::KeepAliveResponse::default()))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteSessionRequest>,
    ) -> Answer<v1::DeleteSessionResponse> {
        let id = request.into_inner().session_id;
        self.session(&id)?;
        self.0.sessions.lock().unwrap().remove(&id);
        self.0.deleted.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(v1::DeleteSessionResponse::default()))
    }
}

#[tonic::async_trait]
impl ExecService for Fake {
    type RunStream = Events<v1::RunResponse>;
    type AttachStream = Events<v1::AttachResponse>;

    async fn run(&self, request: Request<v1::RunRequest>) -> Answer<Self::RunStream> {
        let spec = request.into_inner().spec.unwrap();
        self.session(&spec.session_id)?;
        self.begin(&spec.exec_id);
        let wrap = |event| v1::RunResponse { event: Some(event) };
        Ok(Response::new(
            self.stream(events().into_iter().map(wrap).collect()),
        ))
    }

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Answer<Self::AttachStream> {
        let request = request.into_inner();
        self.known(&request.exec_id)?;
        let wrap = |event| v1::AttachResponse { event: Some(event) };
        let left = events().into_iter();
        let left = left.filter(|event| event.seq > request.after_seq);
        Ok(Response::new(self.stream(left.map(wrap).collect())))
    }

    async fn get(&self, request: Request<v1::GetExecRequest>) -> Answer<v1::GetExecResponse> {
        self.known(&request.into_inner().exec_id)?;
        Ok(Response::new(v1::GetExecResponse::default()))
    }

    /// Does not know the command the first time: the order was faster than the call.
    async fn terminate(&self, _: Request<v1::TerminateRequest>) -> Answer<v1::TerminateResponse> {
        if self.0.terminate.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(Status::not_found("no such execution"));
        }
        self.0.stop.notify_one();
        Ok(Response::new(v1::TerminateResponse::default()))
    }

    /// Takes at most three bytes at once, and now and then breaks after it has taken them.
    async fn write_stdin(
        &self,
        request: Request<v1::WriteStdinRequest>,
    ) -> Answer<v1::WriteStdinResponse> {
        let request = request.into_inner();
        let mut stdin = self.0.stdin.lock().unwrap();
        let at = u64::try_from(stdin.0.len()).unwrap();
        assert!(request.offset <= at, "a hole");
        let known = usize::try_from(at.saturating_sub(request.offset)).unwrap();
        let new = request.data.get(known..).unwrap_or_default();
        stdin.0.extend(new.iter().take(3));
        stdin.1 |= request.eof;
        if let Some((_, How::Reset)) = self.0.cuts.lock().unwrap().pop_front() {
            self.0.breaks.notify_waiters();
        }
        Ok(Response::new(v1::WriteStdinResponse {
            accepted_offset: u64::try_from(stdin.0.len()).unwrap(),
            closed: stdin.1,
        }))
    }

    async fn read_output(
        &self,
        _: Request<v1::ReadOutputRequest>,
    ) -> Answer<v1::ReadOutputResponse> {
        unused()
    }

    async fn start(&self, _: Request<v1::StartRequest>) -> Answer<v1::StartResponse> {
        unused()
    }

    async fn wait(&self, _: Request<v1::WaitRequest>) -> Answer<v1::WaitResponse> {
        unused()
    }

    async fn list(&self, _: Request<v1::ListExecsRequest>) -> Answer<v1::ListExecsResponse> {
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
