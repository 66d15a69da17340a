//! Text to syntax tree, within bounds.

use brush_parser::{ParserOptions, Token, ast};

use super::{cost, token};

/// Longest number before a redirection (`2>`) that the parser can take; it panics on larger ones.
const MAX_DESCRIPTOR_DIGITS: usize = 9;

/// Parses a script. `None` when it is not bash as the parser knows it, or would cost too much.
pub(super) fn parse(text: &str) -> Option<ast::Program> {
    let tokens = as_known_to_the_parser(token::tokens(text)?);
    if tokens.windows(2).any(is_huge_descriptor) || !cost::is_bounded(&tokens) {
        return None;
    }
    brush_parser::parse_tokens(&tokens, &ParserOptions::default()).ok()
}

/// Rewrites what the parser takes for something else than bash does.
fn as_known_to_the_parser(tokens: Vec<Token>) -> Vec<Token> {
    let mut rewritten: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut in_test = false;
    for token in tokens {
        let previous = rewritten.last();
        in_test = match token.to_str() {
            "[[" => previous.is_none_or(token::precedes_command),
            "]]" | ";" | "\n" | "&" => false,
            _ => in_test,
        };
        let separator = previous.and_then(|previous| separator(previous, &token));
        rewritten.extend(separator.filter(|_| !in_test));
        rewritten.push(match token {
            // The syntax of `select` is that of `for`. As an argument the word may be replaced as well:
            // it is neither a path nor a program.
            Token::Word(word, location) if word == "select" => {
                Token::Word("for".to_owned(), location)
            }
            Token::Word(..) | Token::Operator(..) => token,
        });
    }
    rewritten
}

/// A line break between two parentheses that the script separates: only `((` and `))` without anything
/// between are arithmetic; `( (` are two subshells.
fn separator(left: &Token, right: &Token) -> Option<Token> {
    let parentheses = matches!(
        (left, right),
        (Token::Operator(left, _), Token::Operator(right, _)) if left == right && matches!(left.as_str(), "(" | ")")
    );
    let apart = left.location().end.index != right.location().start.index;
    (parentheses && apart).then(|| Token::Operator("\n".to_owned(), right.location().clone()))
}

fn is_huge_descriptor(pair: &[Token]) -> bool {
    match pair {
        [Token::Word(word, _), Token::Operator(operator, _)] => {
            operator.starts_with(['<', '>'])
                && word.len() > MAX_DESCRIPTOR_DIGITS
                && word.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}
