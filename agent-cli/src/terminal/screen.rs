//! Shows a turn to a person: the answer as it arrives, each command before it runs, the beginning of its
//! result. Writes to one stream; a closed stream is nobody's failure here.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Ink, Neutraliser, Style, call, page::Page};
use crate::{
    agent::{
        EndReason, TurnEnd,
        ports::{Notice, Observer, RetryNotice},
    },
    model::{Reply, ToolCall, ToolOutcome},
};

/// What happens to the model's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// It is shown as it arrives.
    Streamed,
    /// What comes before a tool call is shown then; the final answer is left to the caller.
    Asides,
}

/// The screen.
pub struct Screen {
    style: Style,
    voice: Voice,
    page: Arc<Mutex<Page>>,
}

impl Screen {
    /// A screen on a stream.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, style: Style, voice: Voice) -> Self {
        Self {
            style,
            voice,
            page: Page::open(out, style),
        }
    }

    fn with(&self, act: impl FnOnce(&mut Page)) {
        // A panic elsewhere while the page was locked leaves at worst half a line.
        act(&mut self.page.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn line(&self, ink: Ink, text: &str) {
        let painted: Vec<String> = text
            .lines()
            .map(|line| self.style.paint(ink, line))
            .collect();
        self.with(|page| page.line(&painted.join("\n")));
    }
}

impl Observer for Screen {
    fn request_started(&self) {
        self.with(|page| {
            page.clean = Neutraliser::default();
            page.held.clear();
            page.busy();
        });
    }

    fn tool_started(&self, _call: &ToolCall) {
        self.with(|page| {
            page.running = page.running.saturating_add(1);
            page.busy();
        });
    }

    fn text_delta(&self, text: &str) {
        self.with(|page| {
            let clean = page.clean.push(text);
            match self.voice {
                Voice::Streamed => page.write(&clean),
                Voice::Asides => page.held.push_str(&clean),
            }
        });
    }

    fn reply(&self, _reply: &Reply) {
        self.with(|page| {
            page.idle();
            if self.voice == Voice::Streamed && page.mid_line {
                page.write("\n");
            }
        });
    }

    fn tool_call(&self, call: &ToolCall) {
        self.with(|page| {
            let held = std::mem::take(&mut page.held);
            if !held.trim().is_empty() {
                page.line(held.trim());
            }
            page.last_call.clone_from(&call.id);
        });
        self.line(Ink::Command, &call::headline(call));
    }

    fn tool_result(&self, call: &ToolCall, outcome: &ToolOutcome) {
        let mut follows_its_command = true;
        self.with(|page| {
            follows_its_command = page.last_call == call.id;
            page.last_call.clone_from(&call.id);
            page.running = page.running.saturating_sub(1);
            if page.running == 0 {
                page.idle();
            }
        });
        if !follows_its_command {
            // Calls that run side by side end in any order.
            self.line(Ink::Aside, &format!("of {}", call::reminder(call)));
        }
        let ink = if outcome.is_error() {
            Ink::Failure
        } else {
            Ink::Aside
        };
        let echo = call::echo(&outcome.text);
        self.line(
            ink,
            if echo.is_empty() {
                "(no output)"
            } else {
                &echo
            },
        );
    }

    fn notice(&self, notice: &Notice) {
        self.line(Ink::Aside, &super::neutral(&notice.text));
    }

    fn retry(&self, notice: &RetryNotice) {
        let text = format!(
            "[Retry] attempt {} of {} failed: {}; next in {:.1} s",
            notice.attempt,
            notice.attempts,
            notice.reason,
            notice.wait.as_secs_f32()
        );
        self.line(Ink::Aside, &super::neutral(&text));
    }

    fn turn_end(&self, end: &TurnEnd) {
        self.with(|page| {
            page.running = 0;
            page.idle();
        });
        match (&end.reason, self.voice) {
            (EndReason::Failed { message, .. }, Voice::Streamed) => {
                self.line(
                    Ink::Failure,
                    &format!("[Error] {}", super::neutral(message)),
                );
            }
            (
                EndReason::Failed { .. }
                | EndReason::Done
                | EndReason::MaxTurns
                | EndReason::Denied
                | EndReason::Refusal
                | EndReason::Truncated
                | EndReason::Interrupted,
                _,
            ) => {}
        }
        if self.voice == Voice::Streamed {
            self.with(|page| page.line(""));
        }
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("style", &self.style)
            .field("voice", &self.voice)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Screen, Voice};
    use crate::{
        agent::ports::Observer,
        model::{ToolCall, ToolOutcome, ToolStatus},
        terminal::{Style, paper::Paper},
    };
    use serde_json::json;

    fn shown(voice: Voice, style: Style) -> String {
        let paper = Paper::default();
        let screen = Screen::new(Box::new(paper.clone()), style, voice);
        let call = ToolCall {
            id: "1".into(),
            name: "bash".into(),
            input: json!({"command": "ls"}),
        };
        screen.request_started();
        screen.text_delta("I look\u{1b}");
        screen.text_delta("[31m first.");
        screen.tool_call(&call);
        screen.tool_result(
            &call,
            &ToolOutcome::of_text(ToolStatus::Done, "a\u{1b}[2J\nb\n"),
        );
        screen.request_started();
        screen.text_delta("Done.");
        String::from_utf8(paper.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_commands_and_results_stand_on_lines_of_their_own() {
        assert_eq!(
            shown(Voice::Streamed, Style::Plain),
            "I look first.\n$ ls\na\nb\nDone."
        );
    }

    #[test]
    fn the_final_answer_can_be_left_to_the_caller() {
        assert_eq!(
            shown(Voice::Asides, Style::Plain),
            "I look first.\n$ ls\na\nb\n"
        );
    }

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let text = shown(Voice::Streamed, Style::Colour);
        assert!(text.contains("\u{1b}[33m$ ls\u{1b}[0m"), "{text:?}");
        assert!(
            !text.contains("\u{1b}[31m") && !text.contains("\u{1b}[2J"),
            "{text:?}"
        );
    }
}
