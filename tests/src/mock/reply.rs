//! What the mock answers: messages, and the ways an answer can go wrong.

use serde_json::{Value, json};

/// One scripted answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A complete message.
    Message(Message),
    /// Something else than a complete message.
    Fault(Fault),
}

/// A complete message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Content blocks as the service would return them.
    pub content: Vec<Value>,
    /// Stop reason.
    pub stop_reason: String,
    /// How the stream is cut into chunks.
    pub framing: Framing,
}

/// How the bytes of an event stream are cut into chunks.
#[derive(Debug, Clone, Copy)]
pub enum Framing {
    /// One chunk per event.
    Events,
    /// Chunks of so many bytes, without regard to events or characters.
    Bytes(usize),
}

/// An answer that is not a complete message.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An HTTP error with the service's error envelope.
    Status {
        /// HTTP status.
        status: u16,
        /// `error.type`.
        kind: &'static str,
        /// Additional headers, such as `retry-after`.
        headers: Vec<(String, String)>,
    },
    /// The stream of this message ends (connection closed) after so many events.
    CutAfter(Message, usize),
    /// An `error` event in mid-stream, after so many events of this message.
    ErrorEventAfter(Message, usize),
    /// The stream of this message stops after so many events, and the connection stays open.
    HangAfter(Message, usize),
}

impl Message {
    /// A message of these blocks that ends with `tool_use` when it holds a call, else with `end_turn`.
    pub fn new(content: Vec<Value>) -> Self {
        let calls = content.iter().any(|block| block["type"] == "tool_use");
        let stop_reason = if calls { "tool_use" } else { "end_turn" };
        Self {
            content,
            stop_reason: stop_reason.to_owned(),
            framing: Framing::Events,
        }
    }

    /// The same message, cut into chunks differently.
    #[must_use]
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// The same message with another stop reason.
    #[must_use]
    pub fn stopping(self, reason: &str) -> Self {
        Self {
            stop_reason: reason.to_owned(),
            ..self
        }
    }

    /// The message as one JSON object.
    pub(super) fn to_json(&self, number: usize) -> Value {
        json!({
            "id": format!("msg_{number:05}"), "type": "message", "role": "assistant",
            "model": "mock-1", "content": self.content, "stop_reason": self.stop_reason,
            "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}
        })
    }

    /// The message as server-sent events.
    pub(super) fn to_events(&self, number: usize) -> Vec<String> {
        let start = json!({"type": "message_start", "message": {
            "id": format!("msg_{number:05}"), "type": "message", "role": "assistant",
            "model": "mock-1", "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 1}
        }});
        let mut events = vec![event(&start), event(&json!({"type": "ping"}))];
        for (index, block) in self.content.iter().enumerate() {
            block_events(index, block, &mut events);
        }
        events.push(event(&json!({
            "type": "message_delta",
            "delta": {"stop_reason": self.stop_reason, "stop_sequence": null},
            "usage": {"output_tokens": 5}
        })));
        events.push(event(&json!({"type": "message_stop"})));
        events
    }
}

/// A text block.
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A call of the tool `bash`.
pub fn tool_use(id: &str, command: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": command}})
}

fn block_events(index: usize, block: &Value, events: &mut Vec<String>) {
    let (empty, deltas) = match block["type"].as_str() {
        Some("text") => (
            json!({"type": "text", "text": ""}),
            pieces(block["text"].as_str().unwrap_or_default())
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect(),
        ),
        Some("tool_use") => (
            json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
            pieces(&block["input"].to_string())
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
        ),
        Some("thinking") => (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                json!({"type": "signature_delta", "signature": block["signature"]}),
            ],
        ),
        _ => (block.clone(), Vec::new()),
    };
    events.push(event(
        &json!({"type": "content_block_start", "index": index, "content_block": empty}),
    ));
    for delta in deltas {
        events.push(event(
            &json!({"type": "content_block_delta", "index": index, "delta": delta}),
        ));
    }
    events.push(event(
        &json!({"type": "content_block_stop", "index": index}),
    ));
}

/// Cuts a text into pieces of 24 characters, as a stream of tokens would arrive.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let cut: Vec<String> = letters.chunks(24).map(|c| c.iter().collect()).collect();
    cut.into_iter()
}

/// One server-sent event.
pub(super) fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}
