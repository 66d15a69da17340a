//! The calls of one round while they run, each in a task of its own. Whatever happens to a task, its call's
//! end is reported exactly once: a panic becomes a failure, silence after an interrupt becomes an
//! interruption.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::Ports;
use super::cancel::{Cancel, Canceller, cancel_pair};
use super::ports::{Observer, OutputStream, ToolEvents};
use crate::model::{ToolCall, ToolOutcome, ToolStatus};
use crate::step::Input;

/// How long a stopped tool may take to hand over its partial output. Longer than the daemon's grace
/// between TERM and KILL plus its drain; a port that does not come back is left behind.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Tools that run, and ends that are still to be reported.
#[derive(Default)]
pub(super) struct RunningTools {
    tasks: JoinSet<ToolOutcome>,
    calls: HashMap<Id, String>,
    left_behind: VecDeque<String>,
    canceller: Option<Canceller>,
    stop_by: Option<Instant>,
}

struct Forward {
    observer: Arc<dyn Observer>,
    call: ToolCall,
}

impl ToolEvents for Forward {
    fn output(&self, stream: OutputStream, bytes: &[u8]) {
        self.observer.tool_output(&self.call, stream, bytes);
    }
}

impl RunningTools {
    /// Starts all calls at once.
    pub(super) fn start(&mut self, ports: &Ports, calls: Vec<ToolCall>) {
        let (canceller, cancel) = cancel_pair();
        for call in calls {
            let (tools, observer, cancel) = (
                Arc::clone(&ports.tools),
                Arc::clone(&ports.observer),
                cancel.clone(),
            );
            let id = call.id.clone();
            let task = self.tasks.spawn(async move {
                observer.tool_started(&call);
                let events = Forward {
                    observer,
                    call: call.clone(),
                };
                tools.call(&call, &events, &cancel).await
            });
            self.calls.insert(task.id(), id);
        }
        self.canceller = Some(canceller);
        self.stop_by = None;
    }

    /// Tells all of them to stop, and starts the clock.
    pub(super) fn cancel(&mut self) {
        if let Some(canceller) = &self.canceller {
            canceller.cancel();
        }
        self.stop_by = Instant::now().checked_add(STOP_LIMIT);
    }

    /// The next end, or the interrupt (once).
    pub(super) async fn next(&mut self, cancel: &Cancel) -> Input {
        loop {
            if let Some(id) = self.left_behind.pop_front() {
                let outcome = ToolOutcome::of_text(ToolStatus::Interrupted, "");
                return Input::ToolFinished { id, outcome };
            }
            let stopping = self.stop_by;
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next_with_id() => {
                    if let Some(input) = self.ended(ended) {
                        return input;
                    }
                }
                () = cancel.cancelled(), if stopping.is_none() => {
                    return Input::Interrupted { partial: String::new() };
                }
                () = sleep_until(stopping.unwrap_or_else(Instant::now)), if stopping.is_some() => {
                    self.tasks.abort_all();
                    self.left_behind.extend(self.calls.drain().map(|(_, id)| id));
                }
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, ToolOutcome), JoinError>) -> Option<Input> {
        let (task, outcome) = match ended {
            Ok((task, outcome)) => (task, outcome),
            Err(error) => (error.id(), ToolOutcome::failed(failure(&error))),
        };
        let id = self.calls.remove(&task)?;
        Some(Input::ToolFinished { id, outcome })
    }
}

fn failure(error: &JoinError) -> String {
    format!("Error: the tool failed inside the client ({error}); the call may have had effects")
}
