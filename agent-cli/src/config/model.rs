//! Which model, which key, which host. Pure: everything comes in as data, questions go out as data.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{args::AuthMode, provider::anthropic::Credential};

/// Host that a key goes to when nothing else is said.
const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// What the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct ModelInputs<'a> {
    /// Known keys of the process environment.
    pub process: &'a BTreeMap<String, String>,
    /// Known keys of `.env`; these win.
    pub dotenv: &'a BTreeMap<String, String>,
    /// `--model`; wins over both.
    pub model: Option<&'a str>,
    /// `--auth`.
    pub auth: Option<AuthMode>,
}

/// A model that can be called.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Model id, as the provider knows it.
    pub model: String,
    /// Key and header.
    pub credential: Credential,
    /// Base address.
    pub base_url: String,
    /// Whether a person has to agree to that address first.
    pub consent: Consent,
    /// Remarks for a person.
    pub warnings: Vec<String>,
}

/// Whether a person has to agree that a key goes to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Consent {
    /// The key and the address come from the same hands.
    NotNeeded,
    /// `.env`, a file of the repository, sends a key of this user to its own address.
    Needed,
}

/// Why no model can be called. Each text names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No model.
    #[error(
        "no model: put MODEL_ID=claude-sonnet-4-6 (or another) into .env or the environment, or pass --model NAME"
    )]
    NoModel,
    /// No key.
    #[error(
        "no key: put ANTHROPIC_API_KEY=... into .env or the environment; `agent-cli demo` needs none"
    )]
    NoKey,
    /// A bearer token and an address, and nobody said that they belong together.
    #[error(
        "ANTHROPIC_AUTH_TOKEN is not sent to ANTHROPIC_BASE_URL ({0}) unless you pass --auth bearer; or set ANTHROPIC_API_KEY"
    )]
    TokenForBaseUrl(String),
    /// `--auth x-api-key` without a key.
    #[error(
        "--auth x-api-key needs ANTHROPIC_API_KEY; ANTHROPIC_AUTH_TOKEN goes with --auth bearer"
    )]
    TokenIsNotAKey,
    /// Not an address.
    #[error(
        "ANTHROPIC_BASE_URL is '{0}'; it must start with https:// (or http:// for a local server)"
    )]
    BadBaseUrl(String),
    /// Nobody agreed to the address.
    #[error(
        ".env sends your key, which is not from .env, to {0}; pass --allow-base-url if you trust it, or put the key into .env as well"
    )]
    NoConsent(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Process,
    DotEnv,
}

/// Chooses model, credential and address.
///
/// # Errors
/// Something is missing or contradicts itself.
pub fn resolve(inputs: ModelInputs<'_>) -> Result<ModelSettings, ConfigError> {
    let mut warnings = Vec::new();
    let base = lookup(inputs, "ANTHROPIC_BASE_URL");
    let base_url = base.map_or(DEFAULT_BASE_URL, |(url, _)| url).to_owned();
    check_address(&base_url, &mut warnings)?;
    let (credential, key_source) =
        choose_credential(inputs, base.map(|(url, _)| url), &mut warnings)?;
    let model = inputs
        .model
        .filter(|name| !name.is_empty())
        .or_else(|| lookup(inputs, "MODEL_ID").map(|(name, _)| name))
        .ok_or(ConfigError::NoModel)?
        .to_owned();
    let consent = match (base, key_source) {
        (Some((url, Source::DotEnv)), Source::Process)
            if !is_default(url)
                && inputs.process.get("ANTHROPIC_BASE_URL").map(String::as_str) != Some(url) =>
        {
            Consent::Needed
        }
        (Some(_) | None, Source::Process | Source::DotEnv) => Consent::NotNeeded,
    };
    Ok(ModelSettings {
        model,
        credential,
        base_url,
        consent,
        warnings,
    })
}

fn lookup<'a>(inputs: ModelInputs<'a>, key: &str) -> Option<(&'a str, Source)> {
    let from = |map: &'a BTreeMap<String, String>, source| {
        map.get(key)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
            .map(|value| (value, source))
    };
    from(inputs.dotenv, Source::DotEnv).or_else(|| from(inputs.process, Source::Process))
}

fn choose_credential(
    inputs: ModelInputs<'_>,
    base_url: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<(Credential, Source), ConfigError> {
    let key = lookup(inputs, "ANTHROPIC_API_KEY");
    let token = lookup(inputs, "ANTHROPIC_AUTH_TOKEN");
    let as_key = |(value, source): (&str, Source)| (Credential::ApiKey(value.into()), source);
    let as_bearer = |(value, source): (&str, Source)| (Credential::Bearer(value.into()), source);
    match (inputs.auth, key, token) {
        (_, None, None) => Err(ConfigError::NoKey),
        (Some(AuthMode::Bearer), _, Some(token)) => Ok(as_bearer(token)),
        // Gateways that know only bearer tokens hand them out as "API keys".
        (Some(AuthMode::Bearer), Some(key), None) => Ok(as_bearer(key)),
        (Some(AuthMode::XApiKey), Some(key), _) | (None, Some(key), None) => Ok(as_key(key)),
        (Some(AuthMode::XApiKey), None, Some(_)) => Err(ConfigError::TokenIsNotAKey),
        (None, Some(key), Some(_)) => {
            warnings.push(
                "both ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN are set; the key is used (--auth bearer uses the token)"
                    .to_owned(),
            );
            Ok(as_key(key))
        }
        (None, None, Some(token)) => match base_url {
            Some(url) => Err(ConfigError::TokenForBaseUrl(url.to_owned())),
            None => Ok(as_bearer(token)),
        },
    }
}

fn check_address(url: &str, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
    if let Some(rest) = url.strip_prefix("http://") {
        if !is_loopback(rest) {
            warnings.push(format!("the key is sent to {url} without encryption"));
        }
        Ok(())
    } else if url
        .strip_prefix("https://")
        .is_some_and(|rest| !rest.is_empty())
    {
        Ok(())
    } else {
        Err(ConfigError::BadBaseUrl(url.to_owned()))
    }
}

fn is_default(url: &str) -> bool {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v1").unwrap_or(url) == DEFAULT_BASE_URL
}

/// Whether the authority at the start of `rest` names this machine.
fn is_loopback(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = if let Some(v6) = authority.strip_prefix('[') {
        v6.split(']').next().unwrap_or_default()
    } else {
        authority.split(':').next().unwrap_or_default()
    };
    let loopback = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    // With a user name the host stands further right.
    loopback && !authority.contains('@')
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
