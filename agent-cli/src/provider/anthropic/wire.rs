//! The small JSON shapes of the API that a stream and a plain body share: errors, usage, stop reasons.

use serde_json::Value;

use crate::model::{Reply, ReplyBlock, StopReason, Usage, block_field};

/// The longest piece of a server's message that is shown.
const MESSAGE_CHARS: usize = 300;

/// What the API says went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiProblem {
    /// `overloaded_error` and the like; empty when the body is of another shape.
    pub(super) kind: String,
    /// One line.
    pub(super) message: String,
    /// `request_id` in the body.
    pub(super) request_id: Option<String>,
}

impl ApiProblem {
    /// Reads `{type:"error", error:{type, message}, request_id}`, and the shapes of gateways near to it.
    pub(super) fn from_body(body: &Value) -> Self {
        let error = body.get("error").unwrap_or(body);
        let message = error.as_str().or_else(|| block_field(error, "message"));
        let message = message.map_or_else(|| one_line(&body.to_string()), one_line);
        let kind = block_field(error, "type").unwrap_or_default().to_owned();
        let request_id = block_field(body, "request_id").map(str::to_owned);
        Self {
            kind,
            message,
            request_id,
        }
    }

    /// Reads a body that may be anything, HTML included.
    pub(super) fn from_bytes(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_body(&value),
            Err(_) => Self {
                kind: String::new(),
                message: one_line(&String::from_utf8_lossy(body)),
                request_id: None,
            },
        }
    }

    /// Whether the same request may succeed a little later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error"
        )
    }
}

/// A server's words as one short line without control characters.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .collect();
    let line = words
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if line.is_empty() {
        return "no message".to_owned();
    }
    match line.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Usage is cumulative, and may come in parts or not at all.
pub(super) fn merge_usage(usage: &mut Usage, reported: Option<&Value>) {
    let Some(reported) = reported else { return };
    let fields = [
        ("input_tokens", &mut usage.input),
        ("output_tokens", &mut usage.output),
        ("cache_creation_input_tokens", &mut usage.cache_creation),
        ("cache_read_input_tokens", &mut usage.cache_read),
    ];
    for (name, field) in fields {
        if let Some(count) = reported
            .get(name)
            .and_then(Value::as_u64)
            .filter(|count| *count > 0)
        {
            *field = count;
        }
    }
}

/// The stop reason of a `message_delta` or of a whole message, with the category of a refusal.
pub(super) fn stop_reason(holder: &Value) -> Option<StopReason> {
    let reason = StopReason::parse(block_field(holder, "stop_reason")?);
    let category = holder
        .pointer("/stop_details/category")
        .and_then(Value::as_str);
    match (&reason, category) {
        (StopReason::Refusal(None), Some(name)) => Some(StopReason::Refusal(Some(name.to_owned()))),
        _ => Some(reason),
    }
}

/// A whole message, as a gateway sends it that does not stream.
pub(super) fn whole_reply(body: &Value) -> Option<Reply> {
    let blocks = body.get("content")?.as_array()?;
    let mut usage = Usage::default();
    merge_usage(&mut usage, body.get("usage"));
    Some(Reply {
        blocks: blocks.iter().cloned().map(ReplyBlock::from).collect(),
        stop_reason: stop_reason(body).unwrap_or_else(|| StopReason::Unknown(String::new())),
        usage,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_of_any_shape_becomes_one_line() {
        let cases: [(&[u8], &str, &str); 7] = [
            (
                br#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
                "not_found_error",
                "model: x",
            ),
            (br#"{"error":{"message":"no","code":1}}"#, "", "no"),
            (br#"{"error":"plain"}"#, "", "plain"),
            (br#"{"message":"m","type":"t"}"#, "t", "m"),
            (br#"{"detail":[1]}"#, "", r#"{"detail":[1]}"#),
            (
                b"<html>\n<b>502</b>\x1b[31m</html>",
                "",
                "<html> <b>502</b> [31m</html>",
            ),
            (b"", "", "no message"),
        ];
        for (body, kind, message) in cases {
            let problem = ApiProblem::from_bytes(body);
            assert_eq!(
                (problem.kind.as_str(), problem.message.as_str()),
                (kind, message)
            );
        }
        let long = ApiProblem::from_bytes("那".repeat(1000).as_bytes());
        assert_eq!(long.message.chars().count(), MESSAGE_CHARS + 1);
    }

    #[test]
    fn usage_parts_are_put_together_and_zeros_do_not_erase() {
        let mut usage = Usage::default();
        merge_usage(
            &mut usage,
            Some(&json!({"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1})),
        );
        merge_usage(
            &mut usage,
            Some(
                &json!({"input_tokens": 0, "output_tokens": 7, "cache_creation_input_tokens": null}),
            ),
        );
        merge_usage(&mut usage, None);
        assert_eq!(
            usage,
            Usage {
                input: 10,
                output: 7,
                cache_creation: 0,
                cache_read: 4
            }
        );
    }

    #[test]
    fn a_refusal_carries_its_category() {
        let delta = json!({"stop_reason": "refusal", "stop_details": {"category": "cyber"}});
        assert_eq!(
            stop_reason(&delta),
            Some(StopReason::Refusal(Some("cyber".to_owned())))
        );
        assert_eq!(stop_reason(&json!({"stop_reason": null})), None);
    }
}
