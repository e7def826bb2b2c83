//! How the Responses API is spoken to one provider, as data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The variable parts of the wire.
///
/// ```
/// use turnbuckle_wire::ResponsesOptions;
/// let own: ResponsesOptions = serde_json::from_str(r#"{"reasoning_summary": "auto"}"#).unwrap();
/// assert_eq!(own.path, "/responses");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResponsesOptions {
    /// Path below the base URL.
    pub path: String,
    /// Whether the key goes into `api-key` instead of `authorization`.
    pub api_key_header: bool,
    /// Whether the provider may keep the answer. Reasoning is replayed by its encrypted content otherwise.
    pub store: bool,
    /// Which summaries of reasoning are asked for, such as `auto`; some accounts must be verified for it.
    pub reasoning_summary: Option<String>,
    /// Whether `prompt_cache_key` is accepted.
    pub cache_key: bool,
    /// Members added to every request.
    pub extra: Map<String, Value>,
    /// What differs for models whose name begins so. The longest prefix that fits counts.
    pub models: BTreeMap<String, ResponsesRule>,
}

/// What differs between models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResponsesRule {
    /// Whether the model reasons: then it takes `reasoning` and gives encrypted content.
    pub reasoning: bool,
    /// Whether `temperature` and `top_p` are accepted.
    pub sampling: bool,
}

impl Default for ResponsesRule {
    /// A new model, about which nothing is known.
    fn default() -> Self {
        Self { reasoning: true, sampling: false }
    }
}

impl Default for ResponsesOptions {
    fn default() -> Self {
        let plain = ResponsesRule { reasoning: false, sampling: true };
        let models = ["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"];
        Self {
            path: "/responses".to_owned(),
            api_key_header: false,
            store: false,
            reasoning_summary: None,
            cache_key: true,
            extra: Map::new(),
            models: models.into_iter().map(|name| (name.to_owned(), plain)).collect(),
        }
    }
}

impl ResponsesOptions {
    pub(super) fn rule(&self, model: &str) -> ResponsesRule {
        let bare = model.rsplit('/').next().unwrap_or(model);
        self.models
            .iter()
            .filter(|(prefix, _)| bare.starts_with(prefix.as_str()))
            .max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, rule)| *rule)
            .unwrap_or_default()
    }
}
