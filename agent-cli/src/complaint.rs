//! Errors and remarks on standard error: one line each, with the chain of causes printed once.

use std::{
    error::Error,
    fmt::Display,
    io::{self, Write},
};

use crate::terminal::neutral;

/// A cause that the person has been told already: the error that has it is not printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its message stands above")]
pub struct AlreadyTold;

/// Prints an error with its causes, unless it was told already.
pub fn error(error: &dyn Error) {
    if !is_told(error) {
        line(&chain(error));
    }
}

/// Whether [`AlreadyTold`] is among the causes.
#[must_use]
pub fn is_told(error: &dyn Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if cause.is::<AlreadyTold>() {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Prints a remark.
pub fn warning(text: &dyn Display) {
    line(&format!("warning: {text}"));
}

/// Prints a line that starts with the program's name.
pub fn line(text: &str) {
    let text = format!("agent-cli: {}\n", neutral(text.trim_end()));
    // Nobody is left to be told that standard error is closed.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// The error and its causes in one line. A cause that the text before it already holds is left out.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::chain;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open it; check the path")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_in_one_line() {
        let error = Outer(std::io::Error::other("no such file"));
        assert_eq!(
            chain(&error),
            "cannot open it; check the path: no such file"
        );
    }
}
