//! Checks `[env]`. What must never reach a command is refused here for the profile itself, so that no
//! profile can pass or set it either; requests are filtered again when a policy is made.

use super::{ProfileError, fragment::Settings, locate::Source, raw::RawEnv, template};
use crate::policy::{is_variable_name, never_allowed};

/// Fills `settings.env` and the places of its entries.
pub(super) fn check(
    source: Source<'_>,
    raw: &RawEnv,
    settings: &mut Settings,
) -> Result<(), ProfileError> {
    for name in &raw.pass {
        name_is_possible(name.get_ref())
            .map_err(|problem| source.wrong(name, "env.pass", problem))?;
        settings
            .sources
            .insert(format!("env.pass.{}", name.get_ref()), source.of(name));
        settings.env.pass.push(name.get_ref().clone());
    }
    for (name, value) in &raw.set {
        let key = format!("env.set.{name}");
        let problem = if settings.env.pass.contains(name) {
            Err("is in `env.pass` as well; keep one of them".to_owned())
        } else {
            name_is_possible(name).and_then(|()| template::check_value(value.get_ref()))
        };
        problem.map_err(|problem| source.wrong(value, &key, problem))?;
        settings.sources.insert(key, source.of(value));
        settings
            .env
            .set
            .insert(name.clone(), value.get_ref().clone());
    }
    for pattern in &raw.deny {
        let text = pattern.get_ref();
        let name = text
            .strip_suffix('*')
            .or_else(|| text.strip_prefix('*'))
            .unwrap_or(text);
        // A suffix such as `_TOKEN` or `2` need not be a name by itself.
        if !is_variable_name(&format!("_{name}")) || text.is_empty() || text == "**" {
            let problem =
                format!("\"{text}\" is no pattern; write a name with at most one `*` at an end");
            return Err(source.wrong(pattern, "env.deny", problem));
        }
        settings
            .sources
            .insert(format!("env.deny.{text}"), source.of(pattern));
        settings.env.deny.push(text.clone());
    }
    Ok(())
}

fn name_is_possible(name: &str) -> Result<(), String> {
    if !is_variable_name(name) {
        return Err(format!(
            "\"{name}\" is no variable name; use letters, digits and `_`"
        ));
    }
    match never_allowed(name) {
        Some(reason) => Err(format!(
            "{name} never reaches a command ({reason}); remove it"
        )),
        None => Ok(()),
    }
}
