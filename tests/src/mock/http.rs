//! HTTP/1.1 as far as one client needs it: requests with a Content-Length, answers of known length or
//! chunked. It must not interpret bodies.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::tcp::OwnedReadHalf,
};

/// The service's own limit on a request body.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// One parsed request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `POST`, …
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Headers in order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, exactly as received.
    pub body: Vec<u8>,
}

impl Request {
    /// Every value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }
}

/// Reads one request; `None` at a clean end of the connection.
pub(super) async fn read_request(
    reader: &mut BufReader<OwnedReadHalf>,
) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let mut request = Request {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        ..Request::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("header line"))?;
        let entry = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        request.headers.push(entry);
    }
    request.body = read_body(reader, &request).await?;
    Ok(Some(request))
}

async fn read_body<R: AsyncRead + Unpin>(reader: &mut R, head: &Request) -> io::Result<Vec<u8>> {
    if !head.header("transfer-encoding").is_empty() {
        return Err(bad("the mock reads bodies with a Content-Length only"));
    }
    let length = match head.header("content-length").as_slice() {
        [] => 0,
        [one] => one.parse().map_err(|_| bad("content-length"))?,
        _ => return Err(bad("two content-length headers")),
    };
    if length > MAX_BODY {
        return Err(bad("body over 32 MB"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    Ok(body)
}

/// Writes an answer of known length.
pub(super) async fn write_full<W: AsyncWrite + Unpin>(
    writer: &mut W,
    head: (u16, &[(String, String)]),
    body: &[u8],
) -> io::Result<()> {
    let (status, headers) = head;
    let mut text = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        reason(status),
        body.len()
    );
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text.push_str("\r\n");
    writer.write_all(text.as_bytes()).await?;
    writer.write_all(body).await?;
    writer.flush().await
}

/// Starts a chunked event stream.
pub(super) async fn write_stream_head<W: AsyncWrite + Unpin>(
    writer: &mut W,
    request_id: &str,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
         request-id: {request_id}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    writer.write_all(head.as_bytes()).await
}

/// Writes one chunk; an empty one ends the stream.
pub(super) async fn write_chunk<W: AsyncWrite + Unpin>(
    writer: &mut W,
    bytes: &[u8],
) -> io::Result<()> {
    let head = format!("{:x}\r\n", bytes.len());
    writer.write_all(head.as_bytes()).await?;
    writer.write_all(bytes).await?;
    writer.write_all(b"\r\n").await?;
    writer.flush().await
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        529 => "Overloaded",
        _ => "Error",
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
