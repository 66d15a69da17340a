//! What can go wrong with a call to a model, and which kind it is for the loop. The message names the
//! remedy. It is for people: it never enters the conversation.

use std::time::Duration;

use super::scripted::ScriptError;

/// The kind of a failed call; decides nothing but the wording and what a caller may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The credential was not accepted.
    Auth,
    /// The request was not accepted; sending it again cannot help.
    Rejected,
    /// Too many requests, or out of money.
    RateLimited,
    /// The server failed or is overloaded, still after the retries.
    Unavailable,
    /// No connection.
    Unreachable,
    /// The answer stopped or made no sense in the middle.
    Broken,
    /// A recorded conversation does not fit what happened.
    Script,
    /// The conversation broke the rules of the API before it was sent: our bug.
    Internal,
    /// The caller gave nothing to send.
    Usage,
}

/// A call to a model failed.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// 401 or 403.
    #[error("the API refused the credential ({status}): {message}{}; {remedy}", request_id_note(.request_id.as_deref()))]
    Auth {
        /// HTTP status.
        status: u16,
        /// The API's words.
        message: String,
        /// The API's id of the request.
        request_id: Option<String>,
        /// Which credential to check.
        remedy: &'static str,
    },
    /// Another 4xx.
    #[error("the API rejected the request ({status}): {message}{}; {remedy}", request_id_note(.request_id.as_deref()))]
    Rejected {
        /// HTTP status.
        status: u16,
        /// The API's words.
        message: String,
        /// The API's id of the request.
        request_id: Option<String>,
        /// What to do about it.
        remedy: &'static str,
    },
    /// 429 with a longer wait than we wait by ourselves, or still after the retries.
    #[error("the API limits the rate ({status}): {message}{}; {}", request_id_note(.request_id.as_deref()), wait_note(*.wait))]
    RateLimited {
        /// HTTP status.
        status: u16,
        /// The API's words.
        message: String,
        /// The API's id of the request.
        request_id: Option<String>,
        /// How long the API asks us to wait.
        wait: Option<Duration>,
    },
    /// A 5xx, 408 or 409 still after the retries, or an `error` event.
    #[error("the API is not available: {message}{}; try again later", request_id_note(.request_id.as_deref()))]
    Unavailable {
        /// The API's words, with the status if there is one.
        message: String,
        /// The API's id of the request.
        request_id: Option<String>,
    },
    /// The connection could not be made or broke before an answer.
    #[error("cannot reach {url}: {detail}; check the network and ANTHROPIC_BASE_URL")]
    Unreachable {
        /// Where we tried.
        url: String,
        /// What the transport said.
        detail: String,
    },
    /// The stream ended early, stalled, or was not understood.
    #[error("the answer broke off: {detail}{}; send the prompt again to continue", request_id_note(.request_id.as_deref()))]
    Broken {
        /// What happened.
        detail: String,
        /// The API's id of the request.
        request_id: Option<String>,
    },
    /// The client could not be set up.
    #[error("cannot set up the API client: {detail}")]
    Setup {
        /// What is wrong, with the remedy.
        detail: String,
    },
    /// A recorded conversation does not fit.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl ProviderError {
    /// The kind of failure.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Auth { .. } => ErrorClass::Auth,
            Self::Rejected { .. } => ErrorClass::Rejected,
            Self::RateLimited { .. } => ErrorClass::RateLimited,
            Self::Unavailable { .. } => ErrorClass::Unavailable,
            Self::Unreachable { .. } => ErrorClass::Unreachable,
            Self::Broken { .. } => ErrorClass::Broken,
            Self::Setup { .. } => ErrorClass::Usage,
            Self::Script(_) => ErrorClass::Script,
        }
    }
}

fn request_id_note(id: Option<&str>) -> String {
    id.map(|id| format!(" [request-id {id}]"))
        .unwrap_or_default()
}

fn wait_note(wait: Option<Duration>) -> String {
    match wait {
        Some(wait) => format!(
            "it asks for a wait of {} s: try again after that",
            wait.as_secs()
        ),
        None => "try again later".to_owned(),
    }
}
