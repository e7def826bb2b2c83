//! All configured providers, and the model that is taken when nobody chose one.

use crate::config::{self, ConfigError, HostKind, Preset, ProviderConfig, presets};
use crate::embed::{EmbedOptions, Embedder, LexicalEmbedder};
use crate::endpoint::Endpoint;
use crate::model::Model;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use turnbuckle_core::model::ModelRef;

type Env = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Makes models from their names. Endpoints are set up when they are first used and then shared.
pub struct Providers {
    configs: BTreeMap<String, ProviderConfig>,
    env: Env,
    endpoints: Mutex<HashMap<String, Arc<Endpoint>>>,
    models: Mutex<HashMap<ModelRef, Arc<dyn Model>>>,
    local: Vec<(String, String)>,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers")
            .field("configured", &self.configs.keys())
            .finish_non_exhaustive()
    }
}

/// The model that was found, and why it was taken.
#[derive(Clone)]
pub struct Detected {
    /// The model; absent when none was found, so that the rehearsal model should play.
    pub model: Option<Arc<dyn Model>>,
    /// Why this one, in words for people.
    pub why: String,
}

impl fmt::Debug for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_ref().map(|m| m.id().to_string());
        f.debug_struct("Detected").field("model", &model).field("why", &self.why).finish()
    }
}

impl Providers {
    /// Providers by these configurations and the process's environment.
    pub fn new(configs: BTreeMap<String, ProviderConfig>) -> Self {
        Self::with_environment(configs, crate::config::process_environment)
    }

    /// The same with an environment of one's own.
    pub fn with_environment(
        configs: BTreeMap<String, ProviderConfig>,
        env: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let local = presets().into_iter().filter(|p| p.host == HostKind::Local);
        Self {
            configs,
            env: Box::new(env),
            endpoints: Mutex::default(),
            models: Mutex::default(),
            local: local.map(|p| (p.name, p.base_url)).collect(),
        }
    }

    /// Looks for local servers at these base URLs instead of the usual ports.
    pub fn with_local_servers(mut self, servers: Vec<(String, String)>) -> Self {
        self.local = servers;
        self
    }

    /// Adds a model that is no provider's: a rehearsal, a script, a fallback chain. It is found by its id.
    pub fn register(&self, model: Arc<dyn Model>) {
        locked(&self.models).insert(model.id().clone(), model);
    }

    /// The endpoint of a provider.
    ///
    /// # Errors
    /// When it is not configured well enough to be called.
    pub fn endpoint(&self, provider: &str) -> Result<Arc<Endpoint>, ConfigError> {
        if let Some(endpoint) = locked(&self.endpoints).get(provider) {
            return Ok(endpoint.clone());
        }
        let config = self.configs.get(provider).cloned().unwrap_or_default();
        let config = self.with_base_url(provider, config);
        let endpoint = Arc::new(Endpoint::new(config.resolve(provider, &*self.env)?)?);
        Ok(locked(&self.endpoints).entry(provider.to_owned()).or_insert(endpoint).clone())
    }

    /// `OPENAI_BASE_URL` is how other tools are pointed at a compatible server; it works here, too.
    fn with_base_url(&self, provider: &str, mut config: ProviderConfig) -> ProviderConfig {
        if provider == "openai" && config.base_url.is_none() {
            config.base_url = (self.env)("OPENAI_BASE_URL");
        }
        config
    }

    /// The model of that name.
    ///
    /// # Errors
    /// When its provider is not configured well enough to be called.
    pub fn model(&self, id: &ModelRef) -> Result<Arc<dyn Model>, ConfigError> {
        if let Some(model) = locked(&self.models).get(id) {
            return Ok(model.clone());
        }
        let model = self.endpoint(&id.provider)?.model(&id.model);
        Ok(locked(&self.models).entry(id.clone()).or_insert(model).clone())
    }

    /// The embedding model of that name; `lexical:ngrams` needs no provider.
    ///
    /// # Errors
    /// When its provider is not configured well enough to be called, or has no embeddings.
    pub fn embedder(
        &self,
        id: &ModelRef,
        options: EmbedOptions,
    ) -> Result<Arc<dyn Embedder>, ConfigError> {
        if &*id.provider == LexicalEmbedder::PROVIDER && !self.configs.contains_key(&*id.provider) {
            let lexical =
                options.dimensions.map_or_else(LexicalEmbedder::default, LexicalEmbedder::new);
            return Ok(Arc::new(lexical));
        }
        self.endpoint(&id.provider)?.embedder(&id.model, options)
    }

    /// Chooses a model without being told: the first known provider whose key is set, else the first local server that
    /// answers. `TURNBUCKLE_MODEL` (`provider:model`, or a model's name alone) wins over what is found.
    ///
    /// # Errors
    /// When a model was asked for by name and its provider cannot be called.
    pub async fn detect(&self) -> Result<Detected, ConfigError> {
        let wish = (self.env)("TURNBUCKLE_MODEL");
        if let Some(id) = wish.as_deref().and_then(ModelRef::parse)
            && (self.configs.contains_key(&*id.provider)
                || presets().iter().any(|p| *p.name == *id.provider))
        {
            let model = self.model(&id)?;
            return Ok(Detected { model: Some(model), why: format!("TURNBUCKLE_MODEL says {id}") });
        }
        for (provider, preset, reason) in self.candidates() {
            let Ok(endpoint) = self.endpoint(&provider) else { continue };
            let named = wish.clone().or_else(|| self.only_model(&provider));
            let default = preset.and_then(|p| p.default_model).filter(|_| !self.moved(&provider));
            let name = match named.or(default) {
                Some(name) => Some(name),
                None => first_chat_model(&endpoint).await,
            };
            if let Some(name) = name {
                let model = self.model(&ModelRef::new(provider.clone(), name))?;
                return Ok(Detected { model: Some(model), why: reason });
            }
        }
        Ok(self.detect_local(wish).await)
    }

    /// Providers that could be called, in order: the configured ones as the presets are ordered, then any whose key is in
    /// the environment.
    fn candidates(&self) -> Vec<(String, Option<Preset>, String)> {
        let mut found = Vec::new();
        for preset in presets().into_iter().filter(|p| self.considers(p)) {
            let key = preset.key_env.iter().find(|v| (self.env)(v).is_some());
            let reason = match key {
                _ if self.configs.contains_key(&preset.name) => {
                    format!("{} is configured", preset.name)
                }
                Some(variable) => format!("{variable} is set"),
                None if preset.name == "openai" && self.moved("openai") => {
                    "OPENAI_BASE_URL is set".to_owned()
                }
                None => continue,
            };
            found.push((preset.name.clone(), Some(preset), reason));
        }
        let known = |name: &str| found.iter().any(|(n, ..)| n == name);
        let others: Vec<_> = self
            .configs
            .keys()
            .filter(|name| !known(name) && !self.local.iter().any(|(n, _)| n == *name))
            .map(|name| (name.clone(), None, format!("{name} is configured")))
            .collect();
        found.extend(others);
        found
    }

    /// Whether a known provider may be taken: a local server only once it answers, a cloud only when the configuration names it.
    fn considers(&self, preset: &Preset) -> bool {
        let by_key = preset.detected == config::Detected::ByKey;
        preset.host != HostKind::Local && (by_key || self.configs.contains_key(&preset.name))
    }

    /// Whether the provider's URL is not the preset's own, so that its default model means nothing.
    fn moved(&self, provider: &str) -> bool {
        let own = self.configs.get(provider).is_some_and(|c| c.base_url.is_some());
        own || (provider == "openai" && (self.env)("OPENAI_BASE_URL").is_some())
    }

    /// A provider's model when exactly one is configured.
    fn only_model(&self, provider: &str) -> Option<String> {
        let models = &self.configs.get(provider)?.models;
        models.keys().next().filter(|_| models.len() == 1).cloned()
    }

    async fn detect_local(&self, wish: Option<String>) -> Detected {
        let tries = self.local.iter().map(|(name, base_url)| async move {
            let mut config = self.configs.get(name).cloned().unwrap_or_default();
            config.base_url.get_or_insert_with(|| base_url.clone());
            // Only to ask what is there; the endpoint that is kept has its own timeouts.
            let mut probe = config.clone();
            probe.timeouts.connect_ms = PROBE.as_millis() as u64;
            probe.timeouts.first_byte_ms = PROBE.as_millis() as u64;
            let endpoint = Endpoint::new(probe.resolve(name, &*self.env).ok()?).ok()?;
            let model = tokio::time::timeout(PROBE, first_chat_model(&endpoint)).await.ok()??;
            let kept = Arc::new(Endpoint::new(config.resolve(name, &*self.env).ok()?).ok()?);
            Some((name.clone(), config.base_url.unwrap_or_default(), kept, model))
        });
        let found = join_all(tries).await.into_iter().flatten().next();
        let Some((name, base_url, endpoint, first)) = found else {
            return Detected { model: None, why: self.nothing_found() };
        };
        locked(&self.endpoints).insert(name.clone(), endpoint.clone());
        let model = endpoint.model(&wish.unwrap_or(first));
        self.register(model.clone());
        Detected { model: Some(model), why: format!("{name} answers at {base_url}") }
    }

    fn nothing_found(&self) -> String {
        let keys: Vec<String> =
            presets().into_iter().filter_map(|p| p.key_env.into_iter().next()).take(3).collect();
        let servers: Vec<&str> = self.local.iter().map(|(name, _)| name.as_str()).collect();
        format!(
            "no key is set ({}, ...) and no local server answers ({}): the rehearsal model plays, which is no model",
            keys.join(", "),
            servers.join(", ")
        )
    }
}

/// How long a local server has to say what models it has.
const PROBE: Duration = Duration::from_millis(800);

async fn first_chat_model(endpoint: &Endpoint) -> Option<String> {
    let models = endpoint.list_models().await.ok()?;
    models.into_iter().find(|name| !name.contains("embed") && !name.contains("rerank"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
