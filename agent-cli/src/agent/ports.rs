//! The ports of the loop: what it needs from the world, as traits. The terminal, the daemon connection and
//! the permission prompt implement them; the model providers too. No implementation lives here.
//!
//! Observers and sinks take `&self`: parallel calls report at the same time.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::cancel::Cancel;
use super::end::TurnEnd;
use crate::model::{Message, Reply, ToolCall, ToolDefinition, ToolOutcome};
use crate::provider::ProviderError;

/// A boxed future, so that ports are object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What stays the same in every request of a session. Its bytes are the start of the cached prefix.
#[derive(Debug, Clone, PartialEq)]
pub struct Preamble {
    /// Model id.
    pub model: String,
    /// System prompt.
    pub system: String,
    /// Tools, in the order in which the model sees them.
    pub tools: Vec<ToolDefinition>,
    /// Output limit in tokens.
    pub max_tokens: u32,
}

/// One request: the frozen preamble and the whole conversation.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The frozen part.
    pub preamble: &'a Preamble,
    /// The conversation; already checked.
    pub messages: &'a [Message],
}

/// A failed call that will be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNotice {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// How many attempts there are in all.
    pub attempts: u32,
    /// How long we wait before the next.
    pub wait: Duration,
    /// Why, in one line.
    pub reason: String,
}

/// What a provider reports while a reply is on its way.
pub trait ReplySink: Send + Sync {
    /// A piece of the answer's text. Not neutralised: control characters are the terminal's affair.
    fn text_delta(&self, text: &str);
    /// A piece of the model's thinking, when it is shown.
    fn thinking_delta(&self, text: &str);
    /// An attempt failed before anything was delivered, and another follows.
    fn retry(&self, notice: &RetryNotice);
}

/// A model. Dropping the future aborts the call; that is how an interrupt reaches it.
pub trait Provider: Send + Sync {
    /// Asks for one reply. Retries by itself what is safe to retry, and reports it to `sink`.
    fn complete<'a>(
        &'a self,
        request: Request<'a>,
        sink: &'a dyn ReplySink,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>>;
}

/// Which stream a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a running tool reports.
pub trait ToolEvents: Send + Sync {
    /// A piece of output as it arrived. Bytes, because a piece may end inside a character.
    fn output(&self, stream: OutputStream, bytes: &[u8]);
}

/// The tools of the session.
pub trait Tools: Send + Sync {
    /// The definitions, in a stable order. Read once, when the agent is made.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Runs one call to its end. Never fails: what goes wrong is an outcome that the model reads.
    /// When `cancel` fires, the port stops the tool and returns what it had printed as
    /// [`crate::model::ToolStatus::Interrupted`]; the agent waits a bounded time for that.
    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        events: &'a dyn ToolEvents,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ToolOutcome>;
}

/// The answer to "may this call run?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run it.
    Allow,
    /// Do not; the model is told, with the reason if there is one (the loop words the rest).
    Deny {
        /// Why, in the person's or the policy's words.
        reason: Option<String>,
    },
}

/// Who decides about calls. Asked once per call, in call order, never for two calls at once.
pub trait Approver: Send + Sync {
    /// Decides. Dropping the future withdraws the question (an interrupt).
    fn ask<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Decision>;
}

/// How urgent a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Something is incomplete or was given up.
    Warning,
}

/// A line for the person, in our words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How urgent.
    pub severity: Severity,
    /// The line, complete as it is.
    pub text: String,
}

/// Who watches a turn. Every method has an empty body, so that an observer says only what it needs.
/// Order of one call: `tool_call` (before the permission is asked), `tool_started`, `tool_output`…,
/// `tool_result`. A call that never runs has no `tool_started`.
pub trait Observer: Send + Sync {
    /// A request goes out; until the next event the model is at work.
    fn request_started(&self) {}
    /// A piece of the answer's text.
    fn text_delta(&self, _text: &str) {}
    /// A piece of the model's thinking.
    fn thinking_delta(&self, _text: &str) {}
    /// The reply is complete; its text was already delivered by `text_delta`.
    fn reply(&self, _reply: &Reply) {}
    /// The model wants this call; nothing has been decided yet.
    fn tool_call(&self, _call: &ToolCall) {}
    /// The call was allowed and starts now.
    fn tool_started(&self, _call: &ToolCall) {}
    /// A piece of a tool's output.
    fn tool_output(&self, _call: &ToolCall, _stream: OutputStream, _bytes: &[u8]) {}
    /// What came of the call, a denial included, exactly as the model will read it.
    fn tool_result(&self, _call: &ToolCall, _outcome: &ToolOutcome) {}
    /// A line for the person.
    fn notice(&self, _notice: &Notice) {}
    /// An attempt failed and another follows.
    fn retry(&self, _notice: &RetryNotice) {}
    /// The turn is over.
    fn turn_end(&self, _end: &TurnEnd) {}
}
