//! One message of the conversation with its bytes. A message is serialised once, when it is made; every
//! request reuses those bytes, so a later request can only extend an earlier one. There is no way to
//! change a message.

use serde_json::Value;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person, and tool results.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The role's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message: role, content blocks, and the JSON bytes that stand for it in every request.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    role: Role,
    content: Vec<Value>,
    json: String,
}

impl Message {
    /// Makes a message and serialises it. Does not judge the content; `history::check` does.
    #[must_use]
    pub fn new(role: Role, content: Vec<Value>) -> Self {
        let blocks: Vec<String> = content.iter().map(Value::to_string).collect();
        let role_name = role.as_str();
        let json = format!(
            r#"{{"role":"{role_name}","content":[{}]}}"#,
            blocks.join(",")
        );
        Self {
            role,
            content,
            json,
        }
    }

    /// Who speaks.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The content blocks, in order, as the Messages API shapes them.
    #[must_use]
    pub fn content(&self) -> &[Value] {
        &self.content
    }

    /// The message's JSON, byte for byte what every request carries.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The texts of all text blocks, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter(|block| block_type(block) == "text")
            .filter_map(block_text)
            .collect()
    }
}

/// A block's `type`; empty when it has none.
#[must_use]
pub(crate) fn block_type(block: &Value) -> &str {
    block
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A block's `text`, if it has one.
#[must_use]
pub(crate) fn block_text(block: &Value) -> Option<&str> {
    block.get("text").and_then(Value::as_str)
}

/// A string field of a block.
#[must_use]
pub(crate) fn block_field<'a>(block: &'a Value, field: &str) -> Option<&'a str> {
    block.get(field).and_then(Value::as_str)
}

/// A text block. Fields in the order the API documents.
#[must_use]
pub fn text_block(text: &str) -> Value {
    object([("type", "text".into()), ("text", text.into())])
}

/// A tool result block; `is_error` is written only when it is true, so that bytes stay minimal and stable.
#[must_use]
pub fn tool_result_block(id: &str, outcome: &super::ToolOutcome) -> Value {
    let text = if outcome.text.trim().is_empty() {
        NO_OUTPUT
    } else {
        &outcome.text
    };
    let mut block = object([
        ("type", "tool_result".into()),
        ("tool_use_id", id.into()),
        ("content", text.into()),
    ]);
    if let (true, Some(fields)) = (outcome.is_error(), block.as_object_mut()) {
        fields.insert("is_error".to_owned(), Value::Bool(true));
    }
    block
}

/// What stands for empty output: models misread an empty string as a failure of the harness.
const NO_OUTPUT: &str = "(no output)";

/// A JSON object with its keys in the given order.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(
        fields
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}
