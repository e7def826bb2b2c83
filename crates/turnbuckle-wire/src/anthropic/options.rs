//! How the Messages API is spoken to one provider, as data.

use crate::answer_tool::Form;
use crate::media::MediaForm;
use crate::schema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use turnbuckle_core::model::ModelRequest;

/// The variable parts of the wire: caching, beta features and what differs between models.
///
/// ```
/// use turnbuckle_wire::AnthropicOptions;
/// let own: AnthropicOptions = serde_json::from_str(r#"{"cache": "one_hour"}"#).unwrap();
/// assert_eq!(own.path, "/v1/messages");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnthropicOptions {
    /// Path below the base URL; `{model}` and `{method}` stand for the model and for `rawPredict` or `streamRawPredict`.
    pub path: String,
    /// The `anthropic-version` header.
    pub version: String,
    /// The version for servers that want it in the body, with the model in the path: then neither the header nor the model is sent.
    pub body_version: Option<String>,
    /// Whether the server knows `output_config.format` for models that do.
    pub output_format: bool,
    /// The `anthropic-beta` header's words.
    pub betas: Vec<String>,
    /// How long what is cached is kept.
    pub cache: CacheLife,
    /// Whether the conversation is cached as it grows.
    pub conversation_cache: ConversationCache,
    /// How images and documents are taken.
    pub media: MediaForm,
    /// What is asked of thinking's display, such as `summarized`; none leaves the model's default.
    pub thinking_display: Option<String>,
    /// What differs for models whose name begins so, over the built-in table. The longest prefix that fits counts.
    pub models: BTreeMap<String, ClaudeRule>,
}

/// How long what is cached is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheLife {
    /// Nothing is cached.
    Off,
    /// Five minutes from the last use.
    #[default]
    FiveMinutes,
    /// An hour from the last use, at a higher price for writing.
    OneHour,
}

/// Whether the conversation is cached as it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationCache {
    /// Only blocks of the system prompt that say so.
    Off,
    /// By one `cache_control` for the whole request, which the server moves along.
    #[default]
    Request,
    /// By `cache_control` on the last block, for servers that do not know the former. The last message of a request then
    /// differs by this mark from the same message later on.
    LastBlock,
}

/// What differs between models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClaudeRule {
    /// How thinking is asked for.
    pub thinking: ThinkingParam,
    /// Whether `temperature` and `top_p` are refused.
    pub fixed_sampling: bool,
    /// Whether `output_config.format` is unknown, so that a structured answer is asked for as a call or in words.
    pub no_output_format: bool,
    /// The output limit when the request names none; the wire demands one.
    pub max_tokens: Option<u32>,
}

/// How thinking is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingParam {
    /// `thinking: {type: adaptive}` with `output_config.effort`.
    #[default]
    Adaptive,
    /// `thinking: {type: enabled}` with a token budget.
    Budget,
    /// The model does not think.
    None,
}

/// The output limit of models about which nothing else is known.
pub(super) const DEFAULT_MAX_TOKENS: u32 = 16_384;

impl Default for AnthropicOptions {
    fn default() -> Self {
        Self {
            path: "/v1/messages".to_owned(),
            version: "2023-06-01".to_owned(),
            body_version: None,
            output_format: true,
            betas: Vec::new(),
            cache: CacheLife::default(),
            conversation_cache: ConversationCache::default(),
            media: MediaForm::Any,
            thinking_display: None,
            models: BTreeMap::new(),
        }
    }
}

impl ClaudeRule {
    /// How a structured answer is asked for. A model that is to think cannot be forced to call.
    pub(super) fn form(&self, request: &ModelRequest) -> Form {
        let Some(output) = &request.output else { return Form::Native };
        if !self.no_output_format && schema::closed(&output.schema).is_some() {
            return Form::Native;
        }
        let thinks = self.thinking != ThinkingParam::None
            && request.settings.reasoning_effort.as_deref().is_some_and(|effort| !is_off(effort));
        if thinks { Form::Words } else { Form::tool(request) }
    }
}

/// Whether a wish for reasoning is one for none.
pub(super) fn is_off(effort: &str) -> bool {
    matches!(effort, "none" | "off")
}

impl AnthropicOptions {
    /// The rule for `model`. Unknown models are taken for new ones.
    pub(super) fn rule(&self, model: &str) -> ClaudeRule {
        let bare = model.rsplit('/').next().unwrap_or(model);
        let longest = |rules: &BTreeMap<String, ClaudeRule>| {
            rules
                .iter()
                .filter(|(prefix, _)| bare.contains(prefix.as_str()))
                .max_by_key(|(prefix, _)| prefix.len())
                .map(|(_, rule)| rule.clone())
        };
        let mut rule = longest(&self.models).or_else(|| longest(built_in())).unwrap_or_default();
        rule.no_output_format |= !self.output_format;
        rule
    }
}

fn built_in() -> &'static BTreeMap<String, ClaudeRule> {
    static MODELS: OnceLock<BTreeMap<String, ClaudeRule>> = OnceLock::new();
    MODELS.get_or_init(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_models_have_a_budget_and_new_ones_adapt() {
        let parsed: BTreeMap<String, ClaudeRule> =
            serde_json::from_str(include_str!("models.json")).unwrap();
        assert_eq!(parsed.len(), built_in().len());
        let options = AnthropicOptions::default();
        assert_eq!(options.rule("claude-3-haiku-20240307").thinking, ThinkingParam::None);
        assert_eq!(options.rule("claude-sonnet-4-20250514").thinking, ThinkingParam::Budget);
        assert_eq!(options.rule("anthropic/claude-sonnet-4-5").thinking, ThinkingParam::Budget);
        assert_eq!(options.rule("claude-sonnet-4-6").thinking, ThinkingParam::Adaptive);
        assert_eq!(options.rule("claude-opus-9").thinking, ThinkingParam::Adaptive);
    }
}
