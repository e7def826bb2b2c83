//! What a server that speaks Chat Completions wants different from the others, as data.

use crate::answer_tool::Form;
use crate::media::MediaForm;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use turnbuckle_core::model::ModelRequest;

/// The quirks of one kind of server. Built-in ones are in `profiles.json`; configuration may give its own.
///
/// ```
/// use turnbuckle_wire::Profile;
/// let own: Profile = serde_json::from_str(r#"{"max_tokens": "max_completion_tokens"}"#).unwrap();
/// assert_ne!(own, Profile::default());
/// assert!(Profile::named("mistral").is_some());
/// assert!(Profile::named("nobody").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// The vendor's public base URL, for configurations that name none.
    pub base_url: Option<String>,
    /// Path below the base URL; `{model}` stands for the model's name.
    pub path: String,
    /// The header that carries the key.
    pub auth: Auth,
    /// The field for the output limit.
    pub max_tokens: MaxTokens,
    /// Whether `stream_options` may ask for usage in the stream.
    pub stream_options: bool,
    /// Whether reasoning goes back to the server.
    pub reasoning_history: ReasoningHistory,
    /// The field in which it goes back.
    pub reasoning_field: ReasoningField,
    /// How the wish for more or less reasoning is put.
    pub reasoning_param: ReasoningParam,
    /// Whether `temperature`, `top_p` and the seed are accepted.
    pub sampling: bool,
    /// The role of the system prompt.
    pub system_role: SystemRole,
    /// What becomes of system messages after the first message.
    pub late_system: LateSystem,
    /// Whether a user message may follow tool results directly.
    pub user_after_tool: bool,
    /// What stands for the missing text of an assistant message that calls tools.
    pub empty_content: EmptyContent,
    /// Whether messages without content are accepted.
    pub empty_messages: bool,
    /// The form of tool call ids.
    pub tool_ids: ToolIds,
    /// Whether the server parses the arguments of earlier calls and refuses what is no object.
    pub arguments: ArgumentsRule,
    /// The forms of `tool_choice` beside `auto` that work.
    pub tool_choices: Vec<ToolChoiceForm>,
    /// The word for "at least one tool".
    pub required_word: String,
    /// Whether `parallel_tool_calls` is accepted.
    pub parallel_switch: bool,
    /// How a structured answer is asked for.
    pub structured: Structured,
    /// How it is asked for beside tools, where servers take `response_format` only without any.
    pub structured_with_tools: Option<Structured>,
    /// JSON Schema keywords the server refuses; they are left out of tools and answers.
    pub refused_keywords: Vec<String>,
    /// How images are taken.
    pub images: MediaForm,
    /// How PDF files are taken.
    pub files: MediaForm,
    /// Whether `prompt_cache_key` is accepted.
    pub cache_key: bool,
    /// Whether system text may carry `cache_control`.
    pub cache_control: bool,
    /// The field for the seed; none when there is no such thing.
    pub seed: Option<String>,
    /// Members added to every request.
    pub extra: Map<String, Value>,
    /// What differs for models whose name begins so. The longest prefix that fits counts; a vendor's prefix up to the
    /// last slash of the name is passed over.
    pub models: BTreeMap<String, ModelRule>,
}

/// What differs for some models of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelRule {
    /// Whether sampling settings are accepted.
    pub sampling: Option<bool>,
    /// The role of the system prompt.
    pub system_role: Option<SystemRole>,
    /// Whether `parallel_tool_calls` is accepted.
    pub parallel_switch: Option<bool>,
    /// How the wish for reasoning is put.
    pub reasoning_param: Option<ReasoningParam>,
    /// Whether reasoning goes back.
    pub reasoning_history: Option<ReasoningHistory>,
    /// The forms of `tool_choice` that work.
    pub tool_choices: Option<Vec<ToolChoiceForm>>,
    /// How a structured answer is asked for.
    pub structured: Option<Structured>,
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// `authorization: Bearer KEY`.
    #[default]
    Bearer,
    /// `api-key: KEY`.
    ApiKey,
}

/// The field for the output limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokens {
    /// `max_tokens`.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// Whether reasoning goes back to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningHistory {
    /// Never; the server refuses or ignores it.
    #[default]
    Drop,
    /// Only after the last user message.
    LastTurn,
    /// Wherever there is some.
    Keep,
    /// With every message that calls tools, even when there is none, and nowhere else.
    WithCalls,
}

/// The field in which reasoning goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// `reasoning_content`.
    #[default]
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// `reasoning_details` as received; plain reasoning goes into `reasoning`.
    ReasoningDetails,
    /// A `thinking` part of the content.
    ContentPart,
}

/// How the wish for more or less reasoning is put. The words `none` and `off` switch it off where that can be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningParam {
    /// `reasoning_effort: WORD`.
    #[default]
    Effort,
    /// `reasoning: {effort: WORD}`.
    Nested,
    /// `thinking: {type: enabled|disabled}`.
    Thinking,
    /// `thinking` and `reasoning_effort` both.
    ThinkingAndEffort,
    /// `enable_thinking: true|false`.
    EnableThinking,
    /// It cannot be said.
    None,
}

/// The role of the system prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`.
    #[default]
    System,
    /// `developer`.
    Developer,
}

/// What becomes of system messages after the first message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateSystem {
    /// They stay.
    #[default]
    Keep,
    /// They become user messages in `<system_note>` tags, for chat templates that refuse them.
    AsUser,
}

/// What stands for the missing text of an assistant message that calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyContent {
    /// `null`.
    #[default]
    Null,
    /// An empty string.
    EmptyString,
    /// No member at all.
    Omit,
}

/// The form of tool call ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolIds {
    /// Any text of at most 40 bytes.
    #[default]
    Short,
    /// Nine letters and digits.
    NineAlphanumerics,
    /// Letters, digits, `_` and `-`, at most 64.
    Word,
}

/// What is done with arguments that are no JSON object when a call is sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentsRule {
    /// They go back as written.
    #[default]
    Verbatim,
    /// They go back inside an object, `{"malformed_arguments": TEXT}`.
    Object,
}

/// A form of `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceForm {
    /// No tool.
    None,
    /// At least one.
    Required,
    /// This one.
    Named,
}

/// How a structured answer is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structured {
    /// `response_format` with the schema; strict when the schema is within the strict subset.
    #[default]
    JsonSchema,
    /// `response_format: {type: json_object}`, and the schema in the system prompt.
    JsonObject,
    /// As a forced call of a tool that stands for the answer; in the system prompt where no call can be forced.
    Tool,
    /// The schema in the system prompt.
    Prompt,
}

impl Default for Profile {
    /// A server about which nothing is known: the common subset.
    fn default() -> Self {
        Self {
            base_url: None,
            path: "/chat/completions".to_owned(),
            auth: Auth::default(),
            max_tokens: MaxTokens::default(),
            stream_options: true,
            reasoning_history: ReasoningHistory::default(),
            reasoning_field: ReasoningField::default(),
            reasoning_param: ReasoningParam::default(),
            sampling: true,
            system_role: SystemRole::default(),
            late_system: LateSystem::default(),
            user_after_tool: true,
            empty_content: EmptyContent::default(),
            empty_messages: true,
            tool_ids: ToolIds::default(),
            arguments: ArgumentsRule::default(),
            tool_choices: vec![
                ToolChoiceForm::None,
                ToolChoiceForm::Required,
                ToolChoiceForm::Named,
            ],
            required_word: "required".to_owned(),
            parallel_switch: false,
            structured: Structured::default(),
            structured_with_tools: None,
            refused_keywords: Vec::new(),
            images: MediaForm::Any,
            files: MediaForm::None,
            cache_key: false,
            cache_control: false,
            seed: Some("seed".to_owned()),
            extra: Map::new(),
            models: BTreeMap::new(),
        }
    }
}

impl Profile {
    /// A built-in profile.
    pub fn named(name: &str) -> Option<Self> {
        built_in().get(name).cloned()
    }

    /// The names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        built_in().keys().map(String::as_str)
    }

    /// How the structured answer to a request is asked for.
    pub(super) fn structured_for(&self, request: &ModelRequest) -> Structured {
        let beside = self.structured_with_tools.filter(|_| !request.tools.specs.is_empty());
        match beside.unwrap_or(self.structured) {
            Structured::Tool if !self.can_force(request) => Structured::Prompt,
            structured => structured,
        }
    }

    fn can_force(&self, request: &ModelRequest) -> bool {
        let forces = |form: &ToolChoiceForm| {
            matches!(form, ToolChoiceForm::Required | ToolChoiceForm::Named)
        };
        Form::tool(request) == Form::Tool && self.tool_choices.iter().any(forces)
    }

    /// The profile as it holds for `model`.
    pub(crate) fn for_model(&self, model: &str) -> Profile {
        let mut profile = self.clone();
        let bare = model.rsplit('/').next().unwrap_or(model);
        let rule = self
            .models
            .iter()
            .filter(|(prefix, _)| {
                bare.starts_with(prefix.as_str()) || model.starts_with(prefix.as_str())
            })
            .max_by_key(|(prefix, _)| prefix.len());
        if let Some((_, rule)) = rule {
            let rule = rule.clone();
            profile.sampling = rule.sampling.unwrap_or(profile.sampling);
            profile.system_role = rule.system_role.unwrap_or(profile.system_role);
            profile.parallel_switch = rule.parallel_switch.unwrap_or(profile.parallel_switch);
            profile.reasoning_param = rule.reasoning_param.unwrap_or(profile.reasoning_param);
            profile.reasoning_history = rule.reasoning_history.unwrap_or(profile.reasoning_history);
            profile.tool_choices = rule.tool_choices.unwrap_or(profile.tool_choices);
            profile.structured = rule.structured.unwrap_or(profile.structured);
        }
        profile
    }
}

fn built_in() -> &'static BTreeMap<String, Profile> {
    static PROFILES: OnceLock<BTreeMap<String, Profile>> = OnceLock::new();
    PROFILES.get_or_init(|| serde_json::from_str(include_str!("profiles.json")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promised_vendor_has_a_profile() {
        let parsed: BTreeMap<String, Profile> =
            serde_json::from_str(include_str!("profiles.json")).unwrap();
        let names: Vec<&str> = Profile::names().collect();
        assert_eq!(parsed.len(), names.len());
        assert_eq!(
            names,
            [
                "azure",
                "bedrock",
                "deepseek",
                "fireworks",
                "groq",
                "kimi",
                "llamacpp",
                "lmstudio",
                "mistral",
                "ollama",
                "openai",
                "openrouter",
                "qwen",
                "together",
                "vllm",
                "xai"
            ]
        );
    }

    #[test]
    fn the_longest_prefix_of_a_model_counts() {
        let profile = Profile::named("openai").unwrap();
        assert!(!profile.for_model("gpt-5-mini").sampling);
        assert!(profile.for_model("gpt-5-chat-latest").sampling);
        assert!(profile.for_model("gpt-4.1").sampling);
        assert!(!Profile::named("openai").unwrap().for_model("openai/o3").sampling);
    }
}
