//! The environment of a command: empty, then the profile's `set`, then what it passes, then what the
//! request removes and adds. Some names never reach a command in any of these ways.

use std::collections::BTreeMap;

use super::{EnvPolicy, HostFacts, Invocation, Refusal};
use crate::profile::{Variables, fill_value};

/// Largest environment that a request may add, in bytes.
const LARGEST_REQUEST: usize = 64 * 1024;

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

/// What every command begins with: what the profile sets, variables not yet filled in, and what it
/// passes.
pub(crate) fn base(rules: &EnvPolicy, facts: &HostFacts) -> BTreeMap<String, String> {
    let mut env = rules.set.clone();
    for name in &rules.pass {
        if let Some(value) = facts.environment.get(name) {
            env.insert(name.clone(), value.clone());
        }
    }
    env
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
