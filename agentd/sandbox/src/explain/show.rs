//! A whole policy as text, for people and for golden files. The same policy gives the same text.

use std::fmt::{self, Write as _};

use super::source;
use crate::policy::{Exposure, FsRule, Identity, Layer, NetMode, Policy, SyscallBase, Tier};

/// Everything that `policy` decides, with the place of each rule and the layers that enforce it.
#[must_use]
pub fn show(policy: &Policy) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    write(&mut text, policy).unwrap_or_default();
    text
}

fn write(text: &mut String, policy: &Policy) -> fmt::Result {
    head(text, policy)?;
    writeln!(
        text,
        "\nfiles (the longest path wins; what is not listed is denied)"
    )?;
    for rule in &policy.fs.rules {
        let word = exposure(rule.exposure);
        let layers = layers(policy, rule);
        writeln!(
            text,
            "  {word:<8} {}  [{}] by {layers}",
            rule.path.display(),
            rule.rule
        )?;
    }
    let size = match policy.tier {
        Tier::Nested => "as large as the file system that holds them".to_owned(),
        Tier::Rootless | Tier::HostRoot => {
            let tmp = policy.fs.tmp;
            format!("{} bytes, {} inodes", tmp.size_bytes, tmp.inodes)
        }
    };
    let place = source(policy, "fs.tmp");
    writeln!(text, "  private temporary files: {size}  [{place}]")?;
    writeln!(text, "\nprograms run from")?;
    for rule in &policy.fs.exec {
        writeln!(
            text,
            "  {}  [{}] by landlock",
            rule.path.display(),
            rule.rule
        )?;
    }
    limits(text, policy)?;
    environment(text, policy)?;
    writeln!(text, "\nabsent guarantees")?;
    if policy.degraded.is_empty() {
        writeln!(text, "  none")?;
    }
    for absent in &policy.degraded {
        writeln!(
            text,
            "  {}: {} ({})",
            absent.layer, absent.guarantee, absent.reason
        )?;
    }
    Ok(())
}

fn head(text: &mut String, policy: &Policy) -> fmt::Result {
    writeln!(text, "profile    {}", policy.profile)?;
    writeln!(text, "digest     {}", policy.digest)?;
    writeln!(text, "tier       {}", policy.tier)?;
    writeln!(text, "workspace  {}", policy.workspace.display())?;
    writeln!(text, "cwd        {}", policy.cwd.display())?;
    writeln!(text, "home       {}", policy.home.display())?;
    writeln!(text, "tmp        {}", policy.tmp.display())?;
    writeln!(
        text,
        "identity   {}  [{}]",
        identity(policy.identity),
        source(policy, "identity.user")
    )?;
    writeln!(
        text,
        "umask      {:04o}  [{}]",
        policy.umask,
        source(policy, "identity.umask")
    )?;
    let hostname = match policy.tier {
        Tier::Nested => "the host's",
        Tier::Rootless | Tier::HostRoot => policy.hostname.as_str(),
    };
    writeln!(
        text,
        "hostname   {hostname}  [{}]",
        source(policy, "identity.hostname")
    )?;
    let network = match (policy.net, policy.tier) {
        (NetMode::None, Tier::Nested) => "none, no sockets, by seccomp",
        (NetMode::None, Tier::Rootless | Tier::HostRoot) => {
            "none but its own loopback, by net-namespace"
        }
        (NetMode::Host, _) => "the host's, unfiltered",
    };
    writeln!(
        text,
        "network    {network}  [{}]",
        source(policy, "net.mode")
    )?;
    let syscalls = match policy.syscalls {
        SyscallBase::Dev => "dev",
        SyscallBase::Strict => "strict",
    };
    writeln!(
        text,
        "syscalls   {syscalls}, by seccomp  [{}]",
        source(policy, "syscalls.base")
    )
}

fn identity(identity: Identity) -> String {
    match identity {
        Identity::Caller { uid, gid } => {
            format!("the caller, uid {uid}, gid {gid}, without capabilities")
        }
        Identity::Ephemeral {
            uid,
            owner_uid,
            owner_gid,
        } => format!(
            "throw-away uid {uid}, the workspace's owner {owner_uid}:{owner_gid} mapped to it"
        ),
        Identity::RootWithoutCapabilities => "uid 0 without capabilities".to_owned(),
    }
}

fn exposure(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Read => "read",
        Exposure::Write => "write",
        Exposure::Readonly => "readonly",
        Exposure::Deny => "deny",
    }
}

fn layers(policy: &Policy, rule: &FsRule) -> String {
    let layers: &[Layer] = match (policy.tier, policy.fs.is_carve_out(rule)) {
        (Tier::Nested, true) => {
            return "nothing on this tier but the tripwire".to_owned();
        }
        (Tier::Nested, false) => &[Layer::Landlock],
        (Tier::Rootless | Tier::HostRoot, false) => &[Layer::OwnRoot, Layer::Landlock],
        (Tier::Rootless | Tier::HostRoot, true) => &[Layer::OwnRoot, Layer::Tripwire],
    };
    let names: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
    names.join(", ")
}

fn limits(text: &mut String, policy: &Policy) -> fmt::Result {
    let limits = &policy.limits;
    writeln!(text, "\nlimits")?;
    for (key, unit, value) in [
        ("wall", "ms", Some(limits.timeout_ms)),
        ("idle", "ms", limits.idle_timeout_ms),
        ("grace", "ms", Some(limits.kill_grace_ms)),
        ("cpu", "s", limits.cpu_seconds),
        ("memory", "bytes", limits.memory_bytes),
        ("pids", "", limits.pids),
        ("open_files", "", Some(limits.open_files)),
        ("file_size", "bytes", limits.file_size_bytes),
        ("output", "bytes", limits.output_bytes),
        ("disk", "bytes", limits.disk_bytes),
    ] {
        let place = source(policy, &format!("limits.{key}"));
        match value {
            Some(value) if unit.is_empty() => writeln!(text, "  {key:<10} {value}  [{place}]")?,
            Some(value) => writeln!(text, "  {key:<10} {value} {unit}  [{place}]")?,
            None => writeln!(text, "  {key:<10} none")?,
        }
    }
    Ok(())
}

fn environment(text: &mut String, policy: &Policy) -> fmt::Result {
    writeln!(text, "\nenvironment")?;
    for (name, value) in &policy.env {
        let place = ["env.pass", "env.set"]
            .iter()
            .find_map(|list| policy.sources.get(&format!("{list}.{name}")));
        let place = place.map_or_else(|| "request".to_owned(), ToString::to_string);
        writeln!(text, "  {name}={}  [{place}]", value.escape_debug())?;
    }
    Ok(())
}
