//! Tool definitions, the model's calls, and what came of them. Must not run anything.

use serde_json::Value;

/// A tool as the model sees it. Frozen for a session: its bytes are part of the cached prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    /// Name, matching `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// The model's menu entry.
    pub description: String,
    /// JSON Schema of the input; key order is kept as given.
    pub input_schema: Value,
}

/// One call the model made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id for the call, unique in the session; the only key that pairs call and result.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Input, always a JSON object; `{}` for a call whose JSON was broken, which is shown but never runs.
    pub input: Value,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStatus {
    /// The tool did its work. A command's non-zero exit code is still `Done`.
    Done,
    /// The tool failed, was refused or blocked: the model sees `is_error`.
    Failed,
    /// The person interrupted it; `text` holds what it had printed until then.
    Interrupted,
}

/// What came of a call: the text for the model, and a few facts for people and machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// How it ended.
    pub status: ToolStatus,
    /// What the model reads. Empty text becomes `(no output)`.
    pub text: String,
    /// Exit code, when a command ran and exited by itself.
    pub exit_code: Option<i32>,
    /// Whether `text` leaves some of the output out.
    pub truncated: bool,
    /// Bytes the tool wrote, before any truncation.
    pub output_bytes: u64,
}

impl ToolOutcome {
    /// An outcome that is only text: no command ran.
    #[must_use]
    pub fn of_text(status: ToolStatus, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            exit_code: None,
            truncated: false,
            output_bytes: 0,
        }
    }

    /// A failure with its reason as the model reads it.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self::of_text(ToolStatus::Failed, text)
    }

    /// Whether the model is told that this is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self.status {
            ToolStatus::Done => false,
            ToolStatus::Failed | ToolStatus::Interrupted => true,
        }
    }
}
