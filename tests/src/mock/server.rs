//! The server: one thread with its own runtime, a script of replies, and a record of every request.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::BufReader,
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Builder,
    sync::oneshot,
};

use super::{
    http::{self, Request},
    reply::{Fault, Framing, Message, Reply, event},
    rules::{self, ApiError},
};

/// The only credential that the mock accepts.
pub const KEY: &str = "sk-mock-0123456789";

/// A request as it came, and whether it was refused.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The request.
    pub request: Request,
    /// The refusal, if it broke a rule.
    pub refused: Option<ApiError>,
}

impl Recorded {
    /// The body as JSON; null when it is none.
    pub fn body(&self) -> Value {
        serde_json::from_slice(&self.request.body).unwrap_or(Value::Null)
    }
}

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    requests: Vec<Recorded>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

/// A running mock. Dropping it stops the server.
#[derive(Debug)]
pub struct MockApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl MockApi {
    /// Starts a mock on a free loopback port that answers with these replies, in order. A request
    /// beyond the script gets a 500, which no client test expects.
    pub fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.lock().script.extend(script);
        let (stop, stopped) = oneshot::channel();
        let (address_to, address_from) = std::sync::mpsc::channel();
        let served = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a tokio runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("a local address");
                address_to.send(address).expect("the starter waits");
                tokio::select! {
                    () = accept(listener, served) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address: address_from.recv().expect("the server starts"),
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Base URL for a client.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply at the end of the script.
    pub fn push(&self, reply: Reply) {
        self.shared.lock().script.push_back(reply);
    }

    /// Everything that arrived so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().requests.clone()
    }

    /// Replies that were not asked for yet.
    pub fn unused(&self) -> usize {
        self.shared.lock().script.len()
    }

    /// Waits until this many requests arrived; returns false after the deadline.
    pub fn wait_for_requests(&self, count: usize, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        let mut state = self.shared.lock();
        while state.requests.len() < count {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            let woken = self.shared.arrived.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for MockApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges and records a request, and takes the reply for it.
    fn take(&self, request: Request) -> (Request, usize, Result<Reply, ApiError>) {
        let verdict = judge(&request);
        let mut state = self.lock();
        let recorded = Recorded {
            request: request.clone(),
            refused: verdict.clone().err(),
        };
        state.requests.push(recorded);
        let number = state.requests.len();
        self.arrived.notify_all();
        let reply = verdict.and_then(|()| {
            state.script.pop_front().ok_or(ApiError {
                status: 500,
                kind: "api_error",
                message: "the mock's script has no more replies".to_owned(),
            })
        });
        (request, number, reply)
    }
}

fn judge(request: &Request) -> Result<(), ApiError> {
    if request.method != "POST" || request.path != "/v1/messages" {
        return Err(ApiError {
            status: 404,
            kind: "not_found_error",
            message: format!("{} {}", request.method, request.path),
        });
    }
    rules::check_headers(request, KEY)?;
    rules::check_body(&request.body).map(drop)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let shared = Arc::clone(&shared);
            // A client that goes away in mid-answer is a thing to test, not a failure of the mock.
            tokio::spawn(async move { drop(connection(stream, shared).await) });
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer): (OwnedReadHalf, OwnedWriteHalf) = stream.into_split();
    let mut reader = BufReader::new(reader);
    while let Some(request) = http::read_request(&mut reader).await? {
        let (request, number, reply) = shared.take(request);
        if !answer(&mut writer, (&request, number), reply).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Writes one answer; returns false when the connection ends with it.
async fn answer(
    writer: &mut OwnedWriteHalf,
    to: (&Request, usize),
    reply: Result<Reply, ApiError>,
) -> io::Result<bool> {
    let (request, number) = to;
    match reply {
        Err(error) => refuse(writer, &error, Vec::new()).await.map(|()| true),
        Ok(Reply::Fault(Fault::Status {
            status,
            kind,
            headers,
        })) => {
            let error = ApiError {
                status,
                kind,
                message: format!("scripted {status}"),
            };
            refuse(writer, &error, headers).await.map(|()| true)
        }
        Ok(Reply::Message(message)) if !streaming(request) => {
            let body = message.to_json(number).to_string();
            let head = (200, [("request-id".to_owned(), format!("req_{number:05}"))]);
            http::write_full(writer, (head.0, &head.1), body.as_bytes()).await?;
            Ok(true)
        }
        Ok(Reply::Message(message)) => {
            let events = message.to_events(number);
            stream(writer, number, (&message, &events)).await?;
            http::write_chunk(writer, b"").await?;
            Ok(true)
        }
        Ok(Reply::Fault(Fault::CutAfter(message, count))) => {
            let events = first(&message, number, count);
            stream(writer, number, (&message, &events)).await?;
            Ok(false)
        }
        Ok(Reply::Fault(Fault::ErrorEventAfter(message, count))) => {
            let mut events = first(&message, number, count);
            let error = json!({"type": "overloaded_error", "message": "Overloaded"});
            events.push(event(&json!({"type": "error", "error": error})));
            stream(writer, number, (&message, &events)).await?;
            http::write_chunk(writer, b"").await?;
            Ok(false)
        }
        Ok(Reply::Fault(Fault::HangAfter(message, count))) => {
            let events = first(&message, number, count);
            stream(writer, number, (&message, &events)).await?;
            std::future::pending().await
        }
    }
}

fn first(message: &Message, number: usize, count: usize) -> Vec<String> {
    message.to_events(number).into_iter().take(count).collect()
}

fn streaming(request: &Request) -> bool {
    serde_json::from_slice::<Value>(&request.body).is_ok_and(|body| body["stream"] == true)
}

async fn stream(
    writer: &mut OwnedWriteHalf,
    number: usize,
    what: (&Message, &[String]),
) -> io::Result<()> {
    let (message, events) = what;
    http::write_stream_head(writer, &format!("req_{number:05}")).await?;
    match message.framing {
        Framing::Events => {
            for event in events {
                http::write_chunk(writer, event.as_bytes()).await?;
            }
        }
        Framing::Bytes(size) => {
            for piece in events.concat().as_bytes().chunks(size.max(1)) {
                http::write_chunk(writer, piece).await?;
            }
        }
    }
    Ok(())
}

async fn refuse(
    writer: &mut OwnedWriteHalf,
    error: &ApiError,
    headers: Vec<(String, String)>,
) -> io::Result<()> {
    let envelope = json!({
        "type": "error",
        "error": {"type": error.kind, "message": error.message},
        "request_id": "req_refused"
    });
    http::write_full(
        writer,
        (error.status, &headers),
        envelope.to_string().as_bytes(),
    )
    .await
}
