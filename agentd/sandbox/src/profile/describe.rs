//! A profile as text and as JSON: what it says with its parents, variables not filled, each rule with
//! its place. The same profile gives the same text.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::{CommandRule, PathRule, Profile, digest};
use crate::policy::{Exposure, NetMode, SyscallBase};

/// The profile as text for a person.
#[must_use]
pub fn describe(profile: &Profile) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    write(&mut text, profile).unwrap_or_default();
    text
}

/// The profile as a JSON object: its canonical content, and where everything stands.
#[must_use]
pub fn describe_json(profile: &Profile) -> Value {
    let mut document = digest::document(profile);
    let places = |rules: &[PathRule]| -> Value {
        rules
            .iter()
            .map(|rule| (rule.path.to_string(), json!(rule.rule.to_string())))
            .collect()
    };
    if let Some(object) = document.as_object_mut() {
        object.insert("file".to_owned(), json!(profile.file));
        object.insert("parents".to_owned(), json!(profile.parents));
        object.insert("digest".to_owned(), json!(profile.digest));
        let values = profile.sources.iter();
        object.insert(
            "places".to_owned(),
            json!({
                "fs": places(&profile.fs.rules),
                "exec": places(&profile.fs.exec),
                "values": values.map(|(key, rule)| (key.clone(), json!(rule.to_string())))
                    .collect::<serde_json::Map<String, Value>>(),
            }),
        );
    }
    document
}

fn write(text: &mut String, profile: &Profile) -> fmt::Result {
    writeln!(text, "profile      {}", profile.name)?;
    writeln!(text, "description  {}", profile.description)?;
    writeln!(text, "digest       {}", profile.digest)?;
    let chain: Vec<&str> = std::iter::once(profile.file.as_str())
        .chain(profile.parents.iter().map(String::as_str))
        .collect();
    writeln!(text, "made of      {}", chain.join(" < "))?;
    for (key, value) in &profile.meta {
        writeln!(text, "meta         {key} = {value}")?;
    }
    values(text, profile)?;
    writeln!(
        text,
        "\nfiles (the longest path wins; what is not listed is denied)"
    )?;
    for rule in &profile.fs.rules {
        let word = exposure(rule.exposure);
        writeln!(text, "  {word:<8} {}  [{}]", rule.path, rule.rule)?;
    }
    writeln!(
        text,
        "\nprograms run from (and from the private temporary directories)"
    )?;
    for rule in &profile.fs.exec {
        writeln!(text, "  {}  [{}]", rule.path, rule.rule)?;
    }
    environment(text, profile)?;
    writeln!(text, "\nblacklist (advisory)")?;
    for rule in &profile.commands.rules {
        writeln!(
            text,
            "  {}: {}  [{}]",
            condition(rule),
            rule.reason,
            rule.rule
        )?;
    }
    for rule in &profile.commands.literals {
        writeln!(
            text,
            "  text {:?}: {}  [{}]",
            rule.text, rule.reason, rule.rule
        )?;
    }
    Ok(())
}

/// Single values.
fn values(text: &mut String, profile: &Profile) -> fmt::Result {
    let limits = &profile.limits;
    let optional = |value: Option<u64>| value.map_or_else(|| "none".to_owned(), |v| v.to_string());
    let layers: Vec<&str> = profile
        .require
        .layers
        .iter()
        .map(|layer| layer.name())
        .collect();
    let [net, syscalls, user] = words(profile);
    let tmp = format!(
        "{} bytes, {} inodes",
        profile.fs.tmp.size_bytes, profile.fs.tmp.inodes
    );
    writeln!(text, "\nvalues")?;
    writeln!(text, "  require.layers = {}", layers.join(", "))?;
    for (key, value) in [
        ("require.tier", profile.require.tier.name().to_owned()),
        (
            "require.landlock_abi",
            profile.require.landlock_abi.to_string(),
        ),
        ("identity.user", user.to_owned()),
        ("identity.umask", format!("{:04o}", profile.identity.umask)),
        ("identity.hostname", profile.identity.hostname.clone()),
        ("fs.tmp", tmp),
        ("net.mode", net.to_owned()),
        ("syscalls.base", syscalls.to_owned()),
        ("limits.wall", format!("{} ms", limits.defaults.timeout_ms)),
        ("limits.wall_max", format!("{} ms", limits.max_timeout_ms)),
        (
            "limits.grace",
            format!("{} ms", limits.defaults.kill_grace_ms),
        ),
        ("limits.grace_max", format!("{} ms", limits.max_grace_ms)),
        ("limits.idle", optional(limits.defaults.idle_timeout_ms)),
        ("limits.cpu", optional(limits.defaults.cpu_seconds)),
        ("limits.memory", optional(limits.defaults.memory_bytes)),
        ("limits.pids", optional(limits.defaults.pids)),
        ("limits.open_files", limits.defaults.open_files.to_string()),
        (
            "limits.file_size",
            optional(limits.defaults.file_size_bytes),
        ),
        ("limits.output", optional(limits.defaults.output_bytes)),
        ("limits.disk", optional(limits.defaults.disk_bytes)),
    ] {
        match profile.sources.get(key) {
            Some(place) => writeln!(text, "  {key} = {value}  [{place}]")?,
            None => writeln!(text, "  {key} = {value}")?,
        }
    }
    Ok(())
}

/// Network, system calls and user in the profile's own words.
fn words(profile: &Profile) -> [&'static str; 3] {
    let net = match profile.net {
        NetMode::None => "none",
        NetMode::Host => "host (unfiltered)",
    };
    let syscalls = match profile.syscalls {
        SyscallBase::Dev => "dev",
        SyscallBase::Strict => "strict",
    };
    let user = match profile.identity.user {
        super::UserRule::Caller => "caller",
        super::UserRule::Ephemeral => "ephemeral",
    };
    [net, syscalls, user]
}

fn environment(text: &mut String, profile: &Profile) -> fmt::Result {
    let place = |key: &str| {
        profile
            .sources
            .get(key)
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    writeln!(text, "\nenvironment")?;
    for name in &profile.env.pass {
        writeln!(
            text,
            "  pass {name}  [{}]",
            place(&format!("env.pass.{name}"))
        )?;
    }
    for (name, value) in &profile.env.set {
        let place = place(&format!("env.set.{name}"));
        writeln!(text, "  set  {name}={}  [{place}]", value.escape_debug())?;
    }
    for pattern in &profile.env.deny {
        writeln!(
            text,
            "  deny {pattern}  [{}]",
            place(&format!("env.deny.{pattern}"))
        )?;
    }
    Ok(())
}

fn exposure(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Read => "read",
        Exposure::Write => "write",
        Exposure::Readonly => "readonly",
        Exposure::Deny => "deny",
    }
}

fn condition(rule: &CommandRule) -> String {
    let parts = [
        ("programs", &rule.programs),
        ("flags", &rule.flags),
        ("operands", &rule.operands),
        ("args", &rule.args),
        ("redirects", &rule.redirects),
        ("except", &rule.except),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name} {}", list.join(" ")))
        .collect();
    parts.join(", ")
}
