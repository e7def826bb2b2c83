//! Which model answers, and why.

use crate::config::{Chosen, Settings, process_env};
use crate::error::CliError;
use crate::nominees::{nominees, passed_over};
use desk::agent::DeskStory;
use std::sync::Arc;
use turnbuckle::core::error::ModelError;
use turnbuckle::core::model::ModelRef;
use turnbuckle::models::config::{preset, presets};
use turnbuckle::models::rehearsal::REHEARSAL;
use turnbuckle::models::{Model, Providers, RehearsalModel};
use turnbuckle::runtime::ModelSource;

/// The model that answers unless somebody asks for another.
#[derive(Clone)]
pub struct Choice {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Why this one, in words.
    pub why: String,
}

impl Choice {
    /// Whether a script plays instead of a model.
    pub fn is_rehearsal(&self) -> bool {
        is_rehearsal(self.model.id())
    }
}

/// Whether a script plays under this name.
pub fn is_rehearsal(model: &ModelRef) -> bool {
    &*model.provider == REHEARSAL
}

/// What to do to have a real model; one step per line.
pub fn how_to_get_a_model() -> Vec<String> {
    let keys: Vec<String> =
        presets().into_iter().filter_map(|p| p.key_env.into_iter().next()).take(4).collect();
    vec![
        format!("set a key: export {}=... (or {})", keys.first().map_or("", String::as_str), keys.get(1..).unwrap_or_default().join(", ")),
        "or start a model server here: Ollama, llama.cpp, vLLM and LM Studio are found on their usual ports".to_owned(),
        "or point OPENAI_BASE_URL, or a [providers.NAME] in turnbuckle.toml, at any OpenAI-compatible server".to_owned(),
    ]
}

/// The configured providers, with the rehearsal among them.
pub fn providers(settings: &Settings) -> Providers {
    let wish = settings.model.as_ref().map(|m| m.value.clone());
    let env = move |name: &str| match name {
        // The flag and the file count as the variable does, in their order.
        "TURNBUCKLE_MODEL" => wish.clone(),
        _ => process_env(name),
    };
    let mut providers = Providers::with_environment(settings.providers.clone(), env);
    if !settings.local_servers {
        providers = providers.with_local_servers(Vec::new());
    }
    providers.register(Arc::new(rehearsal(settings)));
    providers
}

/// The rehearsal, whatever else there is.
pub fn rehearsed(settings: &Settings, why: String) -> Choice {
    Choice { model: Arc::new(rehearsal(settings)), why }
}

fn rehearsal(settings: &Settings) -> RehearsalModel {
    RehearsalModel::new(Arc::new(DeskStory::new())).with_pace(settings.pace)
}

/// Chooses the model.
///
/// # Errors
/// When a model was asked for, or a provider is named by the environment or the configuration, and cannot be called. The
/// rehearsal plays where nothing is named, and where it is asked for.
pub async fn choose(settings: &Settings, providers: &Providers) -> Result<Choice, CliError> {
    if let Some(Chosen { value, source }) = &settings.model {
        let why = format!("{source} says {value}");
        if value == REHEARSAL || value.starts_with("rehearsal:") {
            return Ok(rehearsed(settings, why));
        }
        if let Some(model) = named(settings, value) {
            return Ok(Choice { model: providers.model(&model)?, why });
        }
    }
    let found = providers.detect().await?;
    let named = nominees(settings, &process_env);
    passed_over(providers, &named, found.model.as_ref()).await?;
    if let Some(model) = found.model {
        let why = match &settings.model {
            Some(wish) => format!("{} says {}, and {}", wish.source, wish.value, found.why),
            None => found.why,
        };
        return Ok(Choice { model, why });
    }
    match &settings.model {
        None => Ok(rehearsed(settings, found.why)),
        Some(wish) => Err(CliError::Failed(unanswered(wish, &found.why))),
    }
}

/// What to say of a model that was asked for when nothing is configured that could have it.
fn unanswered(wish: &Chosen<String>, why: &str) -> String {
    let Chosen { value, source } = wish;
    let known = || presets().into_iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
    let how = match ModelRef::parse(value) {
        Some(id) => format!(
            "`{}` is no known provider; there are {}, and those of your configuration",
            id.provider,
            known()
        ),
        None => format!(
            "no provider can be called: write it as provider:model, or set a key ({})",
            why.split(':').next().unwrap_or_default()
        ),
    };
    format!("{source} asks for the model `{value}`, but {how}")
}

/// The model of a text in the form `provider:model` whose provider is known.
pub fn named(settings: &Settings, text: &str) -> Option<ModelRef> {
    let model = ModelRef::parse(text)?;
    let known = settings.providers.contains_key(&*model.provider)
        || preset(&model.provider).is_some()
        || &*model.provider == REHEARSAL;
    known.then_some(model)
}

/// All models by name, one of which answers by default.
pub struct Source {
    providers: Arc<Providers>,
    default: Arc<dyn Model>,
}

impl Source {
    /// The default and all others.
    pub fn new(providers: Arc<Providers>, default: Arc<dyn Model>) -> Self {
        Self { providers, default }
    }
}

impl ModelSource for Source {
    fn resolve(&self, wanted: Option<&ModelRef>) -> Result<Arc<dyn Model>, ModelError> {
        match wanted {
            None => Ok(self.default.clone()),
            Some(id) if id == self.default.id() => Ok(self.default.clone()),
            Some(id) => Ok(self.providers.model(id)?),
        }
    }
}
