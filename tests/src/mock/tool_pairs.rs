//! Pairing of calls and results: each call has exactly one result, at the front of the next message.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rules::{ApiError, invalid};

/// Refuses a history whose calls and results do not pair up.
pub(super) fn check(messages: &[Value], tools: Option<&Value>) -> Result<(), ApiError> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages.{index}");
        if message["role"] == "user" {
            answer(blocks(message), &open, &at)?;
            open.clear();
            continue;
        }
        open = ids(blocks(message), "tool_use", "id");
        for id in &open {
            if !seen.insert((*id).to_owned()) {
                return Err(invalid(format!("{at}: tool_use ids must be unique: {id}")));
            }
        }
    }
    if !seen.is_empty() && tools.is_none() {
        return Err(invalid("requests with tool_use blocks must define tools"));
    }
    Ok(())
}

fn answer(blocks: &[Value], open: &[&str], at: &str) -> Result<(), ApiError> {
    let results = ids(blocks, "tool_result", "tool_use_id");
    for (position, id) in results.iter().enumerate() {
        if !open.contains(id) {
            let text = format!("{at}: unexpected tool_use_id in tool_result: {id}");
            return Err(invalid(text));
        }
        if results.iter().take(position).any(|earlier| earlier == id) {
            return Err(invalid(format!("{at}: more than one tool_result for {id}")));
        }
    }
    if let Some(id) = open.iter().find(|id| !results.contains(id)) {
        let text = format!("{at}: tool_use without tool_result immediately after: {id}");
        return Err(invalid(text));
    }
    let front = blocks.iter().take(results.len());
    if front
        .into_iter()
        .any(|block| block["type"] != "tool_result")
    {
        return Err(invalid(format!("{at}: tool_result blocks must come first")));
    }
    Ok(())
}

/// Whether the results of every message stand in the order of the calls. The service does not demand
/// it; this project does.
pub fn results_in_call_order(body: &Value) -> bool {
    let Some(messages) = body["messages"].as_array() else {
        return false;
    };
    messages.windows(2).all(|pair| match pair {
        [calls, results] if calls["role"] == "assistant" => {
            ids(blocks(calls), "tool_use", "id")
                == ids(blocks(results), "tool_result", "tool_use_id")
        }
        _ => true,
    })
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn ids<'a>(blocks: &'a [Value], kind: &str, key: &str) -> Vec<&'a str> {
    blocks
        .iter()
        .filter(|block| block["type"] == kind)
        .map(|block| block[key].as_str().unwrap_or_default())
        .collect()
}
