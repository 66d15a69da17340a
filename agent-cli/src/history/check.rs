//! The rules a conversation must keep before it is sent (what the Messages API rejects otherwise). Pure: it
//! judges, `repair` mends. Valid Unicode needs no rule here, a Rust string cannot hold a lone surrogate.

use std::collections::HashSet;

use serde_json::Value;

use super::is_id_char;
use crate::model::{Message, Role, block_field, block_text, block_type};

/// The first rule that a conversation breaks. `at` is the index of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It is empty or starts with the assistant.
    #[error("the first message is not the user's")]
    FirstNotUser,
    /// Nobody asks for an answer.
    #[error("the last message is not the user's")]
    LastNotUser,
    /// Two messages of one role in a row.
    #[error("message {at} has the role of the one before it")]
    EqualRoles {
        /// Where.
        at: usize,
    },
    /// A message without blocks, or with a block of no type.
    #[error("message {at} has no content or a block without a type")]
    Empty {
        /// Where.
        at: usize,
    },
    /// A text block that is empty or only whitespace.
    #[error("message {at} has a blank text block")]
    BlankText {
        /// Where.
        at: usize,
    },
    /// A call or a result that breaks the pairing.
    #[error("message {at}: {what}")]
    Pairing {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A thinking block that the API would not take back.
    #[error(
        "message {at} has a thinking block without a signature, or one that is not the assistant's"
    )]
    Thinking {
        /// Where.
        at: usize,
    },
    /// Too many cache markers, or one on an empty block.
    #[error("message {at} has a cache marker too many or on an empty block")]
    Marker {
        /// Where.
        at: usize,
    },
}

/// Markers that messages may carry: the API allows four, the frozen part uses up to three.
const MESSAGE_MARKERS: usize = 1;

/// Judges a conversation. The last rule that is judged is `LastNotUser`.
pub fn check(messages: &[Message]) -> Result<(), Violation> {
    if messages.first().map(Message::role) != Some(Role::User) {
        return Err(Violation::FirstNotUser);
    }
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut markers = 0_usize;
    let mut before = None;
    for (at, message) in messages.iter().enumerate() {
        if before == Some(message.role()) {
            return Err(Violation::EqualRoles { at });
        }
        before = Some(message.role());
        check_blocks(at, message)?;
        open = match message.role() {
            Role::User => {
                check_results(at, message.content(), &open)?;
                Vec::new()
            }
            Role::Assistant => check_calls(at, message.content(), &mut seen)?,
        };
        markers = markers.saturating_add(count_markers(message));
        if markers > MESSAGE_MARKERS {
            return Err(Violation::Marker { at });
        }
    }
    match (before, open.is_empty()) {
        (Some(Role::Assistant), false) => {
            let at = messages.len().saturating_sub(1);
            Err(Violation::Pairing {
                at,
                what: "a call has no result",
            })
        }
        (Some(Role::Assistant) | None, _) => Err(Violation::LastNotUser),
        (Some(Role::User), _) => Ok(()),
    }
}

fn check_blocks(at: usize, message: &Message) -> Result<(), Violation> {
    if message.content().is_empty() {
        return Err(Violation::Empty { at });
    }
    for block in message.content() {
        let of_user = message.role() == Role::User;
        match block_type(block) {
            "" => return Err(Violation::Empty { at }),
            "text" if is_blank_text(block) => return Err(Violation::BlankText { at }),
            "thinking" if of_user || !is_signed(block) => return Err(Violation::Thinking { at }),
            "redacted_thinking" if of_user => return Err(Violation::Thinking { at }),
            "tool_use" if of_user => {
                return Err(Violation::Pairing {
                    at,
                    what: "a call of the user",
                });
            }
            "tool_result" if !of_user => {
                return Err(Violation::Pairing {
                    at,
                    what: "a result of the assistant",
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_calls<'a>(
    at: usize,
    content: &'a [Value],
    seen: &mut HashSet<&'a str>,
) -> Result<Vec<&'a str>, Violation> {
    let mut calls = Vec::new();
    for block in content
        .iter()
        .filter(|block| block_type(block) == "tool_use")
    {
        let id = block_field(block, "id").unwrap_or_default();
        let what = if !is_token(id) {
            "a call has no valid id"
        } else if !is_token(block_field(block, "name").unwrap_or_default()) {
            "a call has no valid name"
        } else if !block.get("input").is_some_and(Value::is_object) {
            "a call's input is not an object"
        } else if !seen.insert(id) {
            "an id of a call is used twice"
        } else {
            calls.push(id);
            continue;
        };
        return Err(Violation::Pairing { at, what });
    }
    Ok(calls)
}

fn check_results(at: usize, content: &[Value], open: &[&str]) -> Result<(), Violation> {
    let mut expected = open.iter();
    let mut results_over = false;
    for block in content {
        if block_type(block) != "tool_result" {
            results_over = true;
            continue;
        }
        let what = if results_over {
            "a result stands behind other content"
        } else if block_field(block, "tool_use_id") == expected.next().copied() {
            continue;
        } else {
            "a result has no call, or the order is not that of the calls"
        };
        return Err(Violation::Pairing { at, what });
    }
    match expected.next() {
        Some(_) => Err(Violation::Pairing {
            at,
            what: "a call has no result",
        }),
        None => Ok(()),
    }
}

fn count_markers(message: &Message) -> usize {
    message
        .content()
        .iter()
        .filter(|block| block.get("cache_control").is_some())
        .count()
}

/// Whether a text block says nothing.
pub(super) fn is_blank_text(block: &Value) -> bool {
    block_text(block).is_none_or(|text| text.trim().is_empty())
}

/// Whether a thinking block can be replayed.
pub(super) fn is_signed(block: &Value) -> bool {
    block_field(block, "signature").is_some_and(|signature| !signature.is_empty())
}

/// Ids and names: `[a-zA-Z0-9_-]{1,64}`, the strictest form in use.
pub(super) fn is_token(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.chars().all(is_id_char)
}

#[cfg(test)]
mod tests;
