//! The driver: it owns the loop's state and performs what `step` decides, through the ports. It must not
//! decide anything itself.

mod cancel;
mod end;
pub mod ports;
mod running;
mod settings;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

pub use cancel::{Cancel, Canceller, cancel_pair};
pub use end::{EndReason, ExitCode, TurnEnd};
use ports::{Approver, Observer, Preamble, Provider, Request, Tools};
use running::RunningTools;
pub use settings::{Settings, system_prompt};
use watch::ReplyWatch;

use crate::model::{Message, ToolCall};
use crate::step::{Effect, Input, Limits, State, step};

/// The world of an agent.
#[derive(Clone)]
pub struct Ports {
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// The tools.
    pub tools: Arc<dyn Tools>,
    /// Who decides about calls.
    pub approver: Arc<dyn Approver>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ports").finish_non_exhaustive()
    }
}

/// A session: the conversation, and the ports that make it real.
#[derive(Debug)]
pub struct Agent {
    ports: Ports,
    preamble: Preamble,
    state: State,
}

impl Agent {
    /// Starts a session. The tools' definitions are read now and frozen with the settings.
    #[must_use]
    pub fn new(settings: Settings, ports: Ports) -> Self {
        let tools = ports.tools.definitions();
        let names = tools.iter().map(|tool| tool.name.clone()).collect();
        let Settings {
            model,
            system,
            max_turns,
            max_tokens,
        } = settings;
        Self {
            ports,
            preamble: Preamble {
                model,
                system,
                tools,
                max_tokens,
            },
            state: State::new(names, Limits { max_turns }),
        }
    }

    /// The conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.state.messages()
    }

    /// What every request of the session starts with.
    #[must_use]
    pub const fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// Runs one turn to its end. Firing `cancel` interrupts it: the reply is aborted, running tools are
    /// stopped and their partial results awaited, and the session stays usable. Use a fresh `cancel` for
    /// each turn. Dropping the future gives the turn up at once; the next turn then starts from a valid
    /// conversation too.
    pub async fn run(&mut self, prompt: &str, cancel: &Cancel) -> TurnEnd {
        let mut tools = RunningTools::default();
        let mut input = Input::UserPrompt(prompt.to_owned());
        loop {
            let mut next = None;
            for effect in self.advance(input) {
                match effect {
                    Effect::SendRequest => next = Some(self.request(cancel).await),
                    Effect::AskPermission(call) => next = Some(self.ask(&call, cancel).await),
                    Effect::RunTools(calls) => tools.start(&self.ports, calls),
                    Effect::CancelTools => tools.cancel(),
                    Effect::ShowCall(call) => self.ports.observer.tool_call(&call),
                    Effect::ShowResult(call, outcome) => {
                        self.ports.observer.tool_result(&call, &outcome);
                    }
                    Effect::Show(notice) => self.ports.observer.notice(&notice),
                    Effect::EndTurn(end) => {
                        self.ports.observer.turn_end(&end);
                        return end;
                    }
                }
            }
            input = match next {
                Some(input) => input,
                None => tools.next(cancel).await,
            };
        }
    }

    fn advance(&mut self, input: Input) -> Vec<Effect> {
        // The placeholder never outlives this call: `step` neither awaits nor panics.
        let placeholder = State::new(Vec::new(), Limits { max_turns: 0 });
        let (state, effects) = step(std::mem::replace(&mut self.state, placeholder), input);
        self.state = state;
        effects
    }

    async fn request(&self, cancel: &Cancel) -> Input {
        let observer = self.ports.observer.as_ref();
        observer.request_started();
        let watch = ReplyWatch::new(observer);
        let request = Request {
            preamble: &self.preamble,
            messages: self.state.messages(),
        };
        let result = tokio::select! {
            // A reply that is complete counts, also when the interrupt comes at the same time.
            biased;
            result = self.ports.provider.complete(request, &watch) => result,
            () = cancel.cancelled() => return Input::Interrupted { partial: watch.partial() },
        };
        match result {
            Ok(reply) => {
                observer.reply(&reply);
                Input::ReplyCompleted(reply)
            }
            Err(error) => Input::ReplyFailed {
                class: error.class(),
                message: chain(&error),
                partial: watch.partial(),
            },
        }
    }

    async fn ask(&self, call: &ToolCall, cancel: &Cancel) -> Input {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Input::Interrupted { partial: String::new() },
            decision = self.ports.approver.ask(call) => Input::Permission(decision),
        }
    }
}

/// An error and its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        line.push_str(": ");
        line.push_str(&inner.to_string());
        source = inner.source();
    }
    line
}
