//! How Gemini is spoken to one provider, as data.

use crate::answer_tool::Form;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use turnbuckle_core::model::ModelRequest;

/// The variable parts of the wire: where it is served and what differs between models.
///
/// ```
/// use turnbuckle_wire::GeminiOptions;
/// let vertex: GeminiOptions = serde_json::from_str(
///     r#"{"path": "/v1/projects/p/locations/global/publishers/google/models/{model}:{method}",
///         "auth": "bearer", "call_ids": false}"#,
/// )
/// .unwrap();
/// assert_ne!(vertex, GeminiOptions::default());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeminiOptions {
    /// Path below the base URL; `{model}` and `{method}` stand for the model and the method.
    pub path: String,
    /// The header that carries the key.
    pub auth: GeminiAuth,
    /// Whether calls and their results may carry ids.
    pub call_ids: bool,
    /// Whether summaries of the model's thinking are asked for.
    pub include_thoughts: bool,
    /// What differs for models whose name begins so, over the built-in table. The longest prefix that fits counts.
    pub models: BTreeMap<String, GeminiRule>,
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeminiAuth {
    /// `x-goog-api-key`.
    #[default]
    ApiKey,
    /// `authorization: Bearer TOKEN`.
    Bearer,
}

/// What differs between models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeminiRule {
    /// How thinking is asked for.
    pub thinking: GeminiThinking,
    /// Whether function calls are accepted without the signature of this model.
    pub unsigned_calls: bool,
    /// Whether a schema for the answer and tools exclude each other.
    pub schema_or_tools: bool,
}

/// How thinking is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeminiThinking {
    /// `thinkingLevel`.
    #[default]
    Level,
    /// `thinkingBudget` in tokens.
    Budget,
    /// The model does not think.
    None,
}

impl Default for GeminiOptions {
    fn default() -> Self {
        Self {
            path: "/v1beta/models/{model}:{method}".to_owned(),
            auth: GeminiAuth::default(),
            call_ids: true,
            include_thoughts: true,
            models: BTreeMap::new(),
        }
    }
}

impl GeminiRule {
    /// How a structured answer is asked for.
    pub(super) fn form(self, request: &ModelRequest) -> Form {
        if self.schema_or_tools && !request.tools.specs.is_empty() {
            Form::tool(request)
        } else {
            Form::Native
        }
    }
}

impl GeminiOptions {
    /// The rule for `model`. Unknown models are taken for new ones.
    pub(super) fn rule(&self, model: &str) -> GeminiRule {
        let bare = model.rsplit('/').next().unwrap_or(model);
        let longest = |rules: &BTreeMap<String, GeminiRule>| {
            rules
                .iter()
                .filter(|(prefix, _)| bare.starts_with(prefix.as_str()))
                .max_by_key(|(prefix, _)| prefix.len())
                .map(|(_, rule)| *rule)
        };
        longest(&self.models).or_else(|| longest(built_in())).unwrap_or_default()
    }
}

fn built_in() -> &'static BTreeMap<String, GeminiRule> {
    static MODELS: OnceLock<BTreeMap<String, GeminiRule>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let plain = GeminiRule {
            thinking: GeminiThinking::None,
            unsigned_calls: true,
            schema_or_tools: true,
        };
        let budget = GeminiRule { thinking: GeminiThinking::Budget, ..plain };
        [("gemini-1", plain), ("gemini-2.0", plain), ("gemini-2.5", budget), ("gemma", plain)]
            .into_iter()
            .map(|(name, rule)| (name.to_owned(), rule))
            .collect()
    })
}
