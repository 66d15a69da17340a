//! Puts the events of one stream together to a reply. Unknown events, deltas and block kinds are kept or
//! ignored, never fatal. Must not do IO; what a person may see at once is returned as a [`Delta`].

use serde_json::{Map, Value};

use super::sse::SseEvent;
use super::wire::{ApiProblem, merge_usage, stop_reason};
use crate::model::{
    BlockFault, Reply, ReplyBlock, StopReason, Usage, block_field, block_text, block_type,
};
use crate::provider::surrogate::replace_lone_surrogates;

/// Something to show at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delta {
    /// A piece of the answer.
    Text(String),
    /// A piece of the thinking.
    Thinking(String),
}

/// Why a stream gives no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamProblem {
    /// The server said so, under HTTP 200.
    Api(ApiProblem),
    /// It ended early or made no sense.
    Broken(String),
}

/// A reply in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    blocks: Vec<OpenBlock>,
    stop_reason: Option<StopReason>,
    usage: Usage,
    complete: bool,
}

#[derive(Debug)]
struct OpenBlock {
    index: u64,
    fields: Map<String, Value>,
    /// Concatenated `input_json_delta`s.
    input_json: String,
}

impl Assembler {
    /// Takes one event.
    pub(super) fn take(&mut self, event: &SseEvent) -> Result<Option<Delta>, StreamProblem> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(None);
        }
        let json = replace_lone_surrogates(&event.data);
        let data: Value = serde_json::from_str(&json)
            .map_err(|error| StreamProblem::Broken(format!("an event is not JSON ({error})")))?;
        // The type inside counts: some gateways leave the event's name out.
        let kind = match block_type(&data) {
            "" => event.name.as_str(),
            kind => kind,
        };
        match kind {
            "message_start" => {
                merge_usage(&mut self.usage, data.pointer("/message/usage"));
                Ok(None)
            }
            "content_block_start" => Ok(self.start(&data)),
            "content_block_delta" => Ok(self.delta(&data)),
            "message_delta" => {
                merge_usage(&mut self.usage, data.get("usage"));
                if let Some(delta) = data.get("delta") {
                    self.stop_reason = stop_reason(delta).or_else(|| self.stop_reason.take());
                }
                Ok(None)
            }
            "message_stop" => {
                self.complete = true;
                Ok(None)
            }
            "error" => Err(StreamProblem::Api(ApiProblem::from_body(&data))),
            _ => Ok(None),
        }
    }

    /// Whether the reply has come to its end; what follows is of no interest.
    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// The reply, if the stream was complete.
    pub(super) fn finish(self) -> Result<Reply, StreamProblem> {
        if !self.complete {
            let text = "the stream ended before the reply was complete";
            return Err(StreamProblem::Broken(text.to_owned()));
        }
        Ok(Reply {
            blocks: self.blocks.into_iter().map(OpenBlock::close).collect(),
            stop_reason: self
                .stop_reason
                .unwrap_or_else(|| StopReason::Unknown(String::new())),
            usage: self.usage,
        })
    }

    fn start(&mut self, data: &Value) -> Option<Delta> {
        let fields = data
            .get("content_block")
            .and_then(Value::as_object)
            .cloned()?;
        let block = Value::Object(fields.clone());
        self.blocks.push(OpenBlock {
            index: index(data),
            fields,
            input_json: String::new(),
        });
        match (
            block_type(&block),
            block_text(&block),
            block_field(&block, "thinking"),
        ) {
            ("text", Some(text), _) if !text.is_empty() => Some(Delta::Text(text.to_owned())),
            ("thinking", _, Some(text)) if !text.is_empty() => {
                Some(Delta::Thinking(text.to_owned()))
            }
            _ => None,
        }
    }

    fn delta(&mut self, data: &Value) -> Option<Delta> {
        let delta = data.get("delta").and_then(Value::as_object)?;
        let kind = delta
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let string = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        let block = self.block_at(index(data), kind)?;
        match kind {
            "input_json_delta" => {
                block.input_json.push_str(string("partial_json"));
                None
            }
            "citations_delta" => {
                let citation = delta.get("citation")?.clone();
                block.push_citation(citation);
                None
            }
            _ => {
                block.extend(delta);
                match kind {
                    "text_delta" => Some(Delta::Text(string("text").to_owned())),
                    "thinking_delta" => Some(Delta::Thinking(string("thinking").to_owned())),
                    _ => None,
                }
            }
        }
    }

    /// The newest block with this index (indices may repeat). A text delta without a start opens one.
    fn block_at(&mut self, index: u64, delta_kind: &str) -> Option<&mut OpenBlock> {
        let known = self.blocks.iter().any(|block| block.index == index);
        let opens = match delta_kind {
            "text_delta" => Some("text"),
            "thinking_delta" => Some("thinking"),
            _ => None,
        };
        if let (false, Some(kind)) = (known, opens) {
            let mut fields = Map::new();
            fields.insert("type".to_owned(), Value::String(kind.to_owned()));
            self.blocks.push(OpenBlock {
                index,
                fields,
                input_json: String::new(),
            });
        }
        self.blocks
            .iter_mut()
            .rev()
            .find(|block| block.index == index)
    }
}

impl OpenBlock {
    /// Strings grow, anything else is set. Serves the deltas that we know and those that we do not.
    fn extend(&mut self, delta: &Map<String, Value>) {
        for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
            match (self.fields.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                _ => {
                    self.fields.insert(key.clone(), value.clone());
                }
            }
        }
    }

    fn push_citation(&mut self, citation: Value) {
        match self.fields.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation),
            Some(_) | None => {
                self.fields
                    .insert("citations".to_owned(), Value::Array(vec![citation]));
            }
        }
    }

    fn close(mut self) -> ReplyBlock {
        let mut fault = None;
        let kind = self
            .fields
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let whole_in_start = self.fields.get("input").is_some_and(Value::is_object);
        let input = if !self.input_json.trim().is_empty() {
            match serde_json::from_str(&replace_lone_surrogates(&self.input_json)) {
                Ok(input @ Value::Object(_)) => Some(input),
                Ok(_) => {
                    fault = Some(BlockFault::InputNotObject);
                    Some(Value::Object(Map::new()))
                }
                Err(error) => {
                    fault = Some(BlockFault::InputNotJson(error.to_string()));
                    Some(Value::Object(Map::new()))
                }
            }
        } else if kind == "tool_use" && !whole_in_start {
            Some(Value::Object(Map::new()))
        } else {
            None
        };
        if let Some(input) = input {
            self.fields.insert("input".to_owned(), input);
        }
        ReplyBlock {
            value: Value::Object(self.fields),
            fault,
        }
    }
}

fn index(data: &Value) -> u64 {
    data.get("index")
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
