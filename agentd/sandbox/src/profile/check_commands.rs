//! Checks `[commands]`: every rule has a reason and a condition, every pattern is one that the matcher
//! understands.

use super::{
    CommandRule, CommandRules, LiteralRule, ProfileError,
    locate::Source,
    raw::{RawCommandRule, RawCommands},
};

/// The rules, with their places.
pub(super) fn check(source: Source<'_>, raw: RawCommands) -> Result<CommandRules, ProfileError> {
    let mut commands = CommandRules::default();
    for spanned in raw.deny {
        let at = source.of(&spanned);
        rule_is_possible(spanned.get_ref())
            .map_err(|problem| source.wrong(&spanned, "commands.deny", problem))?;
        let rule = spanned.into_inner();
        commands.rules.push(CommandRule {
            rule: at.to_string(),
            reason: rule.reason,
            programs: rule.programs,
            flags: rule.flags,
            operands: rule.operands,
            args: rule.args,
            redirects: rule.redirects,
            except: rule.except,
        });
    }
    for spanned in raw.literal {
        let at = source.of(&spanned);
        let rule = spanned.get_ref();
        if rule.reason.trim().is_empty() || rule.text.trim().is_empty() {
            let problem = "needs a `text` and a `reason`; write both".to_owned();
            return Err(source.wrong(&spanned, "commands.literal", problem));
        }
        let rule = spanned.into_inner();
        commands.literals.push(LiteralRule {
            rule: at.to_string(),
            reason: rule.reason,
            text: rule.text,
        });
    }
    Ok(commands)
}

fn rule_is_possible(rule: &RawCommandRule) -> Result<(), String> {
    if rule.reason.trim().is_empty() {
        return Err("has no `reason`; say what to do instead, the model reads it".to_owned());
    }
    if rule.programs.is_empty() && rule.redirects.is_empty() {
        return Err("matches every command; give `programs` or `redirects`".to_owned());
    }
    if let Some(slash) = rule.programs.iter().find(|name| name.contains('/')) {
        return Err(format!(
            "program \"{slash}\" holds a slash; write its last component"
        ));
    }
    let lists = [
        &rule.programs,
        &rule.flags,
        &rule.operands,
        &rule.args,
        &rule.redirects,
    ];
    for pattern in lists.into_iter().flatten().chain(&rule.except) {
        if pattern.is_empty() || pattern == "*" {
            return Err(format!(
                "pattern \"{pattern}\" matches everything; write what is meant"
            ));
        }
    }
    if let Some(flag) = rule.flags.iter().find(|flag| flag.starts_with('-')) {
        return Err(format!(
            "flag \"{flag}\" begins with a dash; write it without"
        ));
    }
    Ok(())
}
