//! What the service refuses, as pure functions over a request. Pairing of calls and results is in
//! `tool_pairs`. Messages imitate the service's wording only loosely; clients must not match on them.

use serde_json::{Map, Value};

use super::{http::Request, tool_pairs};

/// A refusal with the service's status and error type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// `error.type` of the envelope.
    pub kind: &'static str,
    /// `error.message` of the envelope.
    pub message: String,
}

const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];
const MAX_CACHE_MARKERS: usize = 4;

const TOP_LEVEL: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "metadata",
    "stop_sequences",
    "thinking",
    "cache_control",
];
const SAMPLING: &[&str] = &["temperature", "top_p", "top_k"];

/// Credentials, version and content type.
pub fn check_headers(request: &Request, key: &str) -> Result<(), ApiError> {
    let keys = request.header("x-api-key");
    let bearers = request.header("authorization");
    let good = match (keys.as_slice(), bearers.as_slice()) {
        ([one], []) => *one == key,
        ([], [one]) => one.strip_prefix("Bearer ") == Some(key),
        ([], []) => return Err(unauthorized("no credential header")),
        _ => return Err(unauthorized("more than one credential header")),
    };
    if !good {
        return Err(unauthorized("invalid x-api-key"));
    }
    match request.header("anthropic-version").as_slice() {
        [one] if VERSIONS.contains(one) => {}
        other => return Err(invalid(format!("anthropic-version: {other:?}"))),
    }
    match request.header("content-type").as_slice() {
        [one] if one.starts_with("application/json") => Ok(()),
        other => Err(invalid(format!("content-type: {other:?}"))),
    }
}

/// The body of a `POST /v1/messages`. `serde_json` already refuses lone surrogates and invalid UTF-8,
/// as the service does.
pub fn check_body(body: &[u8]) -> Result<Value, ApiError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("The request body is not valid JSON: {error}")))?;
    let top = object(&value, "body")?;
    for key in top.keys() {
        if SAMPLING.contains(&key.as_str()) {
            return Err(invalid(format!("{key}: not supported by this model")));
        }
    }
    only_keys(top, TOP_LEVEL, "body")?;
    nonempty_string(top.get("model"), "model")?;
    match top.get("max_tokens").and_then(Value::as_u64) {
        Some(1..) => {}
        _ => return Err(invalid("max_tokens: a positive integer is required")),
    }
    if top.get("stream").is_some_and(|stream| !stream.is_boolean()) {
        return Err(invalid("stream: a boolean is required"));
    }
    check_system(top.get("system"))?;
    check_tools(top.get("tools"))?;
    let messages = array(top.get("messages"), "messages")?;
    check_messages(messages)?;
    tool_pairs::check(messages, top.get("tools"))?;
    check_markers(&value)?;
    Ok(value)
}

fn check_system(system: Option<&Value>) -> Result<(), ApiError> {
    match system {
        None => Ok(()),
        Some(Value::String(text)) => visible(text, "system"),
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                text_block(block, &format!("system.{index}"))?;
            }
            Ok(())
        }
        Some(_) => Err(invalid("system: a string or a list of text blocks")),
    }
}

fn check_tools(tools: Option<&Value>) -> Result<(), ApiError> {
    let Some(tools) = tools else { return Ok(()) };
    let mut names = Vec::new();
    for (index, tool) in array(Some(tools), "tools")?.iter().enumerate() {
        let at = format!("tools.{index}");
        let tool = object(tool, &at)?;
        only_keys(
            tool,
            &[
                "type",
                "name",
                "description",
                "input_schema",
                "cache_control",
                "strict",
            ],
            &at,
        )?;
        let name = tool_name(tool.get("name"), &at)?;
        if names.contains(&name) {
            return Err(invalid(format!("{at}: tool names must be unique")));
        }
        names.push(name);
        if tool.get("input_schema").map(|schema| &schema["type"]) != Some(&Value::from("object")) {
            return Err(invalid(format!("{at}.input_schema.type: must be object")));
        }
    }
    Ok(())
}

fn check_messages(messages: &[Value]) -> Result<(), ApiError> {
    if messages.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages.{index}");
        let message = object(message, &at)?;
        only_keys(message, &["role", "content"], &at)?;
        let expected = if index % 2 == 0 { "user" } else { "assistant" };
        if message.get("role").and_then(Value::as_str) != Some(expected) {
            return Err(invalid(format!("{at}: expected role {expected}")));
        }
        match message.get("content") {
            Some(Value::String(text)) => visible(text, &at)?,
            Some(Value::Array(blocks)) if !blocks.is_empty() => {
                for (number, block) in blocks.iter().enumerate() {
                    check_block(block, expected, &format!("{at}.content.{number}"))?;
                }
            }
            _ => return Err(invalid(format!("{at}: content must not be empty"))),
        }
    }
    if messages.len().is_multiple_of(2) {
        return Err(invalid("the conversation must end with a user message"));
    }
    Ok(())
}

fn check_block(block: &Value, role: &str, at: &str) -> Result<(), ApiError> {
    let map = object(block, at)?;
    match (role, block["type"].as_str().unwrap_or_default()) {
        (_, "text") => text_block(block, at),
        ("user", "image" | "document" | "search_result") => Ok(()),
        ("user", "tool_result") => tool_result(map, at),
        ("assistant", "tool_use") => tool_call(map, at),
        ("assistant", "thinking") => {
            only_keys(map, &["type", "thinking", "signature"], at)?;
            nonempty_string(map.get("signature"), &format!("{at}.signature"))
        }
        ("assistant", "redacted_thinking") => {
            only_keys(map, &["type", "data"], at)?;
            nonempty_string(map.get("data"), &format!("{at}.data"))
        }
        (_, other) => Err(invalid(format!(
            "{at}: block '{other}' in a {role} message"
        ))),
    }
}

fn tool_call(map: &Map<String, Value>, at: &str) -> Result<(), ApiError> {
    only_keys(
        map,
        &["type", "id", "name", "input", "cache_control", "caller"],
        at,
    )?;
    word(map.get("id"), usize::MAX, &format!("{at}.id"))?;
    tool_name(map.get("name"), at)?;
    object(
        map.get("input").unwrap_or(&Value::Null),
        &format!("{at}.input"),
    )
    .map(drop)
}

fn tool_result(map: &Map<String, Value>, at: &str) -> Result<(), ApiError> {
    let keys = [
        "type",
        "tool_use_id",
        "content",
        "is_error",
        "cache_control",
    ];
    only_keys(map, &keys, at)?;
    word(
        map.get("tool_use_id"),
        usize::MAX,
        &format!("{at}.tool_use_id"),
    )?;
    if map.get("is_error").is_some_and(|flag| !flag.is_boolean()) {
        return Err(invalid(format!("{at}.is_error: a boolean is required")));
    }
    match map.get("content") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let at = format!("{at}.content.{index}");
                match block["type"].as_str().unwrap_or_default() {
                    "text" => text_block(block, &at)?,
                    "image" | "document" | "search_result" => {}
                    other => return Err(invalid(format!("{at}: block '{other}' in a result"))),
                }
            }
            Ok(())
        }
        Some(_) => Err(invalid(format!(
            "{at}.content: a string or a list of blocks"
        ))),
    }
}

fn text_block(block: &Value, at: &str) -> Result<(), ApiError> {
    let map = object(block, at)?;
    only_keys(map, &["type", "text", "cache_control", "citations"], at)?;
    if block["type"] != "text" {
        return Err(invalid(format!("{at}: expected a text block")));
    }
    match map.get("text") {
        Some(Value::String(text)) => visible(text, at),
        _ => Err(invalid(format!("{at}.text: a string is required"))),
    }
}

/// At most four markers, each well-formed. (Empty texts are refused everywhere, so none can sit there.)
fn check_markers(body: &Value) -> Result<(), ApiError> {
    let mut found = Vec::new();
    collect_markers(body, &mut found);
    for marker in &found {
        let ttl_known = matches!(marker["ttl"].as_str(), None | Some("5m" | "1h"));
        if marker["type"] != "ephemeral" || !ttl_known {
            return Err(invalid(format!("cache_control: {marker}")));
        }
    }
    if found.len() > MAX_CACHE_MARKERS {
        return Err(invalid(format!(
            "{} blocks with cache_control; at most 4",
            found.len()
        )));
    }
    Ok(())
}

fn collect_markers<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                match key.as_str() {
                    "cache_control" => found.push(inner),
                    // Data of the caller, not of the API.
                    "input" | "input_schema" => {}
                    _ => collect_markers(inner, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_markers(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError {
        status: 400,
        kind: "invalid_request_error",
        message: message.into(),
    }
}

fn unauthorized(message: &str) -> ApiError {
    ApiError {
        status: 401,
        kind: "authentication_error",
        message: message.to_owned(),
    }
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, ApiError> {
    value
        .as_object()
        .ok_or_else(|| invalid(format!("{at}: an object is required")))
}

fn array<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a [Value], ApiError> {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .ok_or_else(|| invalid(format!("{at}: a list is required")))
}

fn only_keys(map: &Map<String, Value>, known: &[&str], at: &str) -> Result<(), ApiError> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(invalid(format!(
            "{at}.{key}: Extra inputs are not permitted"
        ))),
    }
}

fn visible(text: &str, at: &str) -> Result<(), ApiError> {
    if text.trim().is_empty() {
        return Err(invalid(format!(
            "{at}: text must contain non-whitespace text"
        )));
    }
    Ok(())
}

fn nonempty_string(value: Option<&Value>, at: &str) -> Result<(), ApiError> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(()),
        _ => Err(invalid(format!("{at}: a non-empty string is required"))),
    }
}

/// `^[a-zA-Z0-9_-]{1,max}$`
fn word(value: Option<&Value>, max: usize, at: &str) -> Result<String, ApiError> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    let fits = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if text.is_empty() || text.len() > max || !fits {
        return Err(invalid(format!(
            "{at}: '{text}' does not match [a-zA-Z0-9_-]"
        )));
    }
    Ok(text.to_owned())
}

fn tool_name(value: Option<&Value>, at: &str) -> Result<String, ApiError> {
    word(value, 128, &format!("{at}.name"))
}
