//! Response streams: a task carries what a reader gets into a short queue, and ends with the client. A
//! client that takes nothing for too long loses its stream, not its command, and nobody else's.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use super::status::Problem;
use crate::exec::{Exec, ExecState, ReadItem, Reader};

/// Messages between the reader and the connection. More would only be memory: a slow client is served
/// from the ring.
const QUEUE: usize = 4;

/// A stream of responses.
#[derive(Debug)]
pub(super) struct Responses<T> {
    queue: mpsc::Receiver<Result<T, Status>>,
    /// The error that ends the stream after what is queued. Beside the queue, since that is full when a
    /// client is too slow.
    last: Arc<OnceLock<Problem>>,
    over: bool,
}

impl<T> Stream for Responses<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        match self.queue.poll_recv(context) {
            Poll::Ready(None) => {
                self.over = true;
                Poll::Ready(self.last.get().map(|last| Err(last.clone().into())))
            }
            Poll::Ready(item) => Poll::Ready(item),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// All of what `reader` gets, translated, then what `last` makes at the end.
pub(super) fn follow<T, E, L, F>(reader: Reader, encode: E, last: L) -> Responses<T>
where
    T: Send + 'static,
    E: Fn(&str, ReadItem) -> T + Send + 'static,
    L: FnOnce(Arc<Exec>) -> F + Send + 'static,
    F: Future<Output = Option<T>> + Send,
{
    let (sender, queue) = mpsc::channel(QUEUE);
    let error = Arc::new(OnceLock::new());
    let responses = Responses {
        queue,
        last: Arc::clone(&error),
        over: false,
    };
    tokio::spawn(async move {
        if let Err(problem) = carry(reader, (encode, last), &sender).await {
            error.get_or_init(|| problem);
        }
        // ORDER: the sender goes last, so that the stream finds the error when the queue ends.
        drop(sender);
    });
    responses
}

/// For [`follow`]: nothing comes at the end.
pub(super) async fn nothing<T>(_: Arc<Exec>) -> Option<T> {
    None
}

/// Carries everything, or says why not.
async fn carry<T, E, L, F>(
    mut reader: Reader,
    (encode, last): (E, L),
    sender: &mpsc::Sender<Result<T, Status>>,
) -> Result<(), Problem>
where
    E: Fn(&str, ReadItem) -> T,
    L: FnOnce(Arc<Exec>) -> F,
    F: Future<Output = Option<T>>,
{
    let exec = Arc::clone(reader.exec());
    let mut sent = 0;
    loop {
        let item = tokio::select! {
            item = reader.next() => item,
            // The client is gone. Dropping the reader starts the disconnect policy.
            () = sender.closed() => return Ok(()),
        };
        let Some(item) = item else { break };
        let seq = item.last_seq();
        let message = encode(exec.id().as_str(), item);
        if send(sender, message, &exec).await == Taken::Never {
            return Err(Problem::slow_consumer(sent));
        }
        sent = seq.unwrap_or(sent);
    }
    if let ExecState::NotStarted(why) = exec.state() {
        // There is no terminal event: the stream must not look complete.
        return Err(why.into());
    }
    let Some(message) = last(Arc::clone(&exec)).await else {
        return Ok(());
    };
    match send(sender, message, &exec).await {
        Taken::Yes => Ok(()),
        Taken::Never => Err(Problem::slow_consumer(sent)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Taken {
    /// In time, or the client is gone, which the next round sees.
    Yes,
    Never,
}

async fn send<T>(sender: &mpsc::Sender<Result<T, Status>>, message: T, exec: &Exec) -> Taken {
    let stall = exec.tuning().stall;
    if tokio::time::timeout(stall, sender.send(Ok(message)))
        .await
        .is_ok()
    {
        return Taken::Yes;
    }
    tracing::info!(exec = %exec.id(), "dropped a reader that took nothing for too long");
    exec.count_slow_reader();
    Taken::Never
}
