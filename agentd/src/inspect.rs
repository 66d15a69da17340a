//! `agentd check` and `agentd doctor`: start the launcher, say what it says, let it go.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use agentd_sandbox::monitor::ProfileSummary;
use serde_json::json;

use crate::{
    cli::DoctorArgs,
    config::{Config, Mode},
    exit::Exit,
    launcher_link::HostReport,
    run::complain,
    startup::{BootError, Booted, LauncherCommand},
};

/// Prints what would be enforced. Fails when the default profile would not be.
pub(crate) fn check(config: &Config) -> Exit {
    let (host, profiles) = match look(&config.launcher) {
        Ok(found) => found,
        Err(error) => return boot_failed(&error),
    };
    let text = check_text(config, &host, &profiles);
    let default = profiles.iter().find(|p| p.name == config.default_profile);
    let exit = match default {
        Some(profile) if profile.unavailable.is_none() => Exit::Ok,
        Some(_) | None => Exit::Config,
    };
    print(&text, exit)
}

/// Prints what the host can enforce.
pub(crate) fn doctor(args: &DoctorArgs) -> Exit {
    let launcher = LauncherCommand {
        program: args.launcher.clone(),
        ..LauncherCommand::default()
    };
    match look(&launcher) {
        Ok((host, profiles)) if args.json => {
            let text = format!("{}\n", doctor_json(&host, &profiles));
            print(&text, Exit::Ok)
        }
        Ok((host, profiles)) => print(&doctor_text(&host, &profiles), Exit::Ok),
        Err(error) => boot_failed(&error),
    }
}

fn look(launcher: &LauncherCommand) -> Result<(HostReport, Vec<ProfileSummary>), BootError> {
    let Booted {
        channel,
        host,
        profiles,
        process,
    } = launcher.boot()?;
    // ORDER: it ends when its socket closes.
    drop(channel);
    process.wait();
    Ok((host, profiles))
}

fn boot_failed(error: &BootError) -> Exit {
    let exit = match error {
        BootError::Ended => Exit::Config,
        BootError::NotFound
        | BootError::Start { .. }
        | BootError::Channel(_)
        | BootError::Silent
        | BootError::OtherVersion => Exit::Unavailable,
    };
    complain(error, exit)
}

fn print(text: &str, exit: Exit) -> Exit {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => exit,
        // A reader that has seen enough, such as `head`, is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => complain(&error, Exit::Unavailable),
    }
}

fn check_text(config: &Config, host: &HostReport, profiles: &[ProfileSummary]) -> String {
    let mut text = String::new();
    match config.mode {
        Mode::Embedded => text.push_str("listens on:       the inherited connection\n"),
        Mode::Service => {
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
    text.push_str(&doctor_text(host, profiles));
    text
}

fn doctor_text(host: &HostReport, profiles: &[ProfileSummary]) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("tier:         {}", host.tier));
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
        line(
            &mut text,
            format_args!("  {name:width$}  {works}  {detail}"),
        );
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
    // Writing to a string does not fail.
    drop(writeln!(text, "{arguments}"));
}

fn list(ids: &[u32]) -> String {
    if ids.is_empty() {
        return "none".to_owned();
    }
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

fn doctor_json(host: &HostReport, profiles: &[ProfileSummary]) -> serde_json::Value {
    let capabilities: Vec<_> = host
        .capabilities
        .iter()
        .map(|(name, available, detail)| {
            json!({"name": name, "available": available, "detail": detail})
        })
        .collect();
    let profiles: Vec<_> = profiles
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
        "tier": host.tier.short(),
        "tier_reason": host.tier_reason,
        "landlock_abi": host.landlock_abi,
        "capabilities": capabilities,
        "profiles": profiles,
    })
}

#[cfg(test)]
mod tests {
    use agentd_sandbox::policy::Tier;

    use super::*;
    use crate::launcher_link::fake::profile;

    fn host() -> HostReport {
        HostReport {
            tier: Tier::Nested,
            tier_reason: "user namespaces are denied; set the sysctl".to_owned(),
            landlock_abi: 5,
            capabilities: vec![
                ("landlock".to_owned(), true, "ABI 5".to_owned()),
                ("user-namespaces".to_owned(), false, "EPERM".to_owned()),
            ],
        }
    }

    #[test]
    fn doctor_says_what_is_missing_and_why() {
        let mut strict = profile("strict");
        strict.unavailable = Some("needs T2".to_owned());
        let profiles = [profile("workspace"), strict];
        let text = doctor_text(&host(), &profiles);
        for expected in [
            "T1 (nested)",
            "set the sysctl",
            "user-namespaces  no   EPERM",
            "NOT enforceable: needs T2",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let json = doctor_json(&host(), &profiles);
        assert_eq!(json["tier"], "T1");
        assert_eq!(json["profiles"][1]["available"], false);
        assert_eq!(json["capabilities"][1]["detail"], "EPERM");
    }
}
