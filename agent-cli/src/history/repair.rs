//! Mends a conversation that an interrupt, a crash or a foreign file left against the rules of `check`. Pure.
//! It drops what cannot be sent and answers what was left open; it never invents words for either side
//! except that a call was interrupted.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{is_blank_text, is_signed, is_token};
use crate::model::{
    Message, Role, ToolOutcome, ToolStatus, block_field, block_type, tool_result_block,
};

/// What the model reads for a call whose end nobody saw.
const LOST: &str = "interrupted: this call was not answered; it may have run in part or not at all";

/// Mends a conversation. Afterwards `check` finds nothing, or only that there is no user message to start
/// or to end with: that cannot be mended without inventing one. What is in order keeps its bytes.
#[must_use]
pub fn repair(messages: &[Message]) -> Vec<Message> {
    let mut repairer = Repairer::default();
    for (role, blocks) in merge(messages) {
        match role {
            Role::Assistant => repairer.assistant(blocks),
            Role::User => repairer.user(blocks),
        }
    }
    if !repairer.open.is_empty() {
        repairer.user(Vec::new());
    }
    repairer
        .out
        .into_iter()
        .map(|(role, blocks)| Message::new(role, blocks))
        .collect()
}

type Draft = (Role, Vec<Value>);

/// Cleans each message and joins neighbours of one role.
fn merge(messages: &[Message]) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for message in messages {
        let role = message.role();
        let blocks = message
            .content()
            .iter()
            .filter(|block| may_stay(role, block))
            .cloned();
        append(&mut drafts, role, blocks.collect());
    }
    drafts
}

/// Appends blocks, to the last message when it has the same role; nothing when there are none.
fn append(drafts: &mut Vec<Draft>, role: Role, blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    match drafts.last_mut() {
        Some((last, content)) if *last == role => content.extend(blocks),
        Some(_) | None => drafts.push((role, blocks)),
    }
}

/// Whether a block could be valid where it stands, whatever is around it.
fn may_stay(role: Role, block: &Value) -> bool {
    match (block_type(block), role) {
        ("", _)
        | ("tool_use" | "thinking" | "redacted_thinking", Role::User)
        | ("tool_result", Role::Assistant) => false,
        ("text", _) => !is_blank_text(block),
        ("thinking", Role::Assistant) => is_signed(block),
        ("tool_use", Role::Assistant) => {
            is_token(block_field(block, "id").unwrap_or_default())
                && is_token(block_field(block, "name").unwrap_or_default())
                && block.get("input").is_some_and(Value::is_object)
        }
        _ => true,
    }
}

#[derive(Default)]
struct Repairer {
    out: Vec<Draft>,
    /// Calls of the last message that have no result yet.
    open: Vec<String>,
    seen: HashSet<String>,
}

impl Repairer {
    fn assistant(&mut self, blocks: Vec<Value>) {
        if self.out.is_empty() {
            return;
        }
        let mut kept = Vec::new();
        for mut block in blocks {
            if let Some(fields) = block.as_object_mut() {
                fields.shift_remove("cache_control");
            }
            if block_type(&block) == "tool_use" {
                let id = block_field(&block, "id").unwrap_or_default().to_owned();
                // A second call under the same id could never be told from the first.
                if !self.seen.insert(id.clone()) {
                    continue;
                }
                self.open.push(id);
            }
            kept.push(block);
        }
        append(&mut self.out, Role::Assistant, kept);
    }

    fn user(&mut self, blocks: Vec<Value>) {
        let (results, mut others): (Vec<Value>, Vec<Value>) = blocks
            .into_iter()
            .partition(|block| block_type(block) == "tool_result");
        for fields in others.iter_mut().filter_map(Value::as_object_mut) {
            fields.shift_remove("cache_control");
        }
        let mut content: Vec<Value> = std::mem::take(&mut self.open)
            .into_iter()
            .map(|id| {
                let found = results
                    .iter()
                    .find(|it| block_field(it, "tool_use_id") == Some(&id));
                found.cloned().unwrap_or_else(|| lost(&id))
            })
            .collect();
        content.append(&mut others);
        append(&mut self.out, Role::User, content);
    }
}

fn lost(id: &str) -> Value {
    tool_result_block(id, &ToolOutcome::of_text(ToolStatus::Interrupted, LOST))
}

#[cfg(test)]
mod tests;
