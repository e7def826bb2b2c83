//! Providers that are known by name: data, not code.

use super::{AuthKind, PlaceRule};
use crate::catalogue::Host;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

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
    /// Where its API is. May name places in braces.
    pub base_url: String,
    /// The variables that may hold its key.
    #[serde(default)]
    pub key_env: Vec<String>,
    /// Whether it refuses calls without a key.
    #[serde(default)]
    pub key_required: bool,
    /// The ways of being authorised, in the order in which they are tried; empty where there is only the key.
    #[serde(default)]
    pub auth: Vec<AuthKind>,
    /// What to set when none of them can be used.
    #[serde(default)]
    pub needs: String,
    /// Where in a cloud it is.
    #[serde(default)]
    pub places: BTreeMap<String, PlaceRule>,
    /// Settings of its wire. May name places.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// Where it lists its models, when it is not where its wire does.
    #[serde(default)]
    pub models_path: Option<String>,
    /// The service that signatures name.
    #[serde(default)]
    pub service: Option<String>,
    /// What differs when it is spoken to over another wire.
    #[serde(default)]
    pub wires: BTreeMap<String, PresetWire>,
    /// Whose prices hold.
    pub host: HostKind,
    /// The model to take when none is named; absent where the server has to be asked.
    #[serde(default)]
    pub default_model: Option<String>,
    /// Whether it is taken without being asked for when its key is set. Not where what its server lists need not be to be had.
    #[serde(default)]
    pub detected: Detected,
}

/// Whether a provider is taken without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detected {
    /// When its key is set.
    #[default]
    ByKey,
    /// Only when the configuration names it.
    WhenConfigured,
}

/// A known provider over one wire.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PresetWire {
    /// Where its API is; as over its own wire when empty.
    pub base_url: String,
    /// Settings of the wire.
    pub options: Map<String, Value>,
    /// Where it lists its models.
    pub models_path: Option<String>,
    /// The service that signatures name.
    pub service: Option<String>,
}

impl Preset {
    /// The provider over a wire.
    pub fn for_wire(&self, wire: &str) -> PresetWire {
        let own = PresetWire {
            base_url: self.base_url.clone(),
            options: self.options.clone(),
            models_path: self.models_path.clone(),
            service: self.service.clone(),
        };
        if wire == self.wire {
            return own;
        }
        let Some(other) = self.wires.get(wire) else {
            // Settings of one wire mean nothing to another.
            return PresetWire { options: Map::new(), models_path: None, ..own };
        };
        let same_place = other.base_url.is_empty();
        PresetWire {
            base_url: if same_place { own.base_url } else { other.base_url.clone() },
            options: other.options.clone(),
            models_path: other.models_path.clone(),
            service: other.service.clone().or(own.service),
        }
    }
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
    parse().unwrap_or_default()
}

/// A row that is `like` another has its members, but for those it gives itself.
fn parse() -> Result<Vec<Preset>, serde_json::Error> {
    let rows: Vec<Map<String, Value>> = serde_json::from_str(DATA)?;
    let whole = rows.iter().map(|row| {
        let like = row.get("like").and_then(Value::as_str);
        let base = like.and_then(|like| rows.iter().find(|r| r.get("name") == Some(&like.into())));
        let mut all = base.cloned().unwrap_or_default();
        all.extend(row.clone());
        all.remove("like");
        serde_json::from_value(Value::Object(all))
    });
    whole.collect()
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
        let presets = parse().unwrap();
        let names: HashSet<_> = presets.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), presets.len());
        for p in &presets {
            let local = p.host == HostKind::Local;
            assert_eq!(p.base_url.starts_with("http://127.0.0.1:"), local, "{}", p.name);
            assert_eq!(p.key_required, !local && p.auth.is_empty(), "{}", p.name);
            assert_eq!(p.needs.is_empty(), p.auth.is_empty(), "{}", p.name);
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
