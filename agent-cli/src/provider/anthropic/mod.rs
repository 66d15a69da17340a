//! The Anthropic Messages API, streaming, and the gateways that speak it. One call is: body → POST → SSE
//! bytes → events → blocks → reply. Must not log or print a credential.

mod assemble;
mod body;
mod client;
mod endpoint;
mod failure;
mod retry;
mod sse;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use body::CacheMarkers;
use client::http_client;
pub use endpoint::Endpoint;
use failure::AttemptFailure;
use reqwest::header::{HeaderMap, HeaderValue};
use retry::RetryHints;
pub use retry::RetryPolicy;
use secrecy::{ExposeSecret, SecretString};
use stream::ReplyStream;
use wire::ApiProblem;

use super::ProviderError;
use crate::agent::ports::{BoxFuture, Provider, ReplySink, Request, RetryNotice};
use crate::model::Reply;

/// What every gateway knows; newer versions only forbid what we do not send.
const API_VERSION: &str = "2023-06-01";
/// The largest error body that is read.
const ERROR_BODY_BYTES: usize = 64 * 1024;

/// The one credential header that is sent.
#[derive(Debug, Clone)]
pub enum Credential {
    /// `x-api-key`.
    ApiKey(SecretString),
    /// `Authorization: Bearer`.
    Bearer(SecretString),
}

/// How to reach the API.
#[derive(Debug, Clone)]
pub struct AnthropicConfig {
    /// Base URL of a gateway; `None` is the vendor's. Trailing slashes and one `/v1` are accepted.
    pub base_url: Option<String>,
    /// The credential.
    pub credential: Credential,
    /// What is tried again, and how often.
    pub retry: RetryPolicy,
    /// Longest time to make a connection.
    pub connect_timeout: Duration,
    /// Longest silence: any byte counts, pings and comments too.
    pub idle_timeout: Duration,
}

impl AnthropicConfig {
    /// The defaults: 30 s to connect, 300 s of silence, three attempts.
    #[must_use]
    pub fn new(base_url: Option<String>, credential: Credential) -> Self {
        Self {
            base_url,
            credential,
            retry: RetryPolicy::default(),
            connect_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// The Messages API as a provider.
#[derive(Debug)]
pub struct AnthropicProvider {
    client: reqwest::Client,
    endpoint: Endpoint,
    config: AnthropicConfig,
}

impl AnthropicProvider {
    /// Sets the client up. Opens no connection.
    pub fn new(config: AnthropicConfig) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::parse(config.base_url.as_deref())?;
        let client = http_client(&endpoint, &config)?;
        Ok(Self {
            client,
            endpoint,
            config,
        })
    }

    async fn run(&self, body: String, sink: &dyn ReplySink) -> Result<Reply, ProviderError> {
        let mut attempt = 1_u32;
        loop {
            let failure = match self.attempt(body.clone(), sink).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let hints = failure.retry_hints();
            let wait = hints.and_then(|hints| self.config.retry.wait(attempt, hints, dice()));
            let Some(wait) = wait else {
                return Err(failure.into_error(&self.config.credential));
            };
            sink.retry(&RetryNotice {
                attempt,
                attempts: self.config.retry.attempts,
                wait,
                reason: failure.reason(),
            });
            tokio::time::sleep(wait).await;
            attempt = attempt.saturating_add(1);
        }
    }

    async fn attempt(&self, body: String, sink: &dyn ReplySink) -> Result<Reply, AttemptFailure> {
        let send = self
            .client
            .post(self.endpoint.url().clone())
            .body(body)
            .send();
        let response = match tokio::time::timeout(self.config.idle_timeout, send).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let url = self.endpoint.url().to_string();
                return Err(AttemptFailure::Unreachable {
                    url,
                    detail: transport_detail(&error),
                });
            }
            Err(_elapsed) => {
                let seconds = self.config.idle_timeout.as_secs();
                return Err(AttemptFailure::Silent {
                    seconds,
                    request_id: None,
                });
            }
        };
        let request_id = header(response.headers(), "request-id").map(str::to_owned);
        if !response.status().is_success() {
            return Err(self.refused(response, request_id).await);
        }
        ReplyStream {
            response,
            idle: self.config.idle_timeout,
            request_id,
            sink,
        }
        .read()
        .await
    }

    async fn refused(
        &self,
        mut response: reqwest::Response,
        request_id: Option<String>,
    ) -> AttemptFailure {
        let status = response.status().as_u16();
        let hints = RetryHints::read(|name| header(response.headers(), name), SystemTime::now());
        let mut body = Vec::new();
        // An error body that stalls or breaks is as good as its beginning.
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() > ERROR_BODY_BYTES {
                    break;
                }
            }
        };
        let read = tokio::time::timeout(self.config.connect_timeout, read).await;
        let mut problem = ApiProblem::from_bytes(&body);
        if read.is_err() && body.is_empty() {
            "no message in time".clone_into(&mut problem.message);
        }
        problem.message = self.redact(problem.message);
        problem.request_id = request_id.or(problem.request_id);
        AttemptFailure::Status {
            status,
            problem,
            hints,
        }
    }

    /// Some gateways repeat the key they were given.
    fn redact(&self, message: String) -> String {
        let (Credential::ApiKey(secret) | Credential::Bearer(secret)) = &self.config.credential;
        let secret = secret.expose_secret();
        if secret.is_empty() {
            message
        } else {
            message.replace(secret, "[key]")
        }
    }
}

impl Provider for AnthropicProvider {
    fn complete<'a>(
        &'a self,
        request: Request<'a>,
        sink: &'a dyn ReplySink,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        let markers = if self.endpoint.is_official() {
            CacheMarkers::Automatic
        } else {
            CacheMarkers::Frozen
        };
        let body = body::body(request, markers);
        Box::pin(self.run(body, sink))
    }
}

/// Every header of a request: exactly one credential.
fn headers(credential: &Credential) -> Result<HeaderMap, ProviderError> {
    let (name, secret) = match credential {
        Credential::ApiKey(secret) => ("x-api-key", secret.expose_secret().to_owned()),
        Credential::Bearer(secret) => (
            "authorization",
            format!("Bearer {}", secret.expose_secret()),
        ),
    };
    let mut value = HeaderValue::from_str(&secret).map_err(|_invalid| ProviderError::Setup {
        detail: "the API key has a character that no header can carry; check it for line breaks"
            .to_owned(),
    })?;
    value.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(name, value);
    headers.insert("anthropic-version", HeaderValue::from_static(API_VERSION));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    Ok(headers)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The innermost cause: the outer ones only repeat the URL.
fn transport_detail(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// A random number. The standard hasher's seed is random enough for jitter.
fn dice() -> u32 {
    u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default()
}
