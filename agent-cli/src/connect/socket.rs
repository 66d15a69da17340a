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

/// Dials a socket.
pub(super) async fn connect(path: &Path) -> Result<Channel, Error> {
    let path = path.to_owned();
    endpoint()
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
}

/// Speaks over a connected stream. It cannot be made again, so a lost connection stays lost.
pub(crate) async fn adopt(stream: UnixStream) -> Result<Channel, Error> {
    let once = Mutex::new(Some(stream));
    endpoint()
        .connect_with_connector(service_fn(move |_: Uri| {
            let taken = once.lock().ok().and_then(|mut slot| slot.take());
            async move {
                taken
                    .map(TokioIo::new)
                    .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
            }
        }))
        .await
}

/// Whether somebody accepted the connection and then closed it: what dialling itself cannot report.
pub(super) fn hung_up(error: &Error) -> bool {
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
}
