//! The command blacklist: does a script contain a command that a rule of the profile refuses?
//!
//! Advisory, and it says so: it reads the script as bash would parse it and looks through the usual
//! wrappers, but it does not run it, so that what is only known at run time passes. The kernel is the
//! boundary. Pure and bounded: no I/O, no panic, and time and stack that hostile input cannot choose.

mod ansi_c;
mod brace;
mod cost;
mod extent;
mod path;
mod program;
mod rule;
mod script;
#[cfg(test)]
mod tests;
mod token;
mod walk;
mod word;
mod wrapper;

use agentd_sandbox::profile::{CommandRules, LiteralRule};

/// Largest script that is parsed, in bytes. A larger one is checked against literal rules only.
const MAX_PARSED_BYTES: usize = 256 * 1024;

/// Stack of the thread that parses. The parser is recursive; [`cost`] bounds its depth so that this
/// is enough, with a wide margin.
const PARSER_STACK_BYTES: usize = 64 * 1024 * 1024;

/// What the blacklist says about a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct CommandVerdict {
    /// The first command that a rule refuses.
    pub blocked: Option<Blocked>,
    /// Some of the script could not be parsed (too large, too deeply nested, or not bash as the parser
    /// knows it), so that only literal rules apply to that part. Nothing more is guessed: most scripts
    /// that do not parse do not run either, and the jail holds for all.
    pub unparsable: bool,
}

/// A refused command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The rule, as `file:line`.
    pub rule: String,
    /// The part of the script that matched, without its wrappers.
    pub matched: String,
    /// The reason given by the rule.
    pub reason: String,
}

/// Checks a script against the rules of a profile.
///
/// May take some tens of milliseconds for a large script: not for an async thread.
pub fn check(rules: &CommandRules, script: &[u8]) -> CommandVerdict {
    if let Some(rule) = rules.literals.iter().find(|rule| contains(script, rule)) {
        return CommandVerdict {
            blocked: Some(Blocked {
                rule: rule.rule.clone(),
                matched: rule.text.clone(),
                reason: rule.reason.clone(),
            }),
            unparsable: false,
        };
    }
    if rules.rules.is_empty() {
        return CommandVerdict::default();
    }
    if script.len() > MAX_PARSED_BYTES {
        return unparsable();
    }
    // bash drops NUL bytes from a script, and with them whatever they were to hide.
    let text = String::from_utf8_lossy(script).replace('\0', "");
    on_parser_thread(|| walk::check(&rules.rules, &text)).unwrap_or_else(unparsable)
}

fn contains(script: &[u8], rule: &LiteralRule) -> bool {
    let text = rule.text.as_bytes();
    !text.is_empty() && script.windows(text.len()).any(|window| window == text)
}

fn unparsable() -> CommandVerdict {
    CommandVerdict {
        blocked: None,
        unparsable: true,
    }
}

/// Runs `work` where deep recursion and panics of the parser do no harm. `None` when it panicked or
/// no thread was to be had.
fn on_parser_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("commands".to_owned())
            .stack_size(PARSER_STACK_BYTES)
            .spawn_scoped(scope, work)
            .ok()
            .and_then(|thread| thread.join().ok())
    })
}
