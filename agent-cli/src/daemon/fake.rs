//! A daemon for tests: real gRPC over a Unix socket, no jail behind it. Its tools are named for what they
//! do wrong; its streams end where a test says.

mod execs;
mod sessions;
mod tools;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use agentd_proto::v1::{
    self,
    exec_event::Event,
    exec_service_server::ExecServiceServer,
    info_service_server::{InfoService, InfoServiceServer},
    session_service_server::SessionServiceServer,
    tool_service_server::ToolServiceServer,
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
    /// It does not know what it is told to end.
    pub(super) knows_nothing: AtomicBool,
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
    /// Is replaced by another daemon behind something that keeps the connections.
    pub(super) fn replace(&self) {
        self.boot.fetch_add(1, Ordering::Relaxed);
        self.execs.lock().unwrap().clear();
    }

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

    /// What was meant for an earlier daemon is refused.
    fn same_boot(&self, expected: &str) -> Result<(), Status> {
        let boot = self.0.boot.load(Ordering::Relaxed).to_string();
        if expected == boot {
            Ok(())
        } else {
            Err(refusal(Code::NotFound, "agentd", "INSTANCE_RESTARTED"))
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

/// What the tests do not use.
fn unused<T>() -> Answer<T> {
    Err(Status::unimplemented(""))
}
