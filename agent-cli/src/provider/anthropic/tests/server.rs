//! A tiny HTTP server: each connection gets the next scripted response, and its request is recorded.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A part of a scripted response.
#[derive(Clone)]
pub(super) enum Part {
    /// These bytes, at once.
    Bytes(Vec<u8>),
    /// Nothing more, and the connection stays open.
    Hold,
}

pub(super) struct Server {
    pub(super) base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves the responses one after the other; the last one again and again.
    pub(super) async fn start(responses: Vec<Vec<Part>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            for index in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_request(&mut stream).await;
                recorded.lock().unwrap().push(request);
                let parts = responses
                    .get(index)
                    .or_else(|| responses.last())
                    .unwrap()
                    .clone();
                tokio::spawn(respond(stream, parts));
            }
        });
        Self { base_url, requests }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn respond(mut stream: TcpStream, parts: Vec<Part>) {
    for part in parts {
        match part {
            Part::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
                stream.flush().await.unwrap();
            }
            Part::Hold => std::future::pending().await,
        }
    }
    // Nothing is left unread, so closing sends FIN and not RST.
    drop(stream);
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0_u8; 4096];
    loop {
        let count = stream.read(&mut byte).await.unwrap();
        bytes.extend_from_slice(&byte[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse::<usize>()
                .ok()
        });
        if count == 0 || body.len() >= length.unwrap_or(0) {
            return text;
        }
    }
}

/// A complete response with any status and headers.
pub(super) fn http(status: u16, headers: &str, body: &str) -> Vec<Part> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    vec![Part::Bytes([head.as_bytes(), body.as_bytes()].concat())]
}

/// A stream that is cut when the body's bytes are over, in pieces of `piece` bytes.
pub(super) fn stream(body: &str, piece: usize) -> Vec<Part> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nrequest-id: req_9\r\nConnection: close\r\n\r\n";
    let mut parts = vec![Part::Bytes(head.to_vec())];
    parts.extend(
        body.as_bytes()
            .chunks(piece)
            .map(|chunk| Part::Bytes(chunk.to_vec())),
    );
    parts
}
