//! Colours, or none. The only place that writes control sequences.

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// With ANSI colours.
    Colour,
    /// As it is.
    Plain,
}

/// Colours and what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// The prompt: cyan.
    Prompt,
    /// A command that runs: yellow.
    Command,
    /// Output and remarks: dim.
    Aside,
    /// A failure: red.
    Failure,
    /// Something that held: green.
    Success,
}

impl Style {
    /// Colours if wanted.
    #[must_use]
    pub fn of(environment: &crate::config::Environment) -> Self {
        if environment.streams.colour {
            Self::Colour
        } else {
            Self::Plain
        }
    }

    /// The text in a colour. The text must be harmless already.
    #[must_use]
    pub fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Prompt => "36",
            Ink::Command => "33",
            Ink::Aside => "2",
            Ink::Failure => "31",
            Ink::Success => "32",
        };
        match self {
            Self::Colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_owned(),
        }
    }

    /// A clock at the start of the line, in whole seconds; nothing without colours.
    #[must_use]
    pub fn clock(self, seconds: u64) -> String {
        match self {
            Self::Colour => format!("\r\u{1b}[2m{seconds} s\u{1b}[0m\u{1b}[K"),
            Self::Plain => String::new(),
        }
    }

    /// Takes the clock away again.
    #[must_use]
    pub fn no_clock(self) -> &'static str {
        match self {
            Self::Colour => "\r\u{1b}[K",
            Self::Plain => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ink, Style};

    #[test]
    fn colours_appear_only_when_wanted() {
        assert_eq!(Style::Plain.paint(Ink::Command, "$ ls"), "$ ls");
        assert_eq!(
            Style::Colour.paint(Ink::Command, "$ ls"),
            "\u{1b}[33m$ ls\u{1b}[0m"
        );
        assert_eq!(
            Style::Colour.paint(Ink::Prompt, "agent >> "),
            "\u{1b}[36magent >> \u{1b}[0m"
        );
    }
}
