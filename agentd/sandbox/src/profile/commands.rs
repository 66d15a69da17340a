//! The command blacklist of a profile: data only. The front end matches it against parsed bash.

use serde::{Deserialize, Serialize};

/// All rules of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRules {
    /// Rules on the syntax tree.
    pub rules: Vec<CommandRule>,
    /// Substrings of the script's text.
    pub literals: Vec<LiteralRule>,
}

/// A rule on one simple command (or redirection) of the parsed script. Every non-empty condition must
/// hold. Patterns are literal, except that a trailing `*` matches any rest; paths are compared in one
/// spelling, and a glob for everything in a directory (`/etc/*`) counts as the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Where the rule stands, as `file:line`.
    pub rule: String,
    /// What the model reads.
    pub reason: String,
    /// Program names: the last path component of the command word is one of them.
    pub programs: Vec<String>,
    /// Flags, each a list of alternatives separated by `|` (`r|R|recursive`): one letter matches in a
    /// bundle of short options, a longer one as `--name`. Every entry must be present.
    pub flags: Vec<String>,
    /// Arguments that are not options: one of them matches one of these.
    pub operands: Vec<String>,
    /// Any arguments, options included: one of them matches one of these.
    pub args: Vec<String>,
    /// Targets of output redirections: one of them matches one of these.
    pub redirects: Vec<String>,
    /// Values that never match `operands`, `args` and `redirects`.
    pub except: Vec<String>,
}

/// A substring rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiteralRule {
    /// Where the rule stands, as `file:line`.
    pub rule: String,
    /// What the model reads.
    pub reason: String,
    /// The text.
    pub text: String,
}
