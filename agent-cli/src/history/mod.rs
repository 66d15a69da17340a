//! The conversation: append-only, checked before every request. A message that was part of a request is
//! never changed again, so that each request's bytes extend the previous one's. The only exception is a
//! turn that the server paused: its next part belongs to the same message.

mod check;
mod repair;

use std::collections::HashSet;

pub use check::{Violation, check};
pub use repair::repair;
use serde_json::Value;

use crate::model::{Message, Role, text_block};

/// Stands where the model owed an answer and none came (a failed call, an empty reply), so that the next
/// prompt does not have to change a message that was already sent. Fixed words: an error's text would be
/// read by the model as part of the task.
const NO_ANSWER: &str = "[No answer was given to this message.]";

/// What `prepare` had to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// Nothing: the conversation was in order.
    AsItWas,
    /// It was repaired; the provider's prefix cache starts anew.
    Repaired,
}

/// The conversation of a session.
#[derive(Debug, Clone, Default)]
pub struct History {
    messages: Vec<Message>,
    /// Messages that some request has carried. These never change.
    sent: usize,
    /// Ids of all calls so far: gateways number calls per reply, the API wants them unique.
    call_ids: HashSet<String>,
    /// Whether the last message is an assistant's that the server wants back to go on with it.
    paused: bool,
}

impl History {
    /// An empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The messages in order.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Appends what the person said. Results that no request has carried yet take it into their message.
    pub fn push_prompt(&mut self, text: &str) {
        self.paused = false;
        match self.messages.last().map(Message::role) {
            Some(Role::User) if self.messages.len() > self.sent => {
                self.extend_last(vec![text_block(text)]);
                return;
            }
            Some(Role::User) => self.push(Role::Assistant, vec![text_block(NO_ANSWER)]),
            Some(Role::Assistant) | None => {}
        }
        self.push(Role::User, vec![text_block(text)]);
    }

    /// Appends what the model said; nothing, if it said nothing.
    pub fn push_reply(&mut self, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if self.paused {
            self.extend_last(blocks);
        } else {
            self.push(Role::Assistant, blocks);
        }
        self.paused = false;
    }

    /// Notes that the server paused the turn: the next reply continues the last message.
    pub fn pause(&mut self) {
        self.paused = self
            .messages
            .last()
            .is_some_and(|last| last.role() == Role::Assistant);
    }

    /// Appends the results of a round, in call order.
    pub fn push_results(&mut self, blocks: Vec<Value>) {
        self.push(Role::User, blocks);
    }

    /// Makes an id of a call unique in this session and acceptable to the API.
    pub fn claim_id(&mut self, wanted: &str) -> String {
        let base: String = wanted
            .chars()
            .filter(|c| is_id_char(*c))
            .take(ID_BASE_CHARS)
            .collect();
        let base = if base.is_empty() {
            "call".to_owned()
        } else {
            base
        };
        let mut id = base.clone();
        let mut suffix = 2_u32;
        while self.call_ids.contains(&id) {
            id = format!("{base}_{suffix}");
            suffix = suffix.saturating_add(1);
        }
        self.call_ids.insert(id.clone());
        id
    }

    /// Checks the invariants, repairs what an interrupt or a crash left, and marks everything as sent.
    /// An error means that there is nothing that could be sent.
    pub fn prepare(&mut self) -> Result<Prepared, Violation> {
        let prepared = if self.verdict().is_ok() {
            Prepared::AsItWas
        } else {
            self.messages = repair(&self.messages);
            self.verdict()?;
            Prepared::Repaired
        };
        self.sent = self.messages.len();
        Ok(prepared)
    }

    fn verdict(&self) -> Result<(), Violation> {
        match check(&self.messages) {
            Err(Violation::LastNotUser) if self.paused => Ok(()),
            other => other,
        }
    }

    fn push(&mut self, role: Role, blocks: Vec<Value>) {
        self.messages.push(Message::new(role, blocks));
    }

    fn extend_last(&mut self, blocks: Vec<Value>) {
        if let Some(last) = self.messages.pop() {
            let mut content = last.content().to_vec();
            content.extend(blocks);
            self.push(last.role(), content);
        }
    }
}

/// Leaves room for a suffix within the 64 characters that the strictest gateways allow.
const ID_BASE_CHARS: usize = 56;

fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn roles(history: &History) -> String {
        let letter = |message: &Message| match message.role() {
            Role::User => 'U',
            Role::Assistant => 'A',
        };
        history.messages().iter().map(letter).collect()
    }

    #[test]
    fn a_prompt_after_an_unanswered_request_does_not_change_what_was_sent() {
        let mut history = History::new();
        history.push_prompt("one");
        assert_eq!(history.prepare(), Ok(Prepared::AsItWas));
        let sent = history.messages()[0].json().to_owned();
        history.push_prompt("two");
        assert_eq!(roles(&history), "UAU");
        assert_eq!(history.messages()[0].json(), sent);
        assert_eq!(history.prepare(), Ok(Prepared::AsItWas));
    }

    #[test]
    fn a_prompt_joins_results_that_were_not_sent_yet_behind_them() {
        let mut history = History::new();
        history.push_prompt("one");
        history.prepare().unwrap();
        history.push_reply(vec![
            json!({"type":"tool_use","id":"t","name":"bash","input":{}}),
        ]);
        history.push_results(vec![
            json!({"type":"tool_result","tool_use_id":"t","content":"x"}),
        ]);
        history.push_prompt("two");
        assert_eq!(roles(&history), "UAU");
        assert_eq!(history.messages()[2].content()[1]["text"], "two");
        assert_eq!(history.prepare(), Ok(Prepared::AsItWas));
    }

    #[test]
    fn a_paused_turn_may_end_with_the_assistant_and_is_continued_in_the_same_message() {
        let mut history = History::new();
        history.push_prompt("one");
        history.prepare().unwrap();
        history.push_reply(vec![text_block("part one")]);
        assert_eq!(history.clone().prepare(), Err(Violation::LastNotUser));
        history.pause();
        assert_eq!(history.prepare(), Ok(Prepared::AsItWas));
        history.push_reply(vec![text_block("part two")]);
        assert_eq!(roles(&history), "UA");
        assert_eq!(history.messages()[1].content().len(), 2);
    }

    #[test]
    fn claimed_ids_are_unique_and_of_the_right_form() {
        let mut history = History::new();
        let long = "a".repeat(450);
        let ids = ["call_0", "call_0", "call_0", "", "", "a|b c", &long, &long]
            .map(|wanted| history.claim_id(wanted));
        let unique: HashSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len());
        assert!(
            ids.iter()
                .all(|id| id.len() <= 64 && id.chars().all(is_id_char)),
            "{ids:?}"
        );
        assert_eq!(ids[0], "call_0");
    }
}
