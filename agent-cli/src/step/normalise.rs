//! A reply's blocks made fit to be stored and replayed: nothing blank, nothing unsigned, ids unique, names
//! and inputs of the form the API takes back. Everything else stays byte for byte.

use serde_json::{Map, Value};

use super::state::State;
use crate::model::{BlockFault, ReplyBlock, ToolCall, block_field, block_text, block_type};

/// A call as it was asked for, and what was wrong with it.
#[derive(Debug)]
pub(super) struct AskedCall {
    pub(super) call: ToolCall,
    pub(super) fault: Option<BlockFault>,
}

/// The blocks to store, and the calls among them in order.
pub(super) fn normalise(
    state: &mut State,
    blocks: Vec<ReplyBlock>,
) -> (Vec<Value>, Vec<AskedCall>) {
    let mut stored = Vec::new();
    let mut calls = Vec::new();
    for ReplyBlock { mut value, fault } in blocks {
        let keep = match block_type(&value) {
            // A result can only be ours.
            "" | "tool_result" => false,
            "text" => block_text(&value).is_some_and(|text| !text.trim().is_empty()),
            "thinking" => block_field(&value, "signature").is_some_and(|it| !it.is_empty()),
            _ => true,
        };
        if !keep {
            continue;
        }
        let is_call = block_type(&value) == "tool_use";
        if is_call && let Some(fields) = value.as_object_mut() {
            calls.push(normalise_call(state, fields, fault));
        }
        stored.push(value);
    }
    (stored, calls)
}

fn normalise_call(
    state: &mut State,
    fields: &mut Map<String, Value>,
    fault: Option<BlockFault>,
) -> AskedCall {
    let string = |key: &str| {
        fields
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (asked_id, name) = (string("id"), string("name"));
    let id = state.history.claim_id(&asked_id);
    if id != asked_id {
        fields.insert("id".to_owned(), Value::String(id.clone()));
    }
    let stored_name = storable_name(&name);
    if stored_name != name {
        fields.insert("name".to_owned(), Value::String(stored_name));
    }
    let asked_input = fields
        .get("input")
        .filter(|input| input.is_object())
        .cloned();
    let fault = match asked_input {
        Some(_) => fault,
        None => Some(fault.unwrap_or(BlockFault::InputNotObject)),
    };
    let input = asked_input.unwrap_or_else(|| {
        let empty = Value::Object(Map::new());
        fields.insert("input".to_owned(), empty.clone());
        empty
    });
    AskedCall {
        call: ToolCall { id, name, input },
        fault,
    }
}

/// A name that the API takes back: `[a-zA-Z0-9_-]{1,64}`.
fn storable_name(name: &str) -> String {
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().take(64).map(fit).collect();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}
