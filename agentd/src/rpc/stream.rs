//! Response streams: a task carries what a reader gets into a short queue, and ends with the client.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::exec::{ReadItem, Reader};

/// Messages between the reader and the connection. More would only be memory: a slow client is served
/// from the ring.
const QUEUE: usize = 4;

/// A stream of responses.
pub(super) type Responses<T> = ReceiverStream<Result<T, Status>>;

/// All of what `reader` gets, translated, then what `last` makes at the end.
pub(super) fn follow<T, E, L>(mut reader: Reader, encode: E, last: L) -> Responses<T>
where
    T: Send + 'static,
    E: Fn(&str, ReadItem) -> T + Send + 'static,
    L: FnOnce(&Reader) -> Option<T> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let id = reader.exec().id().clone();
        loop {
            let item = tokio::select! {
                item = reader.next() => item,
                // The client is gone. Dropping the reader starts the disconnect policy.
                () = sender.closed() => return,
            };
            let Some(item) = item else { break };
            if sender.send(Ok(encode(id.as_str(), item))).await.is_err() {
                return;
            }
        }
        if let Some(message) = last(&reader) {
            // An error means that the client is gone.
            drop(sender.send(Ok(message)).await);
        }
    });
    ReceiverStream::new(receiver)
}
