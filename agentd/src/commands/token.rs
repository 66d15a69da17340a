//! Text to tokens, for the parser.
//!
//! The parser's own tokenizer is not used: there is input on which it never ends, and more on which it
//! takes quadratic time. This one reads the text once. `None` means that a quote or an expansion has no
//! end, which bash refuses too.

use std::sync::Arc;

use brush_parser::{SourcePosition, SourceSpan, Token};

use super::extent::{self, Open};

/// Operators, each before its own prefixes.
const OPERATORS: &[&str] = &[
    "<<<", "<<-", "&>>", ";;&", "&&", "||", ";;", ";&", "|&", "<<", ">>", "<&", ">&", "<>", ">|",
    "&>", "&", "|", ";", "(", ")", "<", ">",
];

/// How often `((` is looked at more closely; each look reads up to the closing parenthesis.
const MAX_ARITHMETIC_SEARCHES: u32 = 1_000;

/// The tokens of a script.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut lexer = Lexer {
        text,
        at: 0,
        tokens: Vec::new(),
        tag: None,
        heredocs: Vec::new(),
        arithmetic_end: 0,
        searches: MAX_ARITHMETIC_SEARCHES,
    };
    while lexer.step()? {}
    lexer.heredoc_bodies();
    Some(lexer.tokens)
}

/// Whether a command may start after the token.
pub(super) fn precedes_command(token: &Token) -> bool {
    match token {
        Token::Operator(operator, _) => !operator.starts_with(['<', '>']),
        Token::Word(word, _) => matches!(
            word.as_str(),
            "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "{" | "!" | "time"
        ),
    }
}

struct Lexer<'a> {
    text: &'a str,
    /// Start of the rest, in bytes.
    at: usize,
    tokens: Vec<Token>,
    /// The next word is the tag of a here-document.
    tag: Option<Tabs>,
    /// Here-documents whose bodies start after this line.
    heredocs: Vec<Heredoc>,
    /// Up to here `<<` is a shift.
    arithmetic_end: usize,
    searches: u32,
}

/// What becomes of tabs at the start of the lines of a here-document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tabs {
    Kept,
    Stripped,
}

struct Heredoc {
    tabs: Tabs,
    tag: String,
    /// Place of the token that holds the body.
    body: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Reads one token, or what is between tokens. `Some(false)` at the end.
    fn step(&mut self) -> Option<bool> {
        let rest = self.rest();
        match rest.chars().next() {
            None => return Some(false),
            Some(' ' | '\t') => self.skip(1),
            Some('\\') if rest.starts_with("\\\n") => self.skip(2),
            Some('#') => self.skip(rest.find('\n').unwrap_or(rest.len())),
            Some('\n') => {
                self.operator("\n");
                self.heredoc_bodies();
            }
            Some(_) => match OPERATORS
                .iter()
                .find(|operator| rest.starts_with(**operator))
            {
                Some(operator) => self.operator(operator),
                None => self.word()?,
            },
        }
        Some(true)
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn operator(&mut self, operator: &str) {
        let is_shift = operator.starts_with("<<") && self.at < self.arithmetic_end;
        self.tag = match operator {
            "<<" if !is_shift => Some(Tabs::Kept),
            "<<-" if !is_shift => Some(Tabs::Stripped),
            _ => None,
        };
        if operator == "(" {
            self.note_arithmetic();
        }
        let start = self.at;
        self.skip(operator.len());
        self.tokens
            .push(Token::Operator(operator.to_owned(), span(start, self.at)));
    }

    /// `((…))` is arithmetic if the parenthesis that closes the second one is followed by the other.
    fn note_arithmetic(&mut self) {
        if self.at < self.arithmetic_end || self.searches == 0 || !self.rest().starts_with("((") {
            return;
        }
        self.searches = self.searches.saturating_sub(1);
        let inside = self.rest().get(2..).unwrap_or_default();
        if let Some(end) = extent::closing(inside, Open::Paren)
            && inside
                .get(end..)
                .is_some_and(|closing| closing.starts_with("))"))
        {
            self.arithmetic_end = self.at.saturating_add(end);
        }
    }

    fn word(&mut self) -> Option<()> {
        let start = self.at;
        let mut word = String::new();
        while let Some(c) = self.rest().chars().next() {
            let rest = self.rest();
            let length = match c {
                '\\' if rest.starts_with("\\\n") => {
                    self.skip(2);
                    continue;
                }
                '(' if self.in_extended_pattern(&word) => {
                    extent::closing(rest.get(1..)?, Open::Paren)?.saturating_add(2)
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                _ => extent::piece(rest)?,
            };
            word.push_str(rest.get(..length)?);
            self.skip(length);
        }
        if let Some(tabs) = self.tag.take() {
            self.heredoc(tabs, &word, start);
        } else {
            self.tokens.push(Token::Word(word, span(start, self.at)));
        }
        Some(())
    }

    /// Whether a parenthesis after `word` belongs to a pattern such as `@(a|b)`. At the start of a
    /// command `!(` is a negated subshell.
    fn in_extended_pattern(&self, word: &str) -> bool {
        let negation = word == "!" && self.tokens.last().is_none_or(precedes_command);
        word.ends_with(['@', '!', '?', '+', '*']) && !negation
    }

    /// The parser wants four tokens: operator, tag, body, tag. The body is filled in when it is reached.
    fn heredoc(&mut self, tabs: Tabs, tag: &str, start: usize) {
        let here = span(start, self.at);
        let unquoted: String = tag
            .chars()
            .filter(|c| !matches!(c, '\'' | '"' | '\\'))
            .collect();
        self.tokens.push(Token::Word(tag.to_owned(), here.clone()));
        self.heredocs.push(Heredoc {
            tabs,
            tag: unquoted.clone(),
            body: self.tokens.len(),
        });
        self.tokens.push(Token::Word(String::new(), here.clone()));
        self.tokens.push(Token::Word(unquoted, here));
    }

    /// Reads the bodies that start here. At the end of the script one may lack its closing line.
    fn heredoc_bodies(&mut self) {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let mut body = String::new();
            for line in self.rest().split_inclusive('\n') {
                self.skip(line.len());
                let line = match heredoc.tabs {
                    Tabs::Kept => line,
                    Tabs::Stripped => line.trim_start_matches('\t'),
                };
                if line.strip_suffix('\n').unwrap_or(line) == heredoc.tag {
                    break;
                }
                body.push_str(line);
            }
            if let Some(Token::Word(text, _)) = self.tokens.get_mut(heredoc.body) {
                *text = body;
            }
        }
    }
}

/// Where a token stands. The parser only compares the ends of neighbours, so that offsets do.
fn span(start: usize, end: usize) -> SourceSpan {
    let position = |index| {
        Arc::new(SourcePosition {
            index,
            line: 0,
            column: 0,
        })
    };
    SourceSpan {
        start: position(start),
        end: position(end),
    }
}
