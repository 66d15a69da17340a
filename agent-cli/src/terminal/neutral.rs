//! Makes text from models, tools and repositories harmless for a terminal: control sequences, other control
//! characters and characters that reorder text are taken out. Pure; the text may come in pieces.

/// Longest control sequence that is swallowed, in characters. One that never ends must not swallow the rest.
const MAX_SEQUENCE: usize = 4096;

/// Where in a control sequence the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: one more character belongs to it.
    EscapeIntermediate,
    /// After `ESC [`.
    Csi,
    /// In an operating system command or another string, up to BEL or ST.
    ControlString,
    /// In such a string, after ESC.
    ControlStringEscape,
}

/// Takes control sequences out of text that comes in pieces.
#[derive(Debug, Clone, Default)]
pub struct Neutraliser {
    state: State,
    swallowed: usize,
}

impl Neutraliser {
    /// The harmless part of the next piece.
    pub fn push(&mut self, piece: &str) -> String {
        piece.chars().filter(|c| self.keep(*c)).collect()
    }

    fn keep(&mut self, c: char) -> bool {
        let next = self.state.after(c);
        self.swallowed = match next {
            State::Text => 0,
            State::Escape
            | State::EscapeIntermediate
            | State::Csi
            | State::ControlString
            | State::ControlStringEscape => self.swallowed.saturating_add(1),
        };
        let was = self.state;
        self.state = if self.swallowed > MAX_SEQUENCE {
            self.swallowed = 0;
            State::Text
        } else {
            next
        };
        was == State::Text && next == State::Text && is_harmless(c)
    }
}

impl State {
    #[expect(
        clippy::match_same_arms,
        reason = "the arms stand in the order of their precedence"
    )]
    fn after(self, c: char) -> Self {
        match (self, c) {
            (Self::ControlString, '\u{1b}') => Self::ControlStringEscape,
            (Self::ControlStringEscape, '\\') | (Self::ControlString, '\u{7}' | '\u{9c}') => {
                Self::Text
            }
            (Self::ControlString | Self::ControlStringEscape, _) => Self::ControlString,
            (_, '\u{1b}') => Self::Escape,
            (Self::Escape, '[') | (Self::Text, '\u{9b}') => Self::Csi,
            (Self::Escape, ']' | 'P' | 'X' | '^' | '_')
            | (Self::Text, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => Self::ControlString,
            (Self::Escape, '\u{20}'..='\u{2f}') => Self::EscapeIntermediate,
            (Self::Csi, '\u{20}'..='\u{3f}') => Self::Csi,
            // A line break inside a sequence ends it: terminals do the same with broken ones.
            (Self::Escape | Self::EscapeIntermediate | Self::Csi | Self::Text, _) => Self::Text,
        }
    }
}

fn is_harmless(c: char) -> bool {
    let reorders = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    matches!(c, '\n' | '\t') || !(c.is_control() || reorders)
}

/// A complete text, made harmless.
#[must_use]
pub fn neutral(text: &str) -> String {
    Neutraliser::default().push(text)
}

/// The first `limit` characters of a harmless text, with a mark when something was left out.
#[must_use]
pub fn excerpt(text: &str, limit: usize) -> String {
    let clean = neutral(text);
    match clean.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", clean.get(..end).unwrap_or_default()),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SEQUENCE, Neutraliser, excerpt, neutral};
    use proptest::prelude::{ProptestConfig, any, proptest};

    #[test]
    fn control_sequences_are_taken_out_and_text_stays() {
        for (text, expected) in [
            ("plain ä 漢\tx\n", "plain ä 漢\tx\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[H.", "."),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]52;c;aGk=\u{1b}\\after", "after"),
            ("\u{1b}P1$q\u{1b}\\after", "after"),
            ("\u{9b}31mred", "red"),
            ("\u{9d}0;t\u{9c}after", "after"),
            ("\u{1b}(Bx", "x"),
            ("\u{1b}cx", "x"),
            ("safe\r\u{8}\u{7}\0evil", "safeevil"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("a\u{7f}b", "ab"),
            ("\u{1b}[31", ""),
        ] {
            assert_eq!(neutral(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_that_never_ends_does_not_swallow_everything() {
        let text = format!("\u{1b}]0;{}END", "x".repeat(MAX_SEQUENCE));
        assert!(neutral(&text).ends_with("END"));
    }

    #[test]
    fn an_excerpt_counts_characters_of_the_harmless_text() {
        assert_eq!(excerpt("äöü", 3), "äöü");
        assert_eq!(excerpt("äöüß", 3), "äöü…");
        assert_eq!(excerpt("\u{1b}[31mäöü\u{1b}[0m", 3), "äöü");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn no_control_character_survives_and_pieces_make_no_difference(
            text in any::<String>(), cut in any::<proptest::sample::Index>()
        ) {
            let text = text.replace('a', "\u{1b}[").replace('b', "\u{1b}]");
            let whole = neutral(&text);
            assert!(whole.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            let at: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (left, right) = text.split_at(at[cut.index(at.len())]);
            let mut pieces = Neutraliser::default();
            assert_eq!(pieces.push(left) + &pieces.push(right), whole);
        }
    }
}
