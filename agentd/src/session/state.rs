//! Where a session stands: the directory and the variables that its next command begins with, and how
//! the report of a command changes them. Pure.
//!
//! A command changes only what it changed: where several ran at once, the last to end wins for what
//! both changed, and neither undoes what only the other did.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agentd_sandbox::policy::{Carried, may_be_passed};

use super::{
    base::{Base, is_of_the_jail},
    report::{Place, Report},
};

/// Most bytes, as JSON, that are carried from command to command.
pub(super) const MAX_CARRIED: usize = 32 * 1024;

/// Most names in a remark.
const MAX_NAMED: usize = 10;

/// What a command began with.
#[derive(Debug, Clone, Default)]
pub(super) struct Beginning {
    /// From the session.
    pub(super) carried: Carried,
    /// Variables of its own request.
    pub(super) env_set: BTreeMap<String, String>,
    /// Variables that its own request removed.
    pub(super) env_unset: Vec<String>,
    /// Directory of its own request.
    pub(super) cwd: Option<PathBuf>,
}

impl Beginning {
    /// The value it began with, where session or request set one.
    fn value(&self, name: &str) -> Option<&String> {
        let own = self.env_set.get(name);
        own.or_else(|| self.carried.env_set.get(name))
    }

    /// Session or request took the variable away.
    fn lacks(&self, name: &str) -> bool {
        let removed = |names: &[String]| names.iter().any(|known| known == name);
        self.value(name).is_none() && (removed(&self.env_unset) || removed(&self.carried.env_unset))
    }
}

/// What a report is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// What its command began with.
    pub(super) beginning: &'a Beginning,
    /// What every command begins with.
    pub(super) base: &'a Base,
    /// Where it began, as the launcher said.
    pub(super) started_in: Option<&'a str>,
    /// The workspace.
    pub(super) workspace: &'a Path,
}

/// Changes `carried` by a report. The answer: remarks for a person.
pub(super) fn apply(carried: &mut Carried, report: &Report, context: &Context<'_>) -> Vec<String> {
    let mut notes = move_to(carried, &report.place, context);
    let mut next = carried.clone();
    take_set(&mut next, report, context);
    take_unset(&mut next, report, context);
    notes.extend(left_out(report, context));
    if next == *carried {
        return notes;
    }
    if size(&next) > MAX_CARRIED {
        notes.push(format!(
            "what this command exported was not kept for the next one: with it the session would carry more than {MAX_CARRIED} bytes; export less, or write it to a file"
        ));
    } else {
        *carried = next;
    }
    notes
}

/// Bytes as JSON.
pub(super) fn size(carried: &Carried) -> usize {
    serde_json::to_vec(carried).map_or(usize::MAX, |json| json.len())
}

fn move_to(carried: &mut Carried, place: &Place, context: &Context<'_>) -> Vec<String> {
    let workspace = context.workspace.display();
    match place {
        Place::At(directory) => {
            let directory = Path::new(directory);
            if directory != expected(context) {
                carried.cwd = (directory != context.workspace).then(|| directory.to_owned());
            }
            Vec::new()
        }
        Place::Gone => {
            carried.cwd = None;
            vec![format!(
                "the working directory no longer exists; the next command starts in {workspace}"
            )]
        }
        Place::Unspeakable => {
            carried.cwd = None;
            vec![format!(
                "the name of the working directory is not UTF-8, so that it was not kept; the next command starts in {workspace}"
            )]
        }
    }
}

/// Where the command ends if it goes nowhere. A request's own directory is its own: it moves the session
/// only if the command leaves it.
fn expected<'a>(context: &Context<'a>) -> &'a Path {
    let beginning = context.beginning;
    match (&beginning.cwd, context.started_in) {
        (Some(_), Some(started)) => Path::new(started),
        (Some(own), None) => own,
        (None, _) => beginning
            .carried
            .cwd
            .as_deref()
            .unwrap_or(context.workspace),
    }
}

fn take_set(next: &mut Carried, report: &Report, context: &Context<'_>) {
    let Context {
        beginning, base, ..
    } = context;
    for (name, value) in &report.exported {
        if is_of_the_jail(name) || !may_be_passed(name) {
            continue;
        }
        let before = beginning.value(name);
        let is_given = base.gives(name, value);
        let is_untouched = match before {
            Some(before) => before == value,
            None => is_given && !beginning.lacks(name),
        };
        if is_untouched {
            continue;
        }
        next.env_unset.retain(|known| known != name);
        if is_given {
            next.env_set.remove(name);
        } else {
            next.env_set.insert(name.clone(), value.clone());
        }
    }
}

fn take_unset(next: &mut Carried, report: &Report, context: &Context<'_>) {
    let Context {
        beginning, base, ..
    } = context;
    let began_with: BTreeSet<&String> = beginning
        .env_set
        .keys()
        .chain(beginning.carried.env_set.keys())
        .chain(base.names())
        .filter(|name| !beginning.lacks(name) && !is_of_the_jail(name))
        .collect();
    for name in began_with {
        if report.exported.contains_key(name) || report.unspeakable.contains(name) {
            continue;
        }
        next.env_set.remove(name);
        if base.has(name) && !next.env_unset.contains(name) {
            next.env_unset.push(name.clone());
        }
    }
}

/// What was exported and reaches no other command.
fn left_out(report: &Report, context: &Context<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let forbidden: Vec<&String> = report
        .exported
        .keys()
        .filter(|name| !may_be_passed(name) && !is_of_the_jail(name))
        .filter(|name| context.beginning.value(name).is_none())
        .collect();
    if !forbidden.is_empty() {
        notes.push(format!(
            "exported, but the sandbox hands it on to no other command: {}",
            names(&forbidden)
        ));
    }
    let unspeakable: Vec<&String> = report.unspeakable.iter().collect();
    if !unspeakable.is_empty() {
        notes.push(format!(
            "exported, but not kept for the next command because the value is not UTF-8: {}",
            names(&unspeakable)
        ));
    }
    notes
}

fn names(names: &[&String]) -> String {
    let mut shown: Vec<&str> = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| name.as_str())
        .collect();
    if names.len() > MAX_NAMED {
        shown.push("...");
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests;
