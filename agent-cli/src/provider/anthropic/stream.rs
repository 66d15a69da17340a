//! Reads one response body to a reply, with a watchdog on bytes. Shows text as it comes.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;

use super::assemble::{Assembler, Delta, StreamProblem};
use super::failure::{AttemptFailure, Delivered};
use super::sse::{SseDecoder, SseEvent};
use super::wire::{ApiProblem, whole_reply};
use crate::agent::ports::ReplySink;
use crate::model::Reply;
use crate::provider::surrogate::replace_lone_surrogates;

/// The largest body that is read as one piece.
const WHOLE_BODY_BYTES: usize = 32 * 1024 * 1024;

/// A response and how to read it.
pub(super) struct ReplyStream<'a> {
    pub(super) response: Response,
    pub(super) idle: Duration,
    pub(super) request_id: Option<String>,
    pub(super) sink: &'a dyn ReplySink,
}

/// What has been read so far.
enum Body {
    /// Nothing but white space.
    Unknown,
    /// Events.
    Events(Box<SseDecoder>),
    /// One JSON document: a gateway that does not stream. The type header is not asked, proxies lose it.
    Whole(Vec<u8>),
}

impl ReplyStream<'_> {
    /// Reads to the end of the reply.
    pub(super) async fn read(mut self) -> Result<Reply, AttemptFailure> {
        let mut assembler = Assembler::default();
        let mut delivered = Delivered::Nothing;
        let mut body = Body::Unknown;
        while !assembler.is_complete() {
            let Some(chunk) = self.chunk(delivered).await? else {
                break;
            };
            body = body.sniff(&chunk);
            let taken = match &mut body {
                Body::Unknown => Ok(()),
                Body::Whole(bytes) => append(bytes, &chunk),
                Body::Events(decoder) => match decoder.feed(&chunk) {
                    Ok(events) => self.take(&mut assembler, &events, &mut delivered),
                    Err(error) => Err(StreamProblem::Broken(error.to_string())),
                },
            };
            taken.map_err(|problem| self.failed(problem, delivered))?;
        }
        let result = match body {
            Body::Whole(bytes) => self.whole(&bytes),
            Body::Unknown => assembler.finish(),
            Body::Events(decoder) => {
                let rest: Vec<SseEvent> = decoder.finish().into_iter().collect();
                let taken = if assembler.is_complete() {
                    Ok(())
                } else {
                    self.take(&mut assembler, &rest, &mut delivered)
                };
                taken.and_then(|()| assembler.finish())
            }
        };
        result.map_err(|problem| self.failed(problem, delivered))
    }

    /// The next bytes; `None` at the end. Any byte resets the watchdog, a ping too.
    async fn chunk(&mut self, delivered: Delivered) -> Result<Option<Vec<u8>>, AttemptFailure> {
        match tokio::time::timeout(self.idle, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk.map(|bytes| bytes.to_vec())),
            Ok(Err(error)) => {
                let detail = format!("the connection broke ({})", super::transport_detail(&error));
                Err(self.failed(StreamProblem::Broken(detail), delivered))
            }
            Err(_elapsed) => Err(AttemptFailure::Silent {
                seconds: self.idle.as_secs(),
                request_id: self.request_id.clone(),
            }),
        }
    }

    fn take(
        &self,
        assembler: &mut Assembler,
        events: &[SseEvent],
        delivered: &mut Delivered,
    ) -> Result<(), StreamProblem> {
        for event in events {
            match assembler.take(event)? {
                Some(Delta::Text(text)) => self.sink.text_delta(&text),
                Some(Delta::Thinking(text)) => self.sink.thinking_delta(&text),
                None => continue,
            }
            *delivered = Delivered::Something;
        }
        Ok(())
    }

    fn whole(&self, bytes: &[u8]) -> Result<Reply, StreamProblem> {
        let text = String::from_utf8_lossy(bytes);
        let value: Value = serde_json::from_str(&replace_lone_surrogates(&text))
            .map_err(|error| StreamProblem::Broken(format!("the body is not JSON ({error})")))?;
        let Some(reply) = whole_reply(&value) else {
            return Err(StreamProblem::Api(ApiProblem::from_body(&value)));
        };
        let text = reply.text();
        if !text.is_empty() {
            self.sink.text_delta(&text);
        }
        Ok(reply)
    }

    fn failed(&self, problem: StreamProblem, delivered: Delivered) -> AttemptFailure {
        AttemptFailure::Stream {
            problem,
            request_id: self.request_id.clone(),
            delivered,
        }
    }
}

impl Body {
    fn sniff(self, chunk: &[u8]) -> Self {
        match (self, chunk.iter().find(|byte| !byte.is_ascii_whitespace())) {
            (Self::Unknown, Some(b'{')) => Self::Whole(Vec::new()),
            (Self::Unknown, Some(_)) => Self::Events(Box::default()),
            (other, _) => other,
        }
    }
}

fn append(bytes: &mut Vec<u8>, chunk: &[u8]) -> Result<(), StreamProblem> {
    if bytes.len().saturating_add(chunk.len()) > WHOLE_BODY_BYTES {
        return Err(StreamProblem::Broken("the body is too large".to_owned()));
    }
    bytes.extend_from_slice(chunk);
    Ok(())
}
