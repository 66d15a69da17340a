//! The environment of a command: empty, then the profile's `set`, then what it passes, then what the session
//! carries, then what the request removes and adds. Some names never reach a command in any of these ways.

use std::collections::BTreeMap;

use super::{Carried, EnvPolicy, HostFacts, Invocation, Refusal};
use crate::profile::{Variables, fill_value};

/// Largest environment that a request may add, in bytes.
const LARGEST_REQUEST: usize = 64 * 1024;

/// The kind of terminal that a command on one is told.
const TERMINAL: &str = "xterm-256color";
/// What commands are told without one and with one: no choice of theirs, so nothing to carry on.
const KINDS: [&str; 2] = ["dumb", TERMINAL];
/// Names that are decided anew for each command, by the jail or by its shell: where private files go
/// differs between commands of a session, and a shell counts and places itself.
const DECIDED: [&str; 5] = ["TMPDIR", "PWD", "SHLVL", "_", "POSIXLY_CORRECT"];

/// Names that change how the shell or the loader of *every* program start: a command under the profile
/// would not be what its text says.
const STARTERS: [&str; 14] = [
    "LD_*",
    "DYLD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "IFS",
    "GLOBIGNORE",
    "BASH_XTRACEFD",
];
/// Names that hold secrets, or lead to an agent or service that holds them.
const SECRETS: [&str; 19] = [
    "*_TOKEN",
    "TOKEN",
    "*_KEY",
    "*_SECRET",
    "*_SECRETS",
    "*_PASSWORD",
    "PASSWORD",
    "*_PASSWD",
    "*_PASSPHRASE",
    "*_CREDENTIALS",
    "*_AUTHTOKEN",
    "AWS_*",
    "AZURE_*",
    "ANTHROPIC_*",
    "OPENAI_*",
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "KUBECONFIG",
];

/// Why a variable never reaches a command; `None` when it may.
pub(crate) fn never_allowed(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    if STARTERS.iter().any(|pattern| matches(pattern, &upper)) {
        return Some("it changes how every program starts");
    }
    let secret = SECRETS.iter().any(|pattern| matches(pattern, &upper));
    secret.then_some("it may hold a secret")
}

/// Whether a variable of the daemon's own environment may be offered to profiles, for their `env.pass`.
#[must_use]
pub fn may_be_passed(name: &str) -> bool {
    is_variable_name(name) && never_allowed(name).is_none()
}

/// Letters, digits and `_`, not beginning with a digit.
pub(crate) fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A name, or a name with one leading or trailing `*`.
fn matches(pattern: &str, name: &str) -> bool {
    if let Some(prefix) = pattern.strip_suffix('*') {
        return name.starts_with(prefix);
    }
    match pattern.strip_prefix('*') {
        Some(suffix) => name.ends_with(suffix),
        None => name == pattern,
    }
}

/// The complete environment.
pub(super) fn build(
    rules: &EnvPolicy,
    invocation: &Invocation,
    facts: &HostFacts,
    variables: &Variables<'_>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut env: BTreeMap<String, String> = rules
        .set
        .iter()
        .map(|(name, value)| (name.clone(), fill_value(value, variables)))
        .collect();
    for name in &rules.pass {
        if let Some(value) = facts.environment.get(name) {
            env.insert(name.clone(), value.clone());
        }
    }
    if let Some(session) = &invocation.in_session {
        carry(rules, &session.carried, &mut env);
    }
    if invocation.terminal.is_some() {
        env.insert("TERM".to_owned(), TERMINAL.to_owned());
        if let Some(chosen) = carried_terminal(rules, invocation) {
            env.insert("TERM".to_owned(), chosen.clone());
        }
    }
    for name in &invocation.env_unset {
        check_request(rules, name)?;
        env.remove(name);
    }
    let mut size: usize = 0;
    for (name, value) in &invocation.env_set {
        check_request(rules, name)?;
        if let Some(reason) = never_allowed(name) {
            return Err(denied(name, reason));
        }
        if value.contains('\0') {
            return Err(Refusal::Malformed(format!(
                "the value of environment variable '{name}' holds a NUL byte; remove it"
            )));
        }
        size = size.saturating_add(name.len()).saturating_add(value.len());
        env.insert(name.clone(), value.clone());
    }
    if size > LARGEST_REQUEST {
        return Err(Refusal::Malformed(
            "the added environment is larger than 64 KiB; pass data in a file".to_owned(),
        ));
    }
    Ok(env)
}

/// What earlier commands of the session exported and unset. Whatever a request could not set or remove is
/// left out, and so is what the jail decides anew for each command.
fn carry(rules: &EnvPolicy, carried: &Carried, env: &mut BTreeMap<String, String>) {
    let permitted = |name: &str| {
        check_request(rules, name).is_ok()
            && never_allowed(name).is_none()
            && !DECIDED.contains(&name)
    };
    for name in carried.env_unset.iter().filter(|name| permitted(name)) {
        env.remove(name);
    }
    let mut left = LARGEST_REQUEST;
    for (name, value) in &carried.env_set {
        let size = name.len().saturating_add(value.len());
        let decided = name == "TERM" && KINDS.contains(&value.as_str())
            || rules
                .set
                .get(name)
                .is_some_and(|template| was_private(template, value));
        if permitted(name) && !decided && !value.contains('\0') && size <= left {
            left = left.saturating_sub(size);
            env.insert(name.clone(), value.clone());
        }
    }
}

/// Whether a value is what the profile says of a variable below the private directory of some command.
fn was_private(template: &str, value: &str) -> bool {
    template
        .split_once("${tmp}")
        .is_some_and(|(before, after)| value.starts_with(before) && value.ends_with(after))
}

/// The kind of terminal that an earlier command chose.
fn carried_terminal<'request>(
    rules: &EnvPolicy,
    invocation: &'request Invocation,
) -> Option<&'request String> {
    let carried = &invocation.in_session.as_ref()?.carried;
    let chosen = carried.env_set.get("TERM")?;
    let permitted = check_request(rules, "TERM").is_ok() && !chosen.contains('\0');
    (permitted && !KINDS.contains(&chosen.as_str())).then_some(chosen)
}

/// What holds for setting and for removing alike.
fn check_request(rules: &EnvPolicy, name: &str) -> Result<(), Refusal> {
    if !is_variable_name(name) {
        return Err(denied(
            name,
            "it is no variable name; use letters, digits and `_`",
        ));
    }
    if rules.deny.iter().any(|pattern| matches(pattern, name)) {
        return Err(denied(name, "the profile's `env.deny` holds it"));
    }
    Ok(())
}

fn denied(name: &str, reason: &str) -> Refusal {
    Refusal::EnvDenied {
        name: name.to_owned(),
        reason: reason.to_owned(),
    }
}
