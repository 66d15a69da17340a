//! What a terminal would show of a text, in plain characters: escape sequences removed, lines that a
//! program redraws with carriage returns collapsed to their last state.
//!
//! One pass, linear in the input, whatever the input. Every character counts as one column, and only
//! the current line can be redrawn; text that has scrolled on stays.

use std::str::Chars;

/// Whether cursor movement within a line is obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redraw {
    /// As a terminal does: later text replaces earlier text.
    Apply,
    /// Nothing that was written can be hidden; a carriage return becomes a line break.
    Ignore,
}

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
const STRING_TERMINATOR: char = '\u{9c}';

/// Cleans a text. The result holds no control character except newline and tab.
pub(super) fn clean(text: &str, redraw: Redraw) -> String {
    let mut screen = Screen {
        out: String::with_capacity(text.len()),
        line: Vec::new(),
        column: 0,
        redraw,
    };
    let mut input = Input {
        chars: text.chars(),
        strings_may_end: true,
    };
    while let Some(c) = input.chars.next() {
        match c {
            '\n' => screen.line_break(),
            '\r' => screen.carriage_return(),
            '\u{8}' => screen.move_left(1),
            '\t' => screen.put(c),
            ESCAPE => input.escape(&mut screen),
            '\u{9b}' => input.control_sequence(&mut screen),
            '\u{9d}' => input.skip_operating_system_command(),
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => input.skip_string(),
            other if other.is_control() => {}
            other => screen.put(other),
        }
    }
    screen.flush();
    screen.out
}

/// Characters that change the order in which the text around them is displayed.
pub(super) fn reorders_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// The current line and everything above it.
struct Screen {
    out: String,
    line: Vec<char>,
    /// Never beyond the end of `line`, so that no sequence can make a short input a long line.
    column: usize,
    redraw: Redraw,
}

impl Screen {
    fn put(&mut self, c: char) {
        match self.line.get_mut(self.column) {
            Some(cell) => *cell = c,
            None => self.line.push(c),
        }
        self.column = self.column.saturating_add(1);
    }

    fn flush(&mut self) {
        self.out.extend(self.line.drain(..));
        self.column = 0;
    }

    fn line_break(&mut self) {
        self.flush();
        self.out.push('\n');
    }

    fn carriage_return(&mut self) {
        match self.redraw {
            Redraw::Apply => self.column = 0,
            Redraw::Ignore => self.line_break(),
        }
    }

    fn move_left(&mut self, columns: usize) {
        if self.redraw == Redraw::Apply {
            self.column = self.column.saturating_sub(columns);
        }
    }

    /// Obeys the few control sequences that progress displays use on their own line.
    fn control(&mut self, last: char, parameters: &str) {
        if self.redraw == Redraw::Ignore {
            return;
        }
        let number = parameters.parse::<usize>().ok();
        let end = self.line.len();
        match (last, number) {
            // Erase to the end of the line (of the screen), with the cursor staying.
            ('K' | 'J', None | Some(0)) => self.line.truncate(self.column),
            // Erase the line. The cursor should stay, yet every program moves it to the start as well.
            ('K', Some(2)) => {
                self.line.clear();
                self.column = 0;
            }
            ('G', _) => self.column = number.unwrap_or(1).saturating_sub(1).min(end),
            ('C', _) => self.column = self.column.saturating_add(number.unwrap_or(1)).min(end),
            ('D', _) => self.move_left(number.unwrap_or(1)),
            (_, _) => {}
        }
    }
}

/// The rest of the text.
struct Input<'a> {
    chars: Chars<'a>,
    /// A string terminator may still follow. Remembered, or a text of nothing but introducers would be
    /// searched once for each.
    strings_may_end: bool,
}

impl Input<'_> {
    /// Consumes what belongs to an ESC that has just been read.
    fn escape(&mut self, screen: &mut Screen) {
        match self.peek() {
            Some('[') => {
                self.chars.next();
                self.control_sequence(screen);
            }
            Some(']') => {
                self.chars.next();
                self.skip_operating_system_command();
            }
            Some('P' | 'X' | '^' | '_') => {
                self.chars.next();
                self.skip_string();
            }
            Some(' '..='/') => {
                self.take_while(|c| matches!(c, ' '..='/'));
                self.take_if(|c| matches!(c, '0'..='~'));
            }
            Some('0'..='~') => {
                self.chars.next();
            }
            Some(_) | None => {}
        }
    }

    /// CSI: parameters, intermediates, one final character. A sequence that is cut short by something
    /// else ends there, and the something else stays.
    fn control_sequence(&mut self, screen: &mut Screen) {
        let parameters = self.take_while(|c| matches!(c, '0'..='?'));
        let intermediates = self.take_while(|c| matches!(c, ' '..='/'));
        if let Some(last) = self.take_if(|c| matches!(c, '@'..='~'))
            && intermediates.is_empty()
        {
            screen.control(last, parameters);
        }
    }

    /// OSC (titles, hyperlinks): to BEL or ST. A line break ends it too, so that an unfinished one
    /// cannot swallow the rest of the output.
    fn skip_operating_system_command(&mut self) {
        self.take_while(|c| !matches!(c, BELL | STRING_TERMINATOR | ESCAPE | '\n'));
        match self.peek() {
            Some(BELL | STRING_TERMINATOR) => {
                self.chars.next();
            }
            Some(ESCAPE) if self.chars.as_str().starts_with("\u{1b}\\") => {
                self.chars.next();
                self.chars.next();
            }
            Some(_) | None => {}
        }
    }

    /// DCS, SOS, PM, APC: to ST. Without any ST only the introducer goes.
    fn skip_string(&mut self) {
        if !self.strings_may_end {
            return;
        }
        let rest = self.chars.as_str();
        let end = rest
            .match_indices([ESCAPE, STRING_TERMINATOR])
            .find_map(|(at, found)| {
                let after = at.saturating_add(found.len());
                match rest.get(after..)?.strip_prefix('\\') {
                    Some(_) if found.starts_with(ESCAPE) => Some(after.saturating_add(1)),
                    _ => found.starts_with(STRING_TERMINATOR).then_some(after),
                }
            });
        match end {
            Some(end) => self.chars = rest.get(end..).unwrap_or_default().chars(),
            None => self.strings_may_end = false,
        }
    }

    fn peek(&self) -> Option<char> {
        self.chars.clone().next()
    }

    fn take_if(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let c = self.peek().filter(|c| wanted(*c))?;
        self.chars.next();
        Some(c)
    }
}

impl<'a> Input<'a> {
    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.chars.as_str();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        let (taken, left) = rest.split_at_checked(end).unwrap_or((rest, ""));
        self.chars = left.chars();
        taken
    }
}
