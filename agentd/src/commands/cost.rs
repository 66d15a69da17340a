//! What parsing would cost, estimated from above before it is done.
//!
//! The parser is recursive and backtracks: nested parentheses and `case` clauses are tried in two ways
//! each, so that hostile nesting costs exponential time, and any nesting costs stack. A script that
//! could exceed these bounds is not parsed at all.

use brush_parser::Token;

/// Most compound commands that are open at once. A person's script stays below a dozen.
const MAX_DEPTH: usize = 100;

/// Most steps of the parser, each a token seen once more because of backtracking.
const MAX_STEPS: u64 = 400_000;

/// Whether the parser may see these tokens.
pub(super) fn is_bounded(tokens: &[Token]) -> bool {
    let mut nesting = Nesting::default();
    let mut steps = 0_u64;
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at.saturating_add(1));
        nesting.step(token, next);
        let tries = 1_u64.checked_shl(nesting.ambiguous).unwrap_or(u64::MAX);
        steps = steps.saturating_add(tries);
        if nesting.open.len() > MAX_DEPTH || steps > MAX_STEPS {
            return false;
        }
    }
    true
}

/// What is open at a token.
#[derive(Default)]
struct Nesting {
    /// What closes each open construct.
    open: Vec<&'static str>,
    /// How many of these the parser tries in two ways.
    ambiguous: u32,
    /// A reserved word would be recognised here.
    position: Position,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Position {
    /// Start of a command.
    #[default]
    Command,
    /// After `function` or `coproc`: a name, and then the start of a command.
    Name,
    /// Anywhere else.
    Argument,
}

impl Nesting {
    fn step(&mut self, token: &Token, next: Option<&Token>) {
        match token {
            Token::Operator(operator, _) => self.operator(operator),
            Token::Word(word, _) => self.word(word, next),
        }
    }

    fn operator(&mut self, operator: &str) {
        match operator {
            "(" => self.push(")"),
            ")" => self.pop(")"),
            // The end of a command ends what only prefixes it.
            _ => {
                let kept = self.open.iter().rposition(|open| !open.is_empty());
                self.open
                    .truncate(kept.map_or(0, |at| at.saturating_add(1)));
            }
        }
        self.position = if operator.starts_with(['<', '>']) || operator.starts_with("&>") {
            Position::Argument
        } else {
            Position::Command
        };
    }

    fn word(&mut self, word: &str, next: Option<&Token>) {
        let position = std::mem::replace(&mut self.position, Position::Argument);
        // `!` nests in `[[ ! ! x ]]`, where no position is a command's.
        if word == "!" {
            self.push("");
            self.position = position;
            return;
        }
        match position {
            _ if word == "]]" => self.pop(word),
            Position::Argument => {}
            Position::Name => self.position = Position::Command,
            Position::Command => self.reserved(word, next),
        }
    }

    fn reserved(&mut self, word: &str, next: Option<&Token>) {
        let pattern = next.is_some_and(|next| matches!(next.to_str(), ")" | "|"));
        match word {
            "if" => self.push("fi"),
            "for" | "while" | "until" => self.push("done"),
            "case" => self.push("esac"),
            "{" => self.push("}"),
            "coproc" => self.push(""),
            "[[" => self.push("]]"),
            // A pattern of `case` may look like a closing word.
            "fi" | "done" | "esac" | "}" if !pattern => self.pop(word),
            _ => {}
        }
        self.position = match word {
            "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "{" | "time" => {
                Position::Command
            }
            "function" | "coproc" => Position::Name,
            _ => Position::Argument,
        };
    }

    fn push(&mut self, closing: &'static str) {
        if matches!(closing, ")" | "esac") {
            self.ambiguous = self.ambiguous.saturating_add(1);
        }
        self.open.push(closing);
    }

    /// Closes the innermost construct, if this is what closes it, with what only prefixes it.
    fn pop(&mut self, closing: &str) {
        let inner = self.open.iter().rposition(|open| !open.is_empty());
        let Some(at) = inner.filter(|at| self.open.get(*at).is_some_and(|open| *open == closing))
        else {
            return;
        };
        self.open.truncate(at);
        if matches!(closing, ")" | "esac") {
            self.ambiguous = self.ambiguous.saturating_sub(1);
        }
    }
}
