//! The text for the model, against examples and against an oracle.

mod endings;
mod output;
mod properties;

use super::{Ending, Finished, Outcome, Rendered, render};

/// Renders output of a command that exited with 0.
pub(super) fn rendered(head: &[u8], dropped_bytes: u64, tail: &[u8]) -> Rendered {
    render(&Finished {
        head,
        dropped_bytes,
        tail,
        full_output: None,
        outcome: &Outcome::new(Ending::Exited(0)),
    })
}

/// The text of complete output.
pub(super) fn shown(output: &str) -> String {
    rendered(output.as_bytes(), 0, b"").text
}
