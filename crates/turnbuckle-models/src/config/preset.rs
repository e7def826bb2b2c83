//! Providers that are known by name: data, not code.

use crate::catalogue::Host;
use serde::Deserialize;

const DATA: &str = include_str!("providers.json");

/// A known provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name in configurations.
    pub name: String,
    /// Its wire.
    #[serde(default = "openai_chat")]
    pub wire: String,
    /// The wire's quirk profile; empty for wires that have none.
    pub profile: String,
    /// Where its API is.
    pub base_url: String,
    /// The variables that may hold its key.
    #[serde(default)]
    pub key_env: Vec<String>,
    /// Whether it refuses calls without a key.
    #[serde(default)]
    pub key_required: bool,
    /// Whose prices hold.
    pub host: HostKind,
    /// The model to take when none is named; absent where the server has to be asked.
    #[serde(default)]
    pub default_model: Option<String>,
}

fn openai_chat() -> String {
    "openai-chat".to_owned()
}

/// Whose prices and windows hold at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    /// A vendor that serves its own models.
    Vendor(String),
    /// A gateway at list prices.
    Gateway,
    /// Prices are not known.
    Other,
    /// A server on this machine.
    Local,
}

impl HostKind {
    /// As the catalogue asks for it.
    pub fn as_host(&self) -> Host<'_> {
        match self {
            HostKind::Vendor(vendor) => Host::Vendor(vendor),
            HostKind::Gateway => Host::Gateway,
            HostKind::Other => Host::Other,
            HostKind::Local => Host::Local,
        }
    }
}

/// Every known provider, in the order in which they are looked for.
pub fn presets() -> Vec<Preset> {
    // A test reads the embedded data, so that it cannot be malformed in a release.
    serde_json::from_str(DATA).unwrap_or_default()
}

/// The known provider of that name.
pub fn preset(name: &str) -> Option<Preset> {
    presets().into_iter().find(|p| p.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_embedded_data_is_sound() {
        let presets: Vec<Preset> = serde_json::from_str(DATA).unwrap();
        let names: HashSet<_> = presets.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), presets.len());
        for p in &presets {
            let local = p.host == HostKind::Local;
            assert_eq!(p.base_url.starts_with("http://127.0.0.1:"), local, "{}", p.name);
            assert_eq!(p.key_required, !local, "{}", p.name);
            assert!(!p.key_required || !p.key_env.is_empty(), "{}", p.name);
            assert!(!p.base_url.ends_with('/'));
        }
    }

    #[test]
    fn the_order_of_detection_is_fixed() {
        let names: Vec<_> = presets().into_iter().map(|p| p.name).take(3).collect();
        assert_eq!(names, ["openai", "anthropic", "gemini"]);
        let local: Vec<_> =
            presets().into_iter().filter(|p| p.host == HostKind::Local).map(|p| p.name).collect();
        assert_eq!(local, ["ollama", "llamacpp", "vllm", "lmstudio"]);
    }
}
