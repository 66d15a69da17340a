//! gRPC over a Unix stream: one that is dialled, or one that is already connected.

use std::{io, path::Path, sync::Mutex, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tower::service_fn;

/// A local daemon that takes longer than this to accept is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// HTTP/2 windows, in bytes. The default of 64 KiB would make each chunk of output wait for a round trip.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Largest HTTP/2 frame, in bytes: a whole event of output. In frames of the default 16 KiB it would take
/// five writes and five reads.
const FRAME: u32 = 128 << 10;

/// HTTP/2 pings find out that a peer is gone without a word. They are sent while idle too, which also keeps
/// forwarders in between from forgetting the connection.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection has ended, so the request was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection has ended")]
struct Gone;

/// Why a socket could not be dialled.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// Nobody accepted.
    #[error(transparent)]
    Dial(#[from] io::Error),
    /// Somebody accepted, and no conversation came of it.
    #[error(transparent)]
    Speak(#[from] Error),
}

/// Dials a socket, once: the channel never dials again by itself, so that whoever answers on it is the same
/// process for as long as it lives.
pub(super) async fn connect(path: &Path) -> Result<Channel, DialError> {
    let dialled = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await;
    let stream = dialled.map_err(|elapsed| io::Error::new(io::ErrorKind::TimedOut, elapsed))??;
    Ok(adopt(stream).await?)
}

/// Speaks over a connected stream. It cannot be made again, so a lost connection stays lost.
pub(super) async fn adopt(stream: UnixStream) -> Result<Channel, Error> {
    let once = Mutex::new(Some(stream));
    endpoint()
        .connect_with_connector(service_fn(move |_: Uri| {
            let taken = once.lock().ok().and_then(|mut slot| slot.take());
            async move { taken.map(TokioIo::new).ok_or(Gone) }
        }))
        .await
}

/// Whether a call failed before any of it was sent.
#[must_use]
pub fn never_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(<dyn std::error::Error + 'static>::is::<Gone>)
}

/// Whether somebody accepted the connection and then closed it: what dialling itself cannot report.
pub(super) fn hung_up(error: &DialError) -> bool {
    let DialError::Speak(error) = error else {
        return false;
    };
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return matches!(
                cause.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::UnexpectedEof
            );
        }
        next = cause.source();
    }
    false
}

fn endpoint() -> Endpoint {
    // The authority is never looked up: the connector above decides where the bytes go.
    Endpoint::from_static("http://agentd.invalid")
        .connect_timeout(CONNECT_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
}
