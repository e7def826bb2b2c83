//! Providers as they are configured, and the presets that fill in what is not.

mod auth;
mod error;
mod place;
mod preset;

pub use auth::{Auth, AuthConfig, AuthKind, AwsAuth, TokenAuth};
pub use error::ConfigError;
pub use place::PlaceRule;
pub use preset::{Detected, HostKind, Preset, PresetWire, preset, presets};

use crate::catalogue::{Capabilities, InfoSource, ModelInfo, Prices, TokenizerFamily};
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// One provider. Everything is optional for a provider whose name is a [preset](presets); any other needs a `base_url`.
///
/// ```
/// use turnbuckle_models::ProviderConfig;
/// let text = r#"{"base_url": "http://127.0.0.1:8080/v1", "models": {"mine": {"context_window": 65536}}}"#;
/// let config: ProviderConfig = serde_json::from_str(text).unwrap();
/// assert_eq!(config.models["mine"].context_window, Some(65_536));
/// assert!(serde_json::from_str::<ProviderConfig>(r#"{"base-url": "x"}"#).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The known provider that this is another of, such as a second region; its own name otherwise.
    pub like: Option<String>,
    /// The wire: `openai-chat` unless the preset says otherwise.
    pub wire: Option<String>,
    /// The quirk profile of the wire; by default the provider's name if there is a profile of that name.
    pub profile: Option<String>,
    /// Settings of the wire that are laid over the profile, or over the wire's defaults where it has no profiles.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Where the API is, without the path of the call, such as `https://api.example.com/v1`.
    pub base_url: Option<String>,
    /// Where in a cloud it is: `resource` and `api_version` (Azure), `region` (Bedrock), `project` and `location` (Vertex).
    pub place: BTreeMap<String, String>,
    /// How calls are authorised, where that is more than a key.
    pub auth: Option<AuthConfig>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The file that holds the key; wins over the environment.
    pub api_key_file: Option<PathBuf>,
    /// Further headers, such as an organisation's id. Values may hold keys: they are never printed.
    pub headers: BTreeMap<String, HeaderText>,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// Calls at once; further ones wait in order.
    pub max_concurrency: Option<u32>,
    /// Calls per minute that the account allows, when that is known: they are spread, and no minute ever sees more. Without
    /// it the limit is learnt from the provider's refusals.
    pub requests_per_minute: Option<NonZeroU32>,
    /// The largest answer accepted, in bytes.
    pub max_response_bytes: Option<u64>,
    /// What is known better of models than the catalogue does, by the provider's name of the model.
    pub models: BTreeMap<String, ModelOverride>,
}

/// Calls at once per endpoint when the configuration does not say.
pub const DEFAULT_CONCURRENCY: u32 = 256;
/// The largest answer in bytes when the configuration does not say.
pub const DEFAULT_MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// A header's value, kept from being printed since it may be a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeaderText(pub String);

impl std::fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// How long each phase of a call may take, in milliseconds. There is no limit on the whole: long answers are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect_ms: u64,
    /// From the request to the first byte of the answer's body.
    pub first_byte_ms: u64,
    /// Between two pieces of the answer.
    pub idle_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, first_byte_ms: 300_000, idle_ms: 120_000 }
    }
}

impl Timeouts {
    pub(crate) const fn connect(self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    pub(crate) const fn first_byte(self) -> Duration {
        Duration::from_millis(self.first_byte_ms)
    }

    pub(crate) const fn idle(self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }
}

/// What the configuration says of a model. Each field given wins over the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOverride {
    /// Prompt and answer together, in tokens.
    pub context_window: Option<u32>,
    /// The longest answer, in tokens.
    pub max_output_tokens: Option<u32>,
    /// Prices in US dollars per million tokens.
    pub prices: Option<Prices>,
    /// What it can take and do.
    pub capabilities: Option<Capabilities>,
    /// How its tokens are counted.
    pub tokenizer: Option<TokenizerFamily>,
}

impl ModelOverride {
    /// Lays the override over what the catalogue knows.
    pub fn apply(&self, mut info: ModelInfo) -> ModelInfo {
        if let Some(window) = self.context_window {
            info.context_window = window;
            info.source = InfoSource::Config;
        }
        info.max_output_tokens = self.max_output_tokens.unwrap_or(info.max_output_tokens);
        info.max_output_tokens = info.max_output_tokens.min(info.context_window);
        if let Some(prices) = &self.prices {
            info.prices = Some(prices.clone());
        }
        info.capabilities = self.capabilities.unwrap_or(info.capabilities);
        info.tokenizer = self.tokenizer.unwrap_or(info.tokenizer);
        info
    }
}

/// Looks environment variables up, so that tests need not touch the process's own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's environment. An empty variable counts as unset.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.trim().is_empty())
}

/// A provider with the preset's values filled in and its key read.
#[derive(Clone, Debug)]
pub struct ResolvedProvider {
    /// The configured name.
    pub name: String,
    /// The wire.
    pub wire: String,
    /// The quirk profile: the configured one, the preset's, or the provider's own name.
    pub profile: String,
    /// Where the API is, without a slash at the end.
    pub base_url: String,
    /// The key, when one is needed.
    pub key: Option<Secret>,
    /// How calls are authorised.
    pub auth: Auth,
    /// Settings of the wire: the preset's, with the configured ones laid over them.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Where the provider lists its models, when it is not where its wire does.
    pub models_path: Option<String>,
    /// Whose prices and windows hold.
    pub host: HostKind,
    /// The rest as configured.
    pub config: ProviderConfig,
}

impl ProviderConfig {
    /// The files it names, for whoever knows from where they are meant.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let credentials = match &mut self.auth {
            Some(
                AuthConfig::Aws { credentials_file, .. }
                | AuthConfig::Google { credentials_file, .. },
            ) => credentials_file.as_mut(),
            _ => None,
        };
        self.api_key_file.as_mut().into_iter().chain(credentials)
    }

    /// Fills in the preset of `name` and reads the key.
    ///
    /// # Errors
    /// When there is no base URL, a key is needed and cannot be had, or a price makes no sense.
    pub fn resolve(
        &self,
        name: &str,
        env: Environment<'_>,
    ) -> Result<ResolvedProvider, ConfigError> {
        let preset = self.preset(name)?;
        let given = |own: &Option<String>, of: fn(&Preset) -> &str| {
            own.clone().or_else(|| preset.as_ref().map(|p| of(p).to_owned()))
        };
        let wire = given(&self.wire, |p| &p.wire).unwrap_or_else(|| "openai-chat".to_owned());
        let spoken = preset.as_ref().map(|p| p.for_wire(&wire));
        let places = preset.as_ref().map(|preset| place::Places {
            provider: name,
            preset,
            given: &self.place,
            env,
        });
        let fill = |text: &str| match &places {
            Some(places) => places.fill(text),
            None => Ok(text.to_owned()),
        };
        let base_url = match (&self.base_url, &spoken) {
            (Some(own), _) => own.clone(),
            (None, Some(spoken)) => fill(&spoken.base_url)?,
            (None, None) => return Err(ConfigError::NoBaseUrl { provider: name.to_owned() }),
        };
        let mut options = match (&places, &spoken) {
            (Some(places), Some(spoken)) => places.fill_options(&spoken.options)?,
            _ => serde_json::Map::new(),
        };
        options.extend(self.options.clone());
        let models_path = spoken.as_ref().and_then(|s| s.models_path.as_deref()).map(fill);
        let models_path = models_path.transpose()?;
        let key = self.key(name, preset.as_ref(), env)?;
        let region = match (&places, &preset) {
            (Some(places), Some(preset)) if preset.places.contains_key("region") => {
                Some(places.value("region")?)
            }
            _ => None,
        };
        let service = spoken.as_ref().and_then(|s| s.service.clone());
        let auth = auth::Finder {
            provider: name,
            config: self,
            preset: preset.as_ref(),
            env,
            key: key.as_ref(),
            region,
            service,
        };
        let auth = auth.find()?;
        for (model, known) in &self.models {
            if let Some(prices) = &known.prices {
                prices.check().map_err(|problem| ConfigError::Prices {
                    provider: name.to_owned(),
                    model: model.clone(),
                    problem,
                })?;
            }
        }
        // A preset's list prices say nothing about another server that goes by its name.
        let host = match &preset {
            Some(p) if self.base_url.is_none() || p.host == HostKind::Local => p.host.clone(),
            _ => HostKind::Other,
        };
        Ok(ResolvedProvider {
            name: name.to_owned(),
            wire,
            profile: given(&self.profile, |p| &p.profile).unwrap_or_else(|| name.to_owned()),
            base_url: base_url.trim_end_matches('/').to_owned(),
            key,
            auth,
            options,
            models_path,
            host,
            config: self.clone(),
        })
    }

    fn preset(&self, name: &str) -> Result<Option<Preset>, ConfigError> {
        match &self.like {
            None => Ok(preset(name)),
            Some(like) => preset(like).map(Some).ok_or_else(|| ConfigError::UnknownPreset {
                provider: name.to_owned(),
                like: like.clone(),
                known: presets().into_iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    fn key(
        &self,
        name: &str,
        preset: Option<&Preset>,
        env: Environment<'_>,
    ) -> Result<Option<Secret>, ConfigError> {
        if let Some(path) = &self.api_key_file {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::KeyFile { path: path.clone(), source })?;
            return Ok(Some(Secret::new(&text)));
        }
        if let Some(variable) = &self.api_key_env {
            let value = env(variable).ok_or_else(|| ConfigError::NoKey {
                provider: name.to_owned(),
                variables: variable.clone(),
            })?;
            return Ok(Some(Secret::new(&value)));
        }
        let Some(preset) = preset else { return Ok(None) };
        match preset.key_env.iter().find_map(|variable| env(variable)) {
            Some(value) => Ok(Some(Secret::new(&value))),
            None if preset.key_required && self.base_url.is_none() => Err(ConfigError::NoKey {
                provider: name.to_owned(),
                variables: preset.key_env.join(" or "),
            }),
            None => Ok(None),
        }
    }
}
