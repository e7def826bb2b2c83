//! Which codec speaks to a provider.

use crate::config::{ConfigError, ResolvedProvider};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use turnbuckle_wire::{
    Anthropic, AnthropicOptions, Codec, Gemini, GeminiOptions, Ollama, OllamaOptions, OpenAiChat,
    OpenAiResponses, Profile, ResponsesOptions,
};

/// The wires there are.
const WIRES: &str = "openai-chat, openai-responses, anthropic, gemini and ollama";

/// The provider's codec, with the options its configuration lays over the profile or the defaults.
pub(super) fn codec(provider: &ResolvedProvider) -> Result<Box<dyn Codec>, ConfigError> {
    let name = provider.name.as_str();
    Ok(match provider.wire.as_str() {
        "openai-chat" => {
            Box::new(OpenAiChat::new(name, with_options(provider, profile(provider)?)?))
        }
        "openai-responses" => Box::new(OpenAiResponses::new(
            name,
            with_options(provider, ResponsesOptions::default())?,
        )),
        "anthropic" => {
            Box::new(Anthropic::new(name, with_options(provider, AnthropicOptions::default())?))
        }
        "gemini" => Box::new(Gemini::new(name, with_options(provider, GeminiOptions::default())?)),
        "ollama" => Box::new(Ollama::new(name, with_options(provider, OllamaOptions::default())?)),
        wire => {
            return Err(ConfigError::UnknownWire {
                provider: provider.name.clone(),
                wire: wire.to_owned(),
                known: WIRES.to_owned(),
            });
        }
    })
}

fn profile(provider: &ResolvedProvider) -> Result<Profile, ConfigError> {
    match Profile::named(&provider.profile) {
        Some(profile) => Ok(profile),
        // The provider's own name need not be a profile's; a name that was asked for must.
        None if provider.config.profile.is_none() => Ok(Profile::default()),
        None => Err(ConfigError::UnknownProfile {
            provider: provider.name.clone(),
            profile: provider.profile.clone(),
            known: Profile::names().collect::<Vec<_>>().join(", "),
        }),
    }
}

fn with_options<T: Serialize + DeserializeOwned>(
    provider: &ResolvedProvider,
    base: T,
) -> Result<T, ConfigError> {
    if provider.options.is_empty() {
        return Ok(base);
    }
    let bad = |error: serde_json::Error| ConfigError::Options {
        provider: provider.name.clone(),
        problem: error.to_string(),
    };
    let mut merged = serde_json::to_value(base).map_err(bad)?;
    if let Value::Object(map) = &mut merged {
        map.extend(provider.options.clone());
    }
    serde_json::from_value(merged).map_err(bad)
}

/// Where a wire's servers list their models.
pub(super) fn models_path(wire: &str) -> &'static str {
    match wire {
        "anthropic" => "/v1/models",
        "gemini" => "/v1beta/models",
        "ollama" => "/api/tags",
        _ => "/models",
    }
}

/// The names in a list of models, as any of the wires writes it.
pub(super) fn model_names(body: &[u8]) -> Vec<String> {
    let list: Value = serde_json::from_slice(body).unwrap_or_default();
    let rows = ["data", "models", "publisherModels"].into_iter().find_map(|name| list.get(name));
    let rows = rows.and_then(Value::as_array);
    let name = |row: &Value| {
        let name = row.get("id").or_else(|| row.get("name"))?.as_str()?;
        // Google writes its names as paths.
        Some(name.rsplit_once("models/").map_or(name, |(_, bare)| bare).to_owned())
    };
    rows.into_iter().flatten().filter_map(name).collect()
}
