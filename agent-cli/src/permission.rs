//! Who decides whether a tool call runs: the mode of the command line, or a person. The safe answer to every
//! doubt is no.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    agent::ports::{Approver, BoxFuture, Decision},
    args::PermissionMode,
    model::ToolCall,
    terminal::{Input, Line, Question},
};

const QUESTION: &str = "Run this? (y)es / (n)o / (a)lways ";
const NOBODY: &str = "nobody can be asked, because this is not a terminal; pass --permissions allow to run commands in the jail";
const BY_MODE: &str = "--permissions deny";

/// The tool that reads what a background command has printed.
const READS_OUTPUT: &str = "bash_output";

/// How long an interrupt may take to reach the turn; then a Ctrl-C is just a no.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Decides about calls.
#[derive(Debug)]
pub struct Permissions {
    mode: PermissionMode,
    /// A person who can be asked.
    person: Option<Arc<Input>>,
    /// Tools the person has allowed for this session.
    always: Mutex<HashSet<String>>,
    /// Told when the person answers a question with Ctrl-C.
    interrupted: Arc<Notify>,
}

impl Permissions {
    /// `person` is there when somebody can be asked; `interrupted` is told about a Ctrl-C at a question.
    #[must_use]
    pub fn new(mode: PermissionMode, person: Option<Arc<Input>>, interrupted: Arc<Notify>) -> Self {
        Self {
            mode,
            person,
            always: Mutex::new(HashSet::new()),
            interrupted,
        }
    }

    fn is_always(&self, tool: &str) -> bool {
        self.always
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(tool)
    }

    async fn ask_person(&self, call: &ToolCall) -> Decision {
        let Some(person) = &self.person else {
            return deny(Some(NOBODY));
        };
        if self.is_always(&call.name) {
            return Decision::Allow;
        }
        let line = person.ask(Question::Confirm(QUESTION.to_owned())).await;
        match answer(&line) {
            Answer::Once => Decision::Allow,
            Answer::Always => {
                let mut always = self.always.lock().unwrap_or_else(PoisonError::into_inner);
                always.insert(call.name.clone());
                Decision::Allow
            }
            Answer::No => {
                if line == Line::Interrupted {
                    self.interrupted.notify_one();
                    // The turn is about to end. An answer now would let it ask about the next call first.
                    tokio::time::sleep(INTERRUPT_GRACE).await;
                }
                deny(None)
            }
        }
    }
}

impl Approver for Permissions {
    fn ask<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            match self.mode {
                PermissionMode::Allow => Decision::Allow,
                PermissionMode::Deny => deny(Some(BY_MODE)),
                // What an allowed command prints may be read.
                PermissionMode::Ask if call.name == READS_OUTPUT => Decision::Allow,
                PermissionMode::Ask => self.ask_person(call).await,
            }
        })
    }
}

fn deny(reason: Option<&str>) -> Decision {
    Decision::Deny {
        reason: reason.map(str::to_owned),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Once,
    Always,
    No,
}

/// Everything that is not clearly a yes is a no.
fn answer(line: &Line) -> Answer {
    match line {
        Line::Text(text) => match text.trim().to_lowercase().as_str() {
            "y" | "yes" => Answer::Once,
            "a" | "always" => Answer::Always,
            _ => Answer::No,
        },
        Line::Interrupted | Line::End => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Permissions, answer};
    use crate::{
        agent::ports::{Approver, Decision},
        args::PermissionMode,
        model::ToolCall,
        terminal::Line,
    };
    use std::sync::Arc;
    use tokio::sync::Notify;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let text = |text: &str| Line::Text(text.into());
        for (line, expected) in [
            (text("y"), Answer::Once),
            (text(" YES "), Answer::Once),
            (text("a"), Answer::Always),
            (text("always"), Answer::Always),
            (text("n"), Answer::No),
            (text(""), Answer::No),
            (text("yep"), Answer::No),
            (text("sure"), Answer::No),
            (Line::End, Answer::No),
            (Line::Interrupted, Answer::No),
        ] {
            assert_eq!(answer(&line), expected, "{line:?}");
        }
    }

    #[tokio::test]
    async fn the_output_of_an_allowed_command_may_be_read_without_asking() {
        for (mode, tool, allowed) in [
            (PermissionMode::Ask, "bash_output", true),
            (PermissionMode::Ask, "bash_kill", false),
            (PermissionMode::Ask, "bash", false),
            (PermissionMode::Deny, "bash_output", false),
        ] {
            let call = ToolCall {
                id: "1".into(),
                name: tool.into(),
                input: serde_json::json!({}),
            };
            let permissions = Permissions::new(mode, None, Arc::new(Notify::new()));
            let decision = permissions.ask(&call).await;
            assert_eq!(decision == Decision::Allow, allowed, "{mode:?} {tool}");
        }
    }

    #[tokio::test]
    async fn without_a_person_asking_denies_and_says_why() {
        let call = ToolCall {
            id: "1".into(),
            name: "bash".into(),
            input: serde_json::json!({}),
        };
        for (mode, allowed, reason) in [
            (PermissionMode::Allow, true, ""),
            (PermissionMode::Ask, false, "not a terminal"),
            (PermissionMode::Deny, false, "--permissions deny"),
        ] {
            let permissions = Permissions::new(mode, None, Arc::new(Notify::new()));
            match permissions.ask(&call).await {
                Decision::Allow => assert!(allowed, "{mode:?}"),
                Decision::Deny { reason: given } => {
                    assert!(!allowed && given.unwrap().contains(reason), "{mode:?}");
                }
            }
        }
    }
}
