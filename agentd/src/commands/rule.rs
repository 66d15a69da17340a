//! One rule against one simple command or one redirection.

use agentd_sandbox::profile::CommandRule;

use super::{path, program, word::Word};

/// What a rule is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// The program and its arguments; empty for the redirections of a compound command.
    pub(super) words: &'a [Word],
    /// Targets of the output redirections.
    pub(super) redirects: &'a [Word],
}

/// Whether every condition of the rule holds, and what of the script met the last of them.
pub(super) fn matched(rule: &CommandRule, candidate: Candidate<'_>) -> Option<String> {
    let conditions = [
        &rule.programs,
        &rule.flags,
        &rule.operands,
        &rule.args,
        &rule.redirects,
    ];
    if conditions.iter().all(|condition| condition.is_empty()) {
        return None;
    }
    let arguments = candidate.words.get(1..).unwrap_or_default();
    let program = rule.programs.is_empty()
        || candidate
            .words
            .first()
            .and_then(program::name)
            .is_some_and(|name| rule.programs.iter().any(|pattern| name.matches(pattern)));
    let holds = program
        && rule.flags.iter().all(|flag| has_flag(arguments, flag))
        && any(&rule.operands, operands(arguments), &rule.except)
        && any(&rule.args, arguments.iter(), &rule.except);
    if !holds {
        return None;
    }
    if rule.redirects.is_empty() {
        return Some(command_text(candidate.words));
    }
    candidate
        .redirects
        .iter()
        .find(|target| any(&rule.redirects, std::iter::once(*target), &rule.except))
        .map(|target| format!("> {}", target.raw))
}

fn command_text(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    words.join(" ")
}

/// Arguments that are not options.
fn operands(arguments: &[Word]) -> impl Iterator<Item = &Word> {
    let end_of_options = arguments
        .iter()
        .position(|word| word.value() == Some("--"))
        .unwrap_or(arguments.len());
    arguments.iter().enumerate().filter_map(move |(at, word)| {
        let option = at <= end_of_options && word.known.starts_with('-') && word.known.len() > 1;
        (!option).then_some(word)
    })
}

/// Whether one of the words matches one of the patterns and no exception. True without patterns.
fn any<'a>(
    patterns: &[String],
    mut words: impl Iterator<Item = &'a Word>,
    except: &[String],
) -> bool {
    patterns.is_empty()
        || words.any(|word| {
            let spellings = path::spellings(word);
            let matches = |pattern: &String| {
                let pattern = path::pattern(pattern);
                spellings
                    .iter()
                    .any(|spelling| value_matches(spelling, word, &pattern))
            };
            patterns.iter().any(matches) && !except.iter().any(matches)
        })
}

/// Compares a spelling of a word, of which perhaps only the start is known. A trailing `*` matches any rest; only
/// the whole contents of the root or of home, `/*` and `~/*`, mean these globs themselves, since as
/// patterns they would match every path.
fn value_matches(spelling: &str, word: &Word, pattern: &str) -> bool {
    let whole = path::pattern("~/*");
    match pattern.strip_suffix('*') {
        Some(start) if pattern != "/*" && pattern != whole => spelling.starts_with(start),
        Some(_) | None => word.complete && spelling == pattern,
    }
}

/// Whether the options hold one of the alternatives of `flag` (`r|R|recursive`).
fn has_flag(arguments: &[Word], flag: &str) -> bool {
    arguments
        .iter()
        .take_while(|word| word.value() != Some("--"))
        .any(|word| flag.split('|').any(|name| is_flag(&word.known, name)))
}

fn is_flag(argument: &str, name: &str) -> bool {
    let long = argument.strip_prefix("--");
    let short = argument.strip_prefix('-').filter(|_| long.is_none());
    if name.chars().nth(1).is_none() {
        return short.is_some_and(|letters| !name.is_empty() && letters.contains(name));
    }
    let given = long.map(|long| long.split_once('=').map_or(long, |(given, _)| given));
    // GNU programs accept an unambiguous start of a long option.
    given.is_some_and(|given| !given.is_empty() && name.starts_with(given))
}
