//! The table of model, key and host rules.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;

use super::{ConfigError, Consent, ModelInputs, resolve};
use crate::{args::AuthMode, provider::anthropic::Credential};

fn map(text: &str) -> BTreeMap<String, String> {
    text.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| {
            let key = match key {
                "KEY" => "ANTHROPIC_API_KEY",
                "TOKEN" => "ANTHROPIC_AUTH_TOKEN",
                "URL" => "ANTHROPIC_BASE_URL",
                "MODEL" => "MODEL_ID",
                other => panic!("{other}"),
            };
            (key.to_owned(), value.to_owned())
        })
        .collect()
}

/// `header:value@url model consent`, or the error.
fn answer(process: &str, dotenv: &str, auth: Option<AuthMode>) -> String {
    let (process, dotenv) = (map(process), map(dotenv));
    let inputs = ModelInputs {
        process: &process,
        dotenv: &dotenv,
        model: None,
        auth,
    };
    match resolve(inputs) {
        Ok(settings) => {
            let (header, secret) = match &settings.credential {
                Credential::ApiKey(secret) => ("key", secret),
                Credential::Bearer(secret) => ("bearer", secret),
            };
            let consent = match settings.consent {
                Consent::NotNeeded => "",
                Consent::Needed => " ASK",
            };
            let url = settings
                .base_url
                .replace("https://api.anthropic.com", "default");
            format!(
                "{header}:{}@{url} {}{consent}",
                secret.expose_secret(),
                settings.model
            )
        }
        Err(error) => match error {
            ConfigError::NoModel => "no model".into(),
            ConfigError::NoKey => "no key".into(),
            ConfigError::TokenForBaseUrl(_) => "token for url".into(),
            ConfigError::TokenIsNotAKey => "token is not a key".into(),
            ConfigError::BadBaseUrl(_) => "bad url".into(),
            ConfigError::NoConsent(_) => "no consent".into(),
        },
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn rules_of_the_environment_and_dotenv() {
    let bearer = Some(AuthMode::Bearer);
    let x_api_key = Some(AuthMode::XApiKey);
    for (process, dotenv, auth, expected) in [
        ("", "", None, "no key"),
        ("KEY=a", "", None, "no model"),
        ("MODEL=m", "", None, "no key"),
        ("KEY=a MODEL=m", "", None, "key:a@default m"),
        // .env wins, key by key.
        ("KEY=a MODEL=m", "MODEL=n", None, "key:a@default n"),
        ("KEY=a MODEL=m", "KEY=b", None, "key:b@default m"),
        // Exactly one credential.
        ("KEY=a TOKEN=t MODEL=m", "", None, "key:a@default m"),
        ("KEY=a TOKEN=t MODEL=m", "", bearer, "bearer:t@default m"),
        ("TOKEN=t MODEL=m", "", None, "bearer:t@default m"),
        ("KEY=a MODEL=m", "", bearer, "bearer:a@default m"),
        ("TOKEN=t MODEL=m", "", x_api_key, "token is not a key"),
        ("KEY=a TOKEN=t MODEL=m", "", x_api_key, "key:a@default m"),
        // A token does not follow an address by itself.
        ("TOKEN=t URL=https://g MODEL=m", "", None, "token for url"),
        (
            "KEY=a TOKEN=t URL=https://g MODEL=m",
            "",
            None,
            "key:a@https://g m",
        ),
        (
            "TOKEN=t URL=https://g MODEL=m",
            "",
            bearer,
            "bearer:t@https://g m",
        ),
        // .env may not redirect a key that is not its own.
        (
            "KEY=a MODEL=m",
            "URL=https://g",
            None,
            "key:a@https://g m ASK",
        ),
        (
            "TOKEN=t MODEL=m",
            "URL=https://g",
            bearer,
            "bearer:t@https://g m ASK",
        ),
        (
            "KEY=a MODEL=m",
            "URL=https://g KEY=b",
            None,
            "key:b@https://g m",
        ),
        (
            "KEY=a URL=https://g MODEL=m",
            "URL=https://g",
            None,
            "key:a@https://g m",
        ),
        (
            "KEY=a URL=https://g MODEL=m",
            "URL=https://h",
            None,
            "key:a@https://h m ASK",
        ),
        (
            "KEY=a MODEL=m",
            "URL=https://api.anthropic.com/",
            None,
            "key:a@default/ m",
        ),
        (
            "KEY=a MODEL=m",
            "URL=https://api.anthropic.com.evil",
            None,
            "key:a@default.evil m ASK",
        ),
        (
            "KEY=a URL=https://g MODEL=m",
            "KEY=b",
            None,
            "key:b@https://g m",
        ),
        // Addresses.
        ("KEY=a URL=ftp://g MODEL=m", "", None, "bad url"),
        ("KEY=a URL=https:// MODEL=m", "", None, "bad url"),
        (
            "KEY=a URL=http://127.0.0.1:9 MODEL=m",
            "",
            None,
            "key:a@http://127.0.0.1:9 m",
        ),
    ] {
        assert_eq!(
            answer(process, dotenv, auth),
            expected,
            "{process} | {dotenv}"
        );
    }
}

#[test]
fn a_key_sent_in_clear_to_another_machine_is_warned_about() {
    for (url, warnings) in [
        ("http://localhost:1", 0),
        ("http://[::1]:1/v1", 0),
        ("http://127.0.0.1.evil:1", 1),
        ("http://localhost@evil", 1),
        ("http://localhost:x@evil", 1),
        ("http://10.0.0.1", 1),
        ("https://10.0.0.1", 0),
    ] {
        let process = map(&format!("KEY=a MODEL=m URL={url}"));
        let settings = resolve(ModelInputs {
            process: &process,
            dotenv: &BTreeMap::new(),
            model: None,
            auth: None,
        })
        .unwrap();
        assert_eq!(settings.warnings.len(), warnings, "{url}");
    }
}

#[test]
fn the_flag_names_the_model_before_everything_else() {
    let (process, dotenv) = (map("KEY=a MODEL=m"), map("MODEL=n"));
    let settings = resolve(ModelInputs {
        process: &process,
        dotenv: &dotenv,
        model: Some("flag"),
        auth: None,
    })
    .unwrap();
    assert_eq!(settings.model, "flag");
    assert!(!format!("{settings:?}").contains("\"a\""));
}
