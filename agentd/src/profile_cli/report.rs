//! The answers as text or JSON. Pure, given the surroundings.

use std::fmt::Write as _;

use agentd_sandbox::{
    explain::{Query, explain as ask, show as show_policy},
    policy::{PathAccess, resolve, unavailable},
    profile::Profile,
};
use serde_json::{Value, json};

use super::{
    Answer, ExplainArgs, ListArgs, ShowArgs,
    host::{ProfileCliError, Surroundings},
};
use crate::exit::Exit;

type Reply = Result<Answer, ProfileCliError>;

fn good(text: String) -> Answer {
    Answer {
        text,
        exit: Exit::Ok,
    }
}

fn json_line(value: &Value) -> String {
    format!("{value}\n")
}

/// `agentd profile list`
pub(super) fn list(surroundings: &Surroundings, args: &ListArgs) -> Answer {
    let profiles: Vec<&Profile> = surroundings.catalogue.iter().collect();
    if args.json {
        let rows = profiles
            .iter()
            .map(|profile| summary(profile, surroundings))
            .collect();
        return good(json_line(&Value::Array(rows)));
    }
    let width = profiles
        .iter()
        .map(|profile| profile.name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for profile in profiles {
        let digest = profile.digest.get(..12).unwrap_or(&profile.digest);
        let tier = profile.require.tier.short();
        let state = match unavailable(profile, &surroundings.facts) {
            _ if profile.is_abstract => "only a parent of others".to_owned(),
            None => "available".to_owned(),
            Some(why) => format!("NOT available: {why}"),
        };
        let description = &profile.description;
        line(
            &mut text,
            format_args!("{:width$}  {digest}  {tier}  {description}", profile.name),
        );
        line(&mut text, format_args!("{:width$}  {state}", ""));
    }
    good(text)
}

fn summary(profile: &Profile, surroundings: &Surroundings) -> Value {
    let why = unavailable(profile, &surroundings.facts);
    json!({
        "name": profile.name,
        "description": profile.description,
        "digest": profile.digest,
        "minimum_tier": profile.require.tier.short(),
        "abstract": profile.is_abstract,
        "available": why.is_none() && !profile.is_abstract,
        "unavailable_reason": why,
        "parents": profile.parents,
        "meta": profile.meta,
    })
}

/// `agentd profile show`
pub(super) fn show(surroundings: &Surroundings, args: &ShowArgs) -> Reply {
    if args.resolved {
        let profile = surroundings.catalogue.select(&args.name)?;
        let (invocation, facts) = surroundings.question(&args.name, args.workspace.as_deref())?;
        let policy = resolve(profile, &invocation, &facts)?;
        let text = if args.json {
            json_line(&json!(policy))
        } else {
            show_policy(&policy)
        };
        return Ok(good(text));
    }
    let profile = match surroundings.catalogue.get(&args.name) {
        Some(profile) => profile,
        None => surroundings.catalogue.select(&args.name)?,
    };
    let text = if args.json {
        json_line(&agentd_sandbox::profile::describe_json(profile))
    } else {
        agentd_sandbox::profile::describe(profile)
    };
    Ok(good(text))
}

/// `agentd profile explain`
pub(super) fn explain(surroundings: &Surroundings, args: &ExplainArgs) -> Reply {
    let profile = surroundings.catalogue.select(&args.profile)?;
    let query = query(args)?;
    let (invocation, facts) = surroundings.question(&args.profile, args.workspace.as_deref())?;
    let policy = resolve(profile, &invocation, &facts)?;
    let verdict = ask(&policy, &query);
    let exit = if verdict.allowed {
        Exit::Ok
    } else {
        Exit::Failed
    };
    let text = if args.json {
        let mut value = json!(verdict);
        if let Some(object) = value.as_object_mut() {
            object.insert("profile".to_owned(), json!(policy.profile));
            object.insert("digest".to_owned(), json!(policy.digest));
            object.insert("tier".to_owned(), json!(policy.tier.short()));
        }
        json_line(&value)
    } else {
        let layers: Vec<&str> = verdict.layers.iter().map(|layer| layer.name()).collect();
        let layers = if layers.is_empty() {
            "none".to_owned()
        } else {
            layers.join(", ")
        };
        let word = if verdict.allowed { "allowed" } else { "denied" };
        let mut text = String::new();
        line(&mut text, format_args!("{word}"));
        line(&mut text, format_args!("why:    {}", verdict.text));
        line(&mut text, format_args!("rule:   {}", verdict.rule));
        line(&mut text, format_args!("layers: {layers}"));
        line(&mut text, format_args!("tier:   {}", policy.tier));
        text
    };
    Ok(Answer { text, exit })
}

fn query(args: &ExplainArgs) -> Result<Query, ProfileCliError> {
    if let Some(path) = &args.path {
        let access: PathAccess = args.access.into();
        return Ok(Query::Path {
            path: path.clone(),
            access,
        });
    }
    if let Some(target) = &args.host {
        let wrong = || ProfileCliError::Host(target.clone());
        let (host, port) = target.rsplit_once(':').ok_or_else(wrong)?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(wrong)?;
        let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || bare_ipv6 {
            return Err(wrong());
        }
        return Ok(Query::Connect {
            host: host.to_owned(),
            port,
        });
    }
    Ok(Query::Syscall {
        name: args.syscall.clone().unwrap_or_default(),
    })
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    writeln!(text, "{arguments}").unwrap_or_default();
}
