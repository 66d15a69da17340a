//! A model's complete reply and the table of reasons why it stopped. Must not decide what to do about it:
//! that is `step`.

use serde_json::Value;

use super::Usage;
use super::message::{block_text, block_type};

/// A complete reply. An interrupted or broken stream never becomes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Content blocks in order, unknown kinds included.
    pub blocks: Vec<ReplyBlock>,
    /// Why the model stopped. Only classifies endings: whether tools run depends on the blocks.
    pub stop_reason: StopReason,
    /// Tokens of this call.
    pub usage: Usage,
}

impl Reply {
    /// The texts of all text blocks, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        self.blocks
            .iter()
            .map(|block| &block.value)
            .filter(|value| block_type(value) == "text")
            .filter_map(block_text)
            .collect()
    }
}

/// One block of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyBlock {
    /// The block as it will be replayed. A call whose input was broken has `{}` as its input here.
    pub value: Value,
    /// What was wrong with it, if anything. A faulty call is answered, never run.
    pub fault: Option<BlockFault>,
}

impl From<Value> for ReplyBlock {
    fn from(value: Value) -> Self {
        Self { value, fault: None }
    }
}

/// Why a block cannot be taken at face value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockFault {
    /// The input of a call is not JSON; holds the parser's words.
    InputNotJson(String),
    /// The input of a call is JSON but not an object.
    InputNotObject,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It met a stop sequence; the same as being done.
    StopSequence,
    /// It wants tools run.
    ToolUse,
    /// It hit the output limit: the last block may be cut off.
    MaxTokens,
    /// The server paused a long turn; the content goes back as it is.
    PauseTurn,
    /// It declined; holds the category when the API names one.
    Refusal(Option<String>),
    /// The context window is full: the last block may be cut off.
    ContextWindowExceeded,
    /// A reason we do not know; empty when none was given.
    Unknown(String),
}

impl StopReason {
    /// Reads the wire's name. `sensitive` is what some gateways say for a refusal.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "end_turn" => Self::EndTurn,
            "stop_sequence" => Self::StopSequence,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal(None),
            "sensitive" => Self::Refusal(Some("sensitive".to_owned())),
            "model_context_window_exceeded" => Self::ContextWindowExceeded,
            other => Self::Unknown(other.to_owned()),
        }
    }
}
