//! A request as Chat Completions wants it. Settings and tools come first, `messages` last.

use super::OpenAiChat;
use super::profile::{
    ArgumentsRule, EmptyContent, LateSystem, MaxTokens, Profile, ReasoningField, ReasoningHistory,
    ReasoningParam, Structured, SystemRole, ToolChoiceForm, ToolIds,
};
use crate::EncodedRequest;
use crate::answer_tool::{Form, Offer};
use crate::media::{self, Place};
use crate::render::{
    EVENTS, EntryIds, IdForm, IdPlan, Json, Target, arguments_object, config, headers,
    offered_name, schema_instruction, system_note, tool_name,
};
use crate::schema::{is_strict, without_keywords};
use bytes::Bytes;
use serde_json::{Value, json};
use turnbuckle_core::content::{Content, ContentPart, FileType};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, Delivery, ModelRequest, SystemBlock, ToolChoice};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult};

/// Between a message from tools and one from a user, for servers that want the assistant in between.
const BRIDGE: &str = r#"{"role":"assistant","content":"Noted."}"#;
/// For servers that refuse messages without content.
const NOTHING: &str = "(empty)";

impl OpenAiChat {
    pub(super) fn encode_request(
        &self,
        request: &ModelRequest,
    ) -> Result<EncodedRequest, ModelError> {
        let profile = self.profile.for_model(&request.model);
        let renderer = Renderer {
            profile: &profile,
            target: Target { wire: super::WIRE, provider: &self.provider, model: &request.model },
        };
        let key = self.key(&request.model);
        let mut body = Json::with_capacity(1024);
        body.raw("{").member("model", &*request.model);
        if request.delivery == Delivery::Stream {
            body.member("stream", &true);
            if profile.stream_options {
                body.raw(r#","stream_options":{"include_usage":true}"#);
            }
        }
        renderer.settings(request, &mut body);
        renderer.tools(request, key, &mut body)?;
        renderer.output(request, &mut body);
        for (name, value) in &profile.extra {
            body.member(name, value);
        }
        body.raw(r#","messages":["#);
        renderer.system(request, &mut body);
        renderer.entries(request, key, &mut body)?;
        body.raw("]}");

        Ok(EncodedRequest {
            path: profile.path.replace("{model}", &request.model),
            headers: headers(request.delivery, EVENTS),
            body: body.finish(),
        })
    }
}

struct Renderer<'a> {
    profile: &'a Profile,
    target: Target<'a>,
}

impl Renderer<'_> {
    fn settings(&self, request: &ModelRequest, body: &mut Json) {
        let settings = &request.settings;
        if let Some(limit) = settings.max_output_tokens {
            let name = match self.profile.max_tokens {
                MaxTokens::MaxTokens => "max_tokens",
                MaxTokens::MaxCompletionTokens => "max_completion_tokens",
            };
            body.member(name, &limit);
        }
        if self.profile.sampling {
            if let Some(temperature) = settings.temperature {
                body.member("temperature", &temperature);
            }
            if let Some(top_p) = settings.top_p {
                body.member("top_p", &top_p);
            }
            if let (Some(seed), Some(name)) = (settings.seed, &self.profile.seed) {
                body.member(name, &seed);
            }
        }
        if let Some(effort) = &settings.reasoning_effort {
            self.reasoning(effort, body);
        }
        if let (true, Some(key)) = (self.profile.cache_key, &request.cache_key) {
            body.member("prompt_cache_key", &**key);
        }
    }

    fn reasoning(&self, effort: &str, body: &mut Json) {
        let on = !matches!(effort, "none" | "off");
        let thinking = json!({"type": if on { "enabled" } else { "disabled" }});
        match self.profile.reasoning_param {
            ReasoningParam::Effort => {
                body.member("reasoning_effort", effort);
            }
            ReasoningParam::Nested if on => {
                body.member("reasoning", &json!({ "effort": effort }));
            }
            ReasoningParam::Nested => {
                body.member("reasoning", &json!({ "enabled": false }));
            }
            ReasoningParam::Thinking => {
                body.member("thinking", &thinking);
            }
            ReasoningParam::ThinkingAndEffort => {
                body.member("thinking", &thinking);
                if on {
                    body.member("reasoning_effort", effort);
                }
            }
            ReasoningParam::EnableThinking => {
                body.member("enable_thinking", &on);
            }
            ReasoningParam::None => {}
        }
    }

    /// A choice the server does not know is put in the nearest words it does: "this tool" as "some tool" of one, "some
    /// tool" of one as "this tool", and "none" by offering none.
    fn tools(&self, request: &ModelRequest, key: u64, body: &mut Json) -> Result<(), ModelError> {
        let form = match self.profile.structured_for(request) {
            Structured::Tool => Form::Tool,
            Structured::JsonSchema | Structured::JsonObject | Structured::Prompt => Form::Native,
        };
        let offer = Offer::of(request, form);
        let specs = &*offer.specs;
        if specs.is_empty() {
            return Ok(());
        }
        let knows = |form| self.profile.tool_choices.contains(&form);
        let mut only: Option<&ToolSpec> = None;
        let choice = match &offer.choice {
            ToolChoice::Auto => None,
            ToolChoice::None if knows(ToolChoiceForm::None) => Some(json!("none")),
            ToolChoice::None => return Ok(()),
            ToolChoice::Required if knows(ToolChoiceForm::Required) => {
                Some(json!(self.profile.required_word))
            }
            ToolChoice::Required => match specs {
                [one] if knows(ToolChoiceForm::Named) => Some(named(&one.name)),
                _ => None,
            },
            ToolChoice::Tool(name) => {
                let spec = specs.iter().find(|s| s.name == *name).ok_or_else(|| {
                    config(format!("the forced tool `{name}` is not among the tools on offer"))
                })?;
                if knows(ToolChoiceForm::Named) {
                    Some(named(name))
                } else {
                    only = Some(spec);
                    knows(ToolChoiceForm::Required).then(|| json!(self.profile.required_word))
                }
            }
        };
        let tools = match only {
            Some(spec) => self.render_tools(std::slice::from_ref(spec))?,
            None => offer.rendered(key, |specs| self.render_tools(specs))?,
        };
        body.raw(r#","tools":"#).piece(&tools);
        if let Some(choice) = choice {
            body.member("tool_choice", &choice);
        }
        if let (true, Some(parallel)) =
            (self.profile.parallel_switch, request.settings.parallel_tool_calls)
        {
            body.member("parallel_tool_calls", &parallel);
        }
        Ok(())
    }

    fn render_tools(&self, specs: &[ToolSpec]) -> Result<Bytes, ModelError> {
        let mut out = Json::default();
        out.raw("[");
        for spec in specs {
            let name = offered_name(spec.name.as_str())?;
            let schema = without_keywords(&spec.input_schema, &self.profile.refused_keywords);
            out.comma().raw(r#"{"type":"function","function":{"#);
            out.member("name", name)
                .member("description", &spec.description)
                .member("parameters", &*schema);
            out.raw("}}");
        }
        out.raw("]");
        Ok(out.finish())
    }

    fn output(&self, request: &ModelRequest, body: &mut Json) {
        let Some(output) = &request.output else { return };
        match self.profile.structured_for(request) {
            Structured::JsonSchema => {
                let schema = without_keywords(&output.schema, &self.profile.refused_keywords);
                body.name("response_format").raw(r#"{"type":"json_schema","json_schema":{"#);
                body.member("name", &*tool_name(&output.name));
                body.member("strict", &is_strict(&schema)).member("schema", &*schema).raw("}}");
            }
            Structured::JsonObject => {
                body.member("response_format", &json!({"type": "json_object"}));
            }
            Structured::Prompt | Structured::Tool => {}
        }
    }

    fn system(&self, request: &ModelRequest, body: &mut Json) {
        let mut blocks: Vec<SystemBlock> = request.system.clone();
        if let Some(output) = &request.output
            && matches!(
                self.profile.structured_for(request),
                Structured::JsonObject | Structured::Prompt
            )
        {
            blocks.push(SystemBlock::new(schema_instruction(&output.schema)));
        }
        blocks.retain(|b| !b.text.is_empty());
        if blocks.is_empty() {
            return;
        }
        let role = self.system_role();
        body.comma().raw("{").member("role", role).name("content");
        if self.profile.cache_control && blocks.iter().any(|b| b.cache) {
            body.raw("[");
            for block in &blocks {
                body.comma().raw(r#"{"type":"text""#).member("text", &*block.text);
                if block.cache {
                    body.raw(r#","cache_control":{"type":"ephemeral"}"#);
                }
                body.raw("}");
            }
            body.raw("]}");
            return;
        }
        let texts: Vec<&str> = blocks.iter().map(|b| &*b.text).collect();
        body.value(&texts.join("\n\n")).raw("}");
    }

    fn system_role(&self) -> &'static str {
        match self.profile.system_role {
            SystemRole::System => "system",
            SystemRole::Developer => "developer",
        }
    }

    fn entries(&self, request: &ModelRequest, key: u64, body: &mut Json) -> Result<(), ModelError> {
        let entries = request.transcript.entries();
        let form = self.id_form();
        let plan = IdPlan::of(entries, form);
        let last_user = entries.iter().rposition(|e| matches!(e.item, Item::User { .. }));
        let mut after_tools = false;
        let mut messages = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let in_last_turn = last_user.is_none_or(|user| at > user);
            let reasoning = match self.profile.reasoning_history {
                ReasoningHistory::LastTurn if !in_last_turn => ReasoningHistory::Drop,
                history => history,
            };
            // The same entry renders in two ways under `LastTurn`; only one of them is kept.
            let variant = u64::from(reasoning == ReasoningHistory::Drop);
            let render = |ids: Option<&[String]>| -> Bytes {
                let mut out = Json::default();
                self.item(&entry.item, EntryIds::new(form, ids), reasoning, &mut out);
                out.kept()
            };
            let bytes = match plan.of_entry(at) {
                Some(ids) => render(Some(ids)),
                None => entry
                    .rendered
                    .get_or_render(key ^ variant, || Ok::<_, ModelError>(render(None)))?,
            };
            if bytes.is_empty() {
                continue;
            }
            let from_user = matches!(entry.item, Item::User { .. } | Item::System { .. });
            if after_tools && from_user && !self.profile.user_after_tool {
                messages.push(Bytes::from_static(BRIDGE.as_bytes()));
            }
            after_tools = matches!(entry.item, Item::ToolResults { .. });
            messages.push(bytes);
        }
        body.elements(&messages);
        Ok(())
    }

    fn id_form(&self) -> IdForm {
        match self.profile.tool_ids {
            ToolIds::Short => IdForm::AtMost(40),
            ToolIds::NineAlphanumerics => IdForm::Nine,
            ToolIds::Word => IdForm::Word(64),
        }
    }

    fn item(&self, item: &Item, ids: EntryIds<'_>, reasoning: ReasoningHistory, out: &mut Json) {
        match item {
            Item::User { content: Content::Text(text) } => self.text_message("user", text, out),
            Item::User { content: Content::Parts(parts) } => self.parts(parts, out),
            Item::System { text } => match self.profile.late_system {
                LateSystem::Keep => self.text_message(self.system_role(), text, out),
                LateSystem::AsUser => self.text_message("user", &system_note(text), out),
            },
            Item::Assistant { blocks } => self.assistant(blocks, ids, reasoning, out),
            Item::ToolResults { results } => self.results(results, ids, out),
        }
    }

    fn text_message(&self, role: &str, text: &str, out: &mut Json) {
        let text = if text.is_empty() && !self.profile.empty_messages { NOTHING } else { text };
        out.raw("{").member("role", role).member("content", text).raw("}");
    }

    /// Where nothing but text is left, it goes as one text: not every server takes lists of it.
    fn parts(&self, parts: &[ContentPart], out: &mut Json) {
        let mut content = Json::default();
        let mut texts = Vec::with_capacity(parts.len());
        let mut shown = false;
        for part in parts {
            if self.media_part(part, &mut content) {
                shown = true;
                continue;
            }
            let text = media::as_text(part);
            if !text.is_empty() {
                content.comma().raw(r#"{"type":"text""#).member("text", &*text).raw("}");
                texts.push(text);
            }
        }
        if !shown {
            return self.text_message("user", &texts.join("\n\n"), out);
        }
        out.raw(r#"{"role":"user","content":["#);
        out.0.extend_from_slice(&content.0);
        out.raw("]}");
    }

    /// Writes an image or file; `false` when the server does not take it.
    fn media_part(&self, part: &ContentPart, out: &mut Json) -> bool {
        match part {
            ContentPart::Text { .. } => false,
            ContentPart::Image(image) => {
                let Some(place) = self.profile.images.place(&image.source) else { return false };
                out.comma().raw(r#"{"type":"image_url","image_url":{"url":"#);
                match place {
                    Place::Data(data) => media::data_url(image.mime.as_str(), data, out),
                    Place::Url(url) => {
                        out.value(url);
                    }
                }
                if let Some(detail) = image.detail {
                    out.member("detail", &detail);
                }
                out.raw("}}");
                true
            }
            ContentPart::File(file) if file.mime == FileType::Pdf => {
                let Some(place) = self.profile.files.place(&file.source) else { return false };
                out.comma().raw(r#"{"type":"file","file":{"#);
                out.member("filename", &file.name).name("file_data");
                match place {
                    Place::Data(data) => media::data_url(file.mime.as_str(), data, out),
                    Place::Url(url) => {
                        out.value(url);
                    }
                }
                out.raw("}}");
                true
            }
            ContentPart::File(_) => false,
        }
    }

    fn results(&self, results: &[ToolResult], mut ids: EntryIds<'_>, out: &mut Json) {
        for result in results {
            let empty = result.content.is_empty() && !self.profile.empty_messages;
            let content = if empty { NOTHING } else { &result.content };
            out.comma().raw(r#"{"role":"tool""#);
            out.member("tool_call_id", &*ids.next(&result.wire_id));
            out.member("content", content).raw("}");
        }
    }

    fn assistant(
        &self,
        blocks: &[Block],
        mut ids: EntryIds<'_>,
        reasoning: ReasoningHistory,
        out: &mut Json,
    ) {
        let calls = blocks.iter().any(|b| matches!(b, Block::ToolCall { .. }));
        let mut said = Said::default();
        for block in blocks {
            match block {
                Block::Text { text, native } => self.say(text, native.as_ref(), &mut said),
                Block::Thinking { text, native } => {
                    if let Some(data) = self.target.own_model(native.as_ref()) {
                        said.thinking.push_str(text);
                        if let Some(Value::Array(details)) = data.get("reasoning_details") {
                            said.details.extend(details.iter().cloned());
                        }
                    }
                }
                Block::Native { native } => {
                    if let Some(Value::Array(images)) =
                        self.target.own(Some(native)).and_then(|d| d.get("images"))
                    {
                        said.images.extend(images.iter().cloned());
                    }
                }
                Block::ToolCall { .. } => {}
            }
        }
        if said.text.is_empty() && said.refusal.is_empty() && said.images.is_empty() && !calls {
            return;
        }
        out.raw(r#"{"role":"assistant""#);
        self.say_reasoning(&said, reasoning, calls, out);
        self.say_content(&said, reasoning, out);
        if !said.refusal.is_empty() {
            out.member("refusal", &said.refusal);
        }
        if !said.annotations.is_empty() {
            out.member("annotations", &said.annotations);
        }
        if !said.images.is_empty() {
            out.member("images", &said.images);
        }
        if calls {
            out.raw(r#","tool_calls":["#);
            for block in blocks {
                let Block::ToolCall { wire_id, name, arguments, native } = block else { continue };
                out.comma().raw("{").member("id", &*ids.next(wire_id)).member("type", "function");
                if let Some(extra) =
                    self.target.own_model(native.as_ref()).and_then(|d| d.get("extra_content"))
                {
                    out.member("extra_content", extra);
                }
                out.raw(r#","function":{"#).member("name", &*tool_name(name));
                match self.profile.arguments {
                    ArgumentsRule::Verbatim if !arguments.is_empty() => {
                        out.member("arguments", arguments)
                    }
                    _ => out.member("arguments", &*arguments_object(arguments)),
                };
                out.raw("}}");
            }
            out.raw("]");
        }
        out.raw("}");
    }

    fn say(&self, text: &str, native: Option<&turnbuckle_core::part::Native>, said: &mut Said) {
        let data = self.target.own(native);
        if data.and_then(|d| d.get("refusal")).is_some() {
            said.refusal.push_str(text);
            return;
        }
        if let Some(Value::Array(annotations)) = data.and_then(|d| d.get("annotations")) {
            said.annotations.extend(annotations.iter().cloned());
        }
        said.text.push_str(text);
    }

    fn say_reasoning(&self, said: &Said, reasoning: ReasoningHistory, calls: bool, out: &mut Json) {
        let wanted = match reasoning {
            ReasoningHistory::Drop => false,
            ReasoningHistory::LastTurn | ReasoningHistory::Keep => {
                !said.thinking.is_empty() || !said.details.is_empty()
            }
            ReasoningHistory::WithCalls => calls,
        };
        if !wanted {
            return;
        }
        match self.profile.reasoning_field {
            ReasoningField::ReasoningContent => out.member("reasoning_content", &said.thinking),
            ReasoningField::Reasoning => out.member("reasoning", &said.thinking),
            ReasoningField::ReasoningDetails if !said.details.is_empty() => {
                out.member("reasoning_details", &said.details)
            }
            ReasoningField::ReasoningDetails => out.member("reasoning", &said.thinking),
            ReasoningField::ContentPart => return,
        };
    }

    fn say_content(&self, said: &Said, reasoning: ReasoningHistory, out: &mut Json) {
        let in_parts = self.profile.reasoning_field == ReasoningField::ContentPart
            && reasoning != ReasoningHistory::Drop
            && !said.thinking.is_empty();
        if in_parts {
            out.raw(r#","content":[{"type":"thinking","thinking":[{"type":"text""#);
            out.member("text", &said.thinking).raw("}]}");
            if !said.text.is_empty() {
                out.raw(r#",{"type":"text""#).member("text", &said.text).raw("}");
            }
            out.raw("]");
            return;
        }
        if !said.text.is_empty() {
            out.member("content", &said.text);
            return;
        }
        match self.profile.empty_content {
            EmptyContent::Null => out.member("content", &Value::Null),
            EmptyContent::EmptyString => out.member("content", ""),
            EmptyContent::Omit => out,
        };
    }
}

/// What an answer said, by the fields in which it goes back.
#[derive(Default)]
struct Said {
    text: String,
    refusal: String,
    thinking: String,
    details: Vec<Value>,
    annotations: Vec<Value>,
    images: Vec<Value>,
}

fn named(name: &turnbuckle_core::ids::ToolName) -> Value {
    json!({"type": "function", "function": {"name": name}})
}
