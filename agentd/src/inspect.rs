//! `agentd check` and `agentd doctor`: start the launcher, say what it says, let it go.

use agentd_sandbox::{monitor::ProfileSummary, policy::Tier, probe};
use serde_json::json;

use crate::{
    cli::DoctorArgs,
    config::{Config, ConfigError, Mode},
    exit::Exit,
    run::{boot_failed, print},
    startup::{BootError, Booted, LauncherCommand},
};

/// The host, as far as it is known.
#[derive(Debug)]
struct Seen {
    /// `None`: no jail works here.
    tier: Option<Tier>,
    tier_reason: String,
    landlock_abi: u32,
    /// Name, works, detail or remedy.
    capabilities: Vec<(String, bool, String)>,
    profiles: Vec<ProfileSummary>,
}

/// Prints what would be enforced. Fails when the default profile would not be.
pub(crate) fn check(config: &Config) -> Exit {
    let seen = match look(&config.launcher) {
        Ok(seen) => seen,
        Err(error) => return boot_failed(&error),
    };
    let default = seen
        .profiles
        .iter()
        .find(|p| p.name == config.default_profile);
    let exit = match default {
        Some(profile) if profile.unavailable.is_none() => Exit::Ok,
        Some(_) | None => Exit::Config,
    };
    print(check_text(config, &seen).as_bytes(), exit)
}

/// Prints what the host can enforce.
pub(crate) fn doctor(args: &DoctorArgs) -> Exit {
    let launcher = LauncherCommand {
        program: args.launcher.clone(),
        ..LauncherCommand::default()
    };
    let (seen, exit) = match look(&launcher) {
        Ok(seen) => (seen, Exit::Ok),
        // The launcher has said why it cannot work here; what the host lacks is still worth telling.
        Err(BootError::Refused(exit)) => (probed(), exit),
        Err(error) => return boot_failed(&error),
    };
    let text = if args.json {
        format!("{}\n", doctor_json(&seen))
    } else {
        doctor_text(&seen)
    };
    print(text.as_bytes(), exit)
}

fn look(launcher: &LauncherCommand) -> Result<Seen, BootError> {
    let Booted {
        channel,
        host,
        profiles,
        process,
    } = launcher.boot()?;
    // ORDER: it ends when its socket closes. How it ends is of no interest: it has answered.
    drop(channel);
    process.wait();
    Ok(Seen {
        tier: Some(host.tier),
        tier_reason: host.tier_reason,
        landlock_abi: host.landlock_abi,
        capabilities: host.capabilities,
        profiles,
    })
}

fn probed() -> Seen {
    let host = probe::probe();
    let capabilities = host
        .capabilities
        .into_iter()
        .map(|found| (found.name.to_owned(), found.available, found.detail))
        .collect();
    Seen {
        tier: host.tier,
        tier_reason: host.tier_reason,
        landlock_abi: host.landlock_abi,
        capabilities,
        profiles: Vec::new(),
    }
}

fn check_text(config: &Config, seen: &Seen) -> String {
    let mut text = String::new();
    match config.mode {
        Mode::Embedded => text.push_str("listens on:       the inherited connection\n"),
        Mode::Service => {
            if config.listen.is_empty() {
                let why = ConfigError::NoRuntimeDir;
                line(&mut text, format_args!("listens on:       nothing: {why}"));
            }
            for path in &config.listen {
                line(
                    &mut text,
                    format_args!("listens on:       unix:{}", path.display()),
                );
            }
        }
    }
    line(
        &mut text,
        format_args!("admits users:     {}", list(&config.allowed.uids)),
    );
    line(
        &mut text,
        format_args!("admits groups:    {}", list(&config.allowed.gids)),
    );
    line(
        &mut text,
        format_args!("commands at once: {}", config.max_execs),
    );
    line(
        &mut text,
        format_args!("default profile:  {}", config.default_profile),
    );
    text.push('\n');
    text.push_str(&doctor_text(seen));
    text
}

fn doctor_text(host: &Seen) -> String {
    let profiles = &host.profiles;
    let mut text = String::new();
    match host.tier {
        Some(tier) => line(&mut text, format_args!("tier:         {tier}")),
        None => text.push_str("tier:         none; no command can run here\n"),
    }
    if !host.tier_reason.is_empty() {
        line(
            &mut text,
            format_args!("  not higher: {}", host.tier_reason),
        );
    }
    line(
        &mut text,
        format_args!("landlock ABI: {}", host.landlock_abi),
    );
    text.push_str("\ncapabilities\n");
    let width = host
        .capabilities
        .iter()
        .map(|(name, _, _)| name.len())
        .max();
    for (name, works, detail) in &host.capabilities {
        let works = if *works { "yes" } else { "no " };
        let width = width.unwrap_or_default();
        // Details follow the first line, under it.
        for (number, part) in detail.split('\n').enumerate() {
            let (name, works) = if number == 0 {
                (name.as_str(), works)
            } else {
                ("", "")
            };
            line(
                &mut text,
                format_args!("  {name:width$}  {works:3}  {part}"),
            );
        }
    }
    text.push_str("\nprofiles\n");
    let width = profiles
        .iter()
        .map(|p| p.name.len())
        .max()
        .unwrap_or_default();
    for profile in profiles {
        let digest = profile.digest.get(..12).unwrap_or(&profile.digest);
        let state = match &profile.unavailable {
            None => format!("enforceable; needs {} or higher", profile.minimum_tier),
            Some(why) => format!("NOT enforceable: {why}"),
        };
        line(
            &mut text,
            format_args!("  {:width$}  {digest}  {state}", profile.name),
        );
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.push_str(&arguments.to_string());
    text.push('\n');
}

fn list(ids: &[u32]) -> String {
    if ids.is_empty() {
        return "none".to_owned();
    }
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

fn doctor_json(host: &Seen) -> serde_json::Value {
    let capabilities: Vec<_> = host
        .capabilities
        .iter()
        .map(|(name, available, detail)| {
            json!({"name": name, "available": available, "detail": detail})
        })
        .collect();
    let profiles: Vec<_> = host
        .profiles
        .iter()
        .map(|profile| {
            json!({
                "name": profile.name,
                "digest": profile.digest,
                "minimum_tier": profile.minimum_tier.short(),
                "available": profile.unavailable.is_none(),
                "unavailable_reason": profile.unavailable,
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "tier": host.tier.map(Tier::short),
        "tier_reason": host.tier_reason,
        "landlock_abi": host.landlock_abi,
        "capabilities": capabilities,
        "profiles": profiles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher_link::fake::profile;

    fn host(profiles: Vec<ProfileSummary>) -> Seen {
        Seen {
            profiles,
            tier: Some(Tier::Nested),
            tier_reason: "user namespaces are denied; set the sysctl".to_owned(),
            landlock_abi: 5,
            capabilities: vec![
                ("landlock".to_owned(), true, "ABI 5".to_owned()),
                ("user-namespaces".to_owned(), false, "EPERM".to_owned()),
                (
                    "cgroup".to_owned(),
                    false,
                    "none\n/a: no\n/b: no".to_owned(),
                ),
            ],
        }
    }

    #[test]
    fn doctor_says_what_is_missing_and_why() {
        let mut strict = profile("strict");
        strict.unavailable = Some("needs T2".to_owned());
        let host = host(vec![profile("workspace"), strict]);
        let text = doctor_text(&host);
        for expected in [
            "T1 (nested)",
            "set the sysctl",
            "user-namespaces  no   EPERM",
            "  cgroup           no   none\n                        /a: no\n                        /b: no\n",
            "NOT enforceable: needs T2",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let json = doctor_json(&host);
        assert_eq!(json["tier"], "T1");
        assert_eq!(json["profiles"][1]["available"], false);
        assert_eq!(json["capabilities"][1]["detail"], "EPERM");
    }

    #[test]
    fn a_host_without_any_tier_is_told_as_such() {
        let nothing = Seen {
            tier: None,
            ..host(Vec::new())
        };
        assert!(doctor_text(&nothing).contains("no command can run here"));
        assert_eq!(doctor_json(&nothing)["tier"], serde_json::Value::Null);
    }
}
