//! The provider against a real socket.

mod server;

use std::sync::Mutex;

use serde_json::json;
use server::{Part, Server, http, stream};

use super::*;
use crate::agent::ports::Preamble;
use crate::model::{Message, Role, StopReason, text_block};
use crate::provider::ErrorClass;

#[derive(Default)]
struct Shown {
    text: Mutex<String>,
    retries: Mutex<Vec<RetryNotice>>,
}

impl ReplySink for Shown {
    fn text_delta(&self, text: &str) {
        self.text.lock().unwrap().push_str(text);
    }
    fn thinking_delta(&self, _text: &str) {}
    fn retry(&self, notice: &RetryNotice) {
        self.retries.lock().unwrap().push(notice.clone());
    }
}

fn config(base_url: &str) -> AnthropicConfig {
    let credential = Credential::ApiKey(SecretString::from("sk-secret"));
    let mut config = AnthropicConfig::new(Some(base_url.to_owned()), credential);
    config.retry.base = Duration::from_millis(1);
    config
}

async fn ask(config: AnthropicConfig) -> (Result<Reply, ProviderError>, Shown) {
    let provider = AnthropicProvider::new(config).unwrap();
    let preamble = Preamble {
        model: "m".into(),
        system: "s".into(),
        tools: Vec::new(),
        max_tokens: 8,
    };
    let messages = [Message::new(Role::User, vec![text_block("hi 那")])];
    let shown = Shown::default();
    let result = provider
        .complete(
            Request {
                preamble: &preamble,
                messages: &messages,
            },
            &shown,
        )
        .await;
    (result, shown)
}

fn events(datas: &[serde_json::Value], line_end: &str) -> String {
    let event = |data: &serde_json::Value| {
        format!(
            "event: {}{line_end}data: {data}{line_end}{line_end}",
            data["type"].as_str().unwrap()
        )
    };
    datas.iter().map(event).collect()
}

fn text_events(text: &str) -> String {
    events(
        &[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
        ],
        "\n",
    )
}

fn end_events() -> String {
    events(
        &[
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ],
        "\r\n",
    )
}

#[tokio::test]
async fn a_reply_arrives_byte_by_byte_and_the_request_is_as_documented() {
    let server = Server::start(vec![stream(&(text_events("那😀") + &end_events()), 1)]).await;
    let (result, shown) = ask(config(&format!("{}/v1/", server.base_url))).await;
    let reply = result.unwrap();
    assert_eq!(
        (reply.text().as_str(), reply.stop_reason),
        ("那😀", StopReason::EndTurn)
    );
    assert_eq!((reply.usage.input, reply.usage.output), (3, 2));
    assert_eq!(*shown.text.lock().unwrap(), "那😀");

    let request = &server.requests()[0];
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    for line in [
        "x-api-key: sk-secret",
        "anthropic-version: 2023-06-01",
        "content-type: application/json",
    ] {
        assert_eq!(
            head.lines().filter(|it| *it == line).count(),
            1,
            "{line}\n{head}"
        );
    }
    assert!(!head.contains("authorization"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&body["stream"], &body["max_tokens"], &body["model"]),
        (&json!(true), &json!(8), &json!("m"))
    );
    assert!(body.get("temperature").is_none());
}

#[tokio::test]
async fn a_bearer_credential_is_the_only_one_that_is_sent() {
    let server = Server::start(vec![stream(&(text_events("x") + &end_events()), 4096)]).await;
    let credential = Credential::Bearer(SecretString::from("tok"));
    ask(AnthropicConfig {
        credential,
        ..config(&server.base_url)
    })
    .await
    .0
    .unwrap();
    let head = server.requests()[0].to_lowercase();
    assert!(
        head.contains("\r\nauthorization: bearer tok\r\n") && !head.contains("x-api-key"),
        "{head}"
    );
}

#[tokio::test]
async fn passing_failures_are_tried_again_and_reported() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let server = Server::start(vec![
        http(529, "", overloaded),
        http(429, "retry-after-ms: 2\r\n", "{}"),
        stream(&(text_events("x") + &end_events()), 4096),
    ])
    .await;
    let (result, shown) = ask(config(&server.base_url)).await;
    assert_eq!(result.unwrap().text(), "x");
    let retries = shown.retries.lock().unwrap();
    assert_eq!(
        retries
            .iter()
            .map(|it| (it.attempt, it.attempts))
            .collect::<Vec<_>>(),
        [(1, 3), (2, 3)]
    );
    assert_eq!(retries[0].reason, "529 Overloaded");
    assert!(retries[1].wait >= Duration::from_millis(2));
    let requests = server.requests();
    assert_eq!(
        requests[0], requests[2],
        "a retry must not change the request"
    );
}

#[tokio::test]
async fn attempts_end_and_the_error_names_status_request_id_and_remedy() {
    let body = r#"{"type":"error","error":{"type":"x","message":"no, sk-secret is wrong"},"request_id":"req_b"}"#;
    let cases = [
        (500, "", 3, ErrorClass::Unavailable, "try again later"),
        (401, "request-id: req_h\r\n", 1, ErrorClass::Auth, "req_h"),
        (404, "", 1, ErrorClass::Rejected, "MODEL_ID"),
        (
            429,
            "retry-after: 11180\r\n",
            1,
            ErrorClass::RateLimited,
            "11180 s",
        ),
        (
            500,
            "x-should-retry: false\r\n",
            1,
            ErrorClass::Unavailable,
            "req_b",
        ),
        (
            307,
            "location: http://127.0.0.1:1/\r\n",
            1,
            ErrorClass::Rejected,
            "redirects",
        ),
    ];
    for (status, headers, attempts, class, contains) in cases {
        let server = Server::start(vec![http(status, headers, body)]).await;
        let error = ask(config(&server.base_url)).await.0.unwrap_err();
        assert_eq!(server.requests().len(), attempts, "{status}");
        assert_eq!(error.class(), class, "{status}");
        let text = error.to_string();
        assert!(
            text.contains(contains) && text.contains("no, [key] is wrong"),
            "{text}"
        );
        assert!(!format!("{error:?}{text}").contains("sk-secret"), "{text}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_any_text_is_tried_again() {
    let server = Server::start(vec![
        stream("event: ping\ndata: {\"type\":\"ping\"}\n\n", 4096),
        stream(&(text_events("x") + &end_events()), 4096),
    ])
    .await;
    let (result, shown) = ask(config(&server.base_url)).await;
    assert_eq!(result.unwrap().text(), "x");
    assert_eq!(shown.retries.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_after_text_is_a_failure_and_never_repeated() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let error_event = format!("event: error\ndata: {error}\n\n");
    for (tail, class) in [
        ("", ErrorClass::Broken),
        (error_event.as_str(), ErrorClass::Unavailable),
    ] {
        let server = Server::start(vec![stream(&(text_events("half") + tail), 4096)]).await;
        let (result, shown) = ask(config(&server.base_url)).await;
        let error = result.unwrap_err();
        assert_eq!(error.class(), class);
        assert!(error.to_string().contains("req_9"), "{error}");
        assert_eq!(*shown.text.lock().unwrap(), "half");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn the_watchdog_counts_any_byte_and_ends_silence() {
    let mut parts = stream(&text_events("x"), 4096);
    parts.push(Part::Hold);
    let server = Server::start(vec![parts]).await;
    let mut config = config(&server.base_url);
    config.idle_timeout = Duration::from_millis(200);
    let error = ask(config).await.0.unwrap_err();
    assert!(error.to_string().contains("sent nothing"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_gateway_that_does_not_stream_is_understood() {
    let whole = r#" {"type":"message","content":[{"type":"text","text":"whole \ud83d"}],"stop_reason":"end_turn","usage":{"input_tokens":4}}"#;
    let server = Server::start(vec![http(200, "", whole)]).await;
    let (result, shown) = ask(config(&server.base_url)).await;
    let reply = result.unwrap();
    assert_eq!(
        (reply.text().as_str(), reply.usage.input),
        ("whole \u{fffd}", 4)
    );
    assert_eq!(*shown.text.lock().unwrap(), "whole \u{fffd}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn nobody_listening_is_said_with_the_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (result, shown) = ask(config(&url)).await;
    let error = result.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unreachable);
    assert!(error.to_string().contains(&url), "{error}");
    assert_eq!(shown.retries.lock().unwrap().len(), 2);
}

#[test]
fn a_credential_is_never_printed_and_a_broken_one_is_explained() {
    let config = config("http://127.0.0.1:1");
    let provider = AnthropicProvider::new(config.clone()).unwrap();
    assert!(!format!("{config:?} {provider:?}").contains("sk-secret"));
    let credential = Credential::ApiKey(SecretString::from("sk-sec\nret"));
    let error = AnthropicProvider::new(AnthropicConfig {
        credential,
        ..config
    })
    .unwrap_err();
    assert!(
        error.to_string().contains("line breaks") && !error.to_string().contains("sk-sec"),
        "{error}"
    );
}

#[test]
fn an_https_endpoint_can_be_set_up() {
    let mut config = config("http://unused");
    config.base_url = None;
    // Hosts without CA certificates get the remedy, all others a client.
    if let Err(error) = AnthropicProvider::new(config) {
        assert!(error.to_string().contains("ca-certificates"), "{error}");
    }
}
