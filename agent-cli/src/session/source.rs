//! Chooses the model: reads `.env`, applies the rules of `config`, asks for consent where they demand it.

use std::sync::Arc;

use super::SessionError;
use crate::{
    agent::{Settings, ports::Provider},
    args::GlobalArgs,
    complaint,
    config::{self, ConfigError, Consent, DotEnv, Environment, ModelInputs, ModelSettings},
    daemon::SandboxChoice,
    provider::{
        ProviderChoice,
        anthropic::{AnthropicConfig, AnthropicProvider},
        scripted::ScriptedProvider,
    },
    terminal,
};

/// Model name of a recorded conversation.
const SCRIPTED: &str = "scripted";

/// A model, ready to be asked.
#[derive(Clone)]
pub struct ModelSource {
    /// Answers.
    pub provider: Arc<dyn Provider>,
    /// Model id.
    pub model: String,
    /// Tool rounds per turn.
    pub max_turns: u32,
}

impl std::fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSource")
            .field("model", &self.model)
            .field("max_turns", &self.max_turns)
            .finish_non_exhaustive()
    }
}

/// Chooses the model. May ask the person on standard error whether a key may go to an address.
///
/// # Errors
/// Something is missing, or nobody agreed to the address.
pub fn choose(
    global: &GlobalArgs,
    environment: &Environment,
    sandbox: &SandboxChoice,
) -> Result<ModelSource, SessionError> {
    let (provider, model): (Arc<dyn Provider>, String) = match &global.provider {
        ProviderChoice::Scripted(path) => {
            let workspace = sandbox.workspace.to_string_lossy();
            let provider = ScriptedProvider::open(path, &[("workspace", &workspace)])?;
            let model = global.model.clone();
            (
                Arc::new(provider),
                model.unwrap_or_else(|| SCRIPTED.to_owned()),
            )
        }
        ProviderChoice::Anthropic => {
            let settings = settings(global, environment)?;
            let config = AnthropicConfig::new(Some(settings.base_url), settings.credential);
            (Arc::new(AnthropicProvider::new(config)?), settings.model)
        }
    };
    Ok(ModelSource {
        provider,
        model,
        max_turns: Settings::DEFAULT_MAX_TURNS,
    })
}

fn settings(global: &GlobalArgs, environment: &Environment) -> Result<ModelSettings, ConfigError> {
    let dotenv = DotEnv::load(&environment.current_dir);
    let settings = config::resolve(ModelInputs {
        process: &environment.known,
        dotenv: &dotenv.known,
        model: global.model.as_deref(),
        auth: global.auth,
    })?;
    for warning in dotenv.warnings.iter().chain(&settings.warnings) {
        complaint::warning(warning);
    }
    let agreed = match settings.consent {
        Consent::NotNeeded => true,
        Consent::Needed if global.allow_base_url => true,
        Consent::Needed => environment.streams.interactive && ask(&settings.base_url),
    };
    if agreed {
        Ok(settings)
    } else {
        Err(ConfigError::NoConsent(settings.base_url))
    }
}

fn ask(base_url: &str) -> bool {
    terminal::confirm(&format!(
        ".env in this directory sends your key, which is not from .env, to {base_url}. Send it there?"
    ))
}
