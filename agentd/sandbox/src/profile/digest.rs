//! What a profile says, as one canonical text, and its SHA-256. In it: everything that the resolved
//! profile decides, and its labels. Not in it: files, lines, comments, order, values of variables.
//!
//! The text is JSON in the manner of RFC 8785: keys sorted, no blanks, whole numbers below 2^53.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{CommandRule, PathRule, Profile};

/// SHA-256 of [`canonical`], in hex.
pub(super) fn of(profile: &Profile) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(canonical(profile)) {
        // Writing to a string cannot fail.
        write!(hex, "{byte:02x}").unwrap_or_default();
    }
    hex
}

/// The canonical text.
pub(super) fn canonical(profile: &Profile) -> String {
    let mut text = String::new();
    write_value(&mut text, &document(profile));
    text
}

/// Everything in the digest, as JSON.
pub(super) fn document(profile: &Profile) -> Value {
    let limits = &profile.limits;
    json!({
        "schema": 1,
        "name": profile.name,
        "description": profile.description,
        "abstract": profile.is_abstract,
        "meta": profile.meta,
        "require": {
            "tier": profile.require.tier,
            "landlock_abi": profile.require.landlock_abi,
            "layers": profile.require.layers,
        },
        "identity": {
            "user": profile.identity.user,
            "umask": profile.identity.umask,
            "hostname": profile.identity.hostname,
        },
        "fs": {
            "rules": profile.fs.rules.iter().map(exposure).collect::<Vec<_>>(),
            "exec": profile.fs.exec.iter().map(|rule| rule.path.to_string()).collect::<Vec<_>>(),
            "tmp": profile.fs.tmp,
        },
        "env": {
            "pass": profile.env.pass,
            "set": profile.env.set,
            "deny": profile.env.deny,
        },
        "net": { "mode": profile.net },
        "syscalls": { "base": profile.syscalls },
        "limits": {
            "defaults": limits.defaults,
            "max_timeout_ms": limits.max_timeout_ms,
            "max_grace_ms": limits.max_grace_ms,
        },
        "commands": {
            "deny": sorted(profile.commands.rules.iter().map(command)),
            "literal": sorted(profile.commands.literals.iter().map(|literal| {
                json!({ "text": literal.text, "reason": literal.reason })
            })),
        },
    })
}

fn exposure(rule: &PathRule) -> Value {
    json!({ "path": rule.path.to_string(), "exposure": rule.exposure })
}

fn command(rule: &CommandRule) -> Value {
    json!({
        "reason": rule.reason,
        "programs": rule.programs,
        "flags": rule.flags,
        "operands": rule.operands,
        "args": rule.args,
        "redirects": rule.redirects,
        "except": rule.except,
    })
}

fn sorted(values: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut values: Vec<Value> = values.collect();
    values.sort_by_cached_key(|value| {
        let mut text = String::new();
        write_value(&mut text, value);
        text
    });
    values
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            // RFC 8785 sorts by UTF-16 code units.
            entries.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            write_list(text, ['{', '}'], entries, |text, (key, value)| {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_value(text, value);
            });
        }
        Value::Array(values) => write_list(text, ['[', ']'], values, write_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

fn write_list<T>(
    text: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    text.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(text, item);
    }
    text.push(close);
}
