//! How a tool that is not an execution of its own answers: signs of life while it works, then one result.

use std::{future::Future, pin::Pin, sync::Arc};

use agentd_proto::v1::{self as pb, call_tool_response::Message};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::Status;

use crate::{
    exec::{Exec, ReadItem, Reader},
    rpc::encode,
    text::{self, Rendered},
};

/// Messages on their way to the client; more would only be memory.
const QUEUE: usize = 2;

/// An answer on its way.
pub(in crate::rpc) type Responses =
    Pin<Box<dyn Stream<Item = Result<pb::CallToolResponse, Status>> + Send>>;

/// The sending end of an answer.
pub(super) struct Answers(mpsc::Sender<Result<pb::CallToolResponse, Status>>);

/// An answer, and the stream that carries it.
pub(super) fn stream() -> (Answers, Responses) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Answers(sender), Box::pin(ReceiverStream::new(receiver)))
}

/// What a model reads of a command.
pub(super) struct Told {
    /// Output.
    pub(super) rendered: Rendered,
    /// Lines about it.
    pub(super) lines: Vec<String>,
}

impl Answers {
    /// Does the work, and tells the client meanwhile that it is being done. `None`: the client is gone.
    pub(super) async fn keep_alive<T>(
        &self,
        exec: &Arc<Exec>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut reader = Some(Reader::new(exec, exec.last_seq()));
        let mut work = std::pin::pin!(work);
        loop {
            let item = tokio::select! {
                done = &mut work => return Some(done),
                () = self.0.closed() => return None,
                item = next(reader.as_mut()) => item,
            };
            match item {
                Some(item @ ReadItem::Heartbeat { .. }) => {
                    let event = Message::Event(encode::item(exec.id().as_str(), item));
                    // A full queue says that the client has a sign of life to take already.
                    drop(self.0.try_send(Ok(response(event))));
                }
                Some(ReadItem::Event(_) | ReadItem::Gap { .. }) => {}
                // The command is over; the work will be, too.
                None => reader = None,
            }
        }
    }

    /// Ends the answer.
    pub(super) async fn finish(self, result: pb::ToolResult) {
        // An error means that the client is gone.
        drop(self.0.send(Ok(response(Message::Result(result)))).await);
    }
}

async fn next(reader: Option<&mut Reader>) -> Option<ReadItem> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

fn response(message: Message) -> pb::CallToolResponse {
    pb::CallToolResponse {
        message: Some(message),
    }
}

/// An answer that is there at once.
pub(super) fn at_once(result: pb::ToolResult) -> Responses {
    let (answers, responses) = stream();
    // The queue is empty.
    drop(answers.0.try_send(Ok(response(Message::Result(result)))));
    responses
}

/// The call cannot be done; the text names the remedy.
pub(super) fn error(text: String) -> pb::ToolResult {
    pb::ToolResult {
        text,
        is_error: true,
        ..pb::ToolResult::default()
    }
}

/// The result of a call about an execution that is not its own.
pub(super) fn about(exec: &Exec, told: Told) -> pb::ToolResult {
    let mut text = told.rendered.text;
    text::append(&mut text, &told.lines);
    pb::ToolResult {
        text,
        is_error: false,
        exec_id: exec.id().to_string(),
        exit: exec.result().map(|end| encode::result(&end)),
        omitted_chars: told.rendered.omitted_chars,
        omitted_lines: told.rendered.omitted_lines,
    }
}

/// Output, or these words when there is none.
pub(super) fn or_empty(mut rendered: Rendered, words: &str) -> Rendered {
    if rendered.text.is_empty() {
        words.clone_into(&mut rendered.text);
    }
    rendered
}
