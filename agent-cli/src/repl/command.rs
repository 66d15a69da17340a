//! What a line of the interactive session means. Pure.

/// A line, understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered<'a> {
    /// An empty line does nothing.
    Nothing,
    /// Leave.
    Quit,
    /// Explain.
    Help,
    /// Show the daemon.
    Status,
    /// A slash command that does not exist.
    Unknown(&'a str),
    /// For the model.
    Prompt(&'a str),
}

/// Understands a line.
pub(super) fn understand(line: &str) -> Entered<'_> {
    let text = line.trim();
    match text.to_lowercase().as_str() {
        "" => Entered::Nothing,
        "q" | "exit" | "/quit" | "/exit" | "/q" => Entered::Quit,
        "/help" | "/?" => Entered::Help,
        "/status" => Entered::Status,
        // A path such as /etc/hosts at the start of a sentence is no command.
        word if is_command(word) => Entered::Unknown(text),
        _ => Entered::Prompt(text),
    }
}

fn is_command(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::{Entered, understand};

    #[test]
    fn lines_of_a_session() {
        for (line, expected) in [
            ("", Entered::Nothing),
            ("  \t", Entered::Nothing),
            ("q", Entered::Quit),
            (" Q ", Entered::Quit),
            ("EXIT", Entered::Quit),
            ("/quit", Entered::Quit),
            ("quit smoking", Entered::Prompt("quit smoking")),
            ("/help", Entered::Help),
            ("/status", Entered::Status),
            ("/clear", Entered::Unknown("/clear")),
            (
                "/etc/hosts is empty, why?",
                Entered::Prompt("/etc/hosts is empty, why?"),
            ),
            ("/etc/hosts", Entered::Prompt("/etc/hosts")),
            (" list the files ", Entered::Prompt("list the files")),
        ] {
            assert_eq!(understand(line), expected, "{line:?}");
        }
    }
}
