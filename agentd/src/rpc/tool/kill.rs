//! `bash_kill`: ends a command, and says what became of it.

use std::sync::Arc;

use agentd_sandbox::monitor::StopReason;

use super::answer::{self, Answers};
use crate::{
    exec::{Exec, ExecState},
    rpc::tool_text,
    text::Rendered,
};

/// Ends it, and answers once it is over.
pub(super) async fn run(exec: Arc<Exec>, answers: Answers) {
    let id = exec.id().to_string();
    let head = match exec.state() {
        ExecState::Ended | ExecState::NotStarted(_) => format!("{id} had already ended"),
        ExecState::Starting | ExecState::Running => {
            exec.request_stop(StopReason::Cancelled, None);
            // The end comes whether or not the client still waits for it.
            if answers.keep_alive(&exec, exec.ended()).await.is_none() {
                return;
            }
            format!("{id} was ended")
        }
    };
    let told = answer::Told {
        rendered: Rendered {
            text: head,
            omitted_chars: 0,
            omitted_lines: 0,
        },
        lines: tool_text::state_lines(&exec),
    };
    answers.finish(answer::about(&exec, told)).await;
}
