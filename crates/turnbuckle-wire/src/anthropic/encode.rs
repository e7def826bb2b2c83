//! A request as the Messages API wants it. `messages` come last.

use super::Anthropic;
use super::options::{
    CacheLife, ClaudeRule, ConversationCache, DEFAULT_MAX_TOKENS, ThinkingParam, is_off,
};
use crate::EncodedRequest;
use crate::answer_tool::{Form, Offer};
use crate::media::{self, Place};
use crate::render::{
    EVENTS, EntryIds, IdForm, Json, Target, arguments_object, config, headers, offered_name,
    render_entries, schema_instruction, system_note, tool_name,
};
use crate::schema;
use bytes::Bytes;
use serde_json::{Value, json};
use turnbuckle_core::content::{Content, ContentPart, FileType};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, Delivery, ModelRequest, SystemBlock, ToolChoice};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult};

/// For content that may not be empty.
const NOTHING: &str = "(empty)";
/// Opens a conversation whose first message would be the assistant's.
const OPENING: &str =
    r#"{"role":"user","content":[{"type":"text","text":"(The conversation goes on.)"}]}"#;
const ID_FORM: IdForm = IdForm::Word(64);
/// The least budget the API takes.
const LEAST_BUDGET: u32 = 1024;

impl Anthropic {
    pub(super) fn encode_request(
        &self,
        request: &ModelRequest,
    ) -> Result<EncodedRequest, ModelError> {
        let rule = self.options.rule(&request.model);
        let renderer = Renderer {
            codec: self,
            rule: &rule,
            target: Target { wire: super::WIRE, provider: &self.provider, model: &request.model },
        };
        let key = self.key(&request.model);
        let mut body = Json::with_capacity(1024);
        body.raw("{");
        match &self.options.body_version {
            Some(version) => body.member("anthropic_version", version),
            None => body.member("model", &*request.model),
        };
        if request.delivery == Delivery::Stream {
            body.member("stream", &true);
        }
        renderer.settings(request, &mut body);
        renderer.tools(request, key, &mut body)?;
        renderer.system(request, &mut body);
        body.raw(r#","messages":["#);
        renderer.entries(request, key, &mut body);
        body.raw("]}");

        let mut headers = headers(request.delivery, EVENTS);
        if self.options.body_version.is_none() {
            headers.push(("anthropic-version", self.options.version.clone()));
        }
        if !self.options.betas.is_empty() {
            headers.push(("anthropic-beta", self.options.betas.join(",")));
        }
        let method = match request.delivery {
            Delivery::Stream => "streamRawPredict",
            Delivery::Whole => "rawPredict",
        };
        let path = self.options.path.replace("{model}", &request.model).replace("{method}", method);
        Ok(EncodedRequest { path, headers, body: body.finish() })
    }

    fn cache_control(&self) -> Option<Value> {
        match self.options.cache {
            CacheLife::Off => None,
            CacheLife::FiveMinutes => Some(json!({"type": "ephemeral"})),
            CacheLife::OneHour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
        }
    }
}

struct Renderer<'a> {
    codec: &'a Anthropic,
    rule: &'a ClaudeRule,
    target: Target<'a>,
}

impl Renderer<'_> {
    fn settings(&self, request: &ModelRequest, body: &mut Json) {
        let settings = &request.settings;
        let limit =
            settings.max_output_tokens.or(self.rule.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        body.member("max_tokens", &limit);
        let thinking = self.thinking(request, limit);
        let thinks = thinking.as_ref().is_some_and(|t| t.get("type") != Some(&json!("disabled")));
        if let Some(thinking) = &thinking {
            body.member("thinking", thinking);
        }
        let mut output = serde_json::Map::new();
        if let (ThinkingParam::Adaptive, Some(effort)) =
            (self.rule.thinking, &settings.reasoning_effort)
            && !is_off(effort)
            && effort.parse::<u32>().is_err()
        {
            output.insert("effort".to_owned(), json!(effort));
        }
        if let Some(format) = self.output_format(request) {
            output.insert("format".to_owned(), json!({"type": "json_schema", "schema": format}));
        }
        if !output.is_empty() {
            body.member("output_config", &output);
        }
        if !thinks && !self.rule.fixed_sampling {
            if let Some(temperature) = settings.temperature {
                body.member("temperature", &temperature);
            }
            if let Some(top_p) = settings.top_p {
                body.member("top_p", &top_p);
            }
        }
        if self.codec.options.conversation_cache == ConversationCache::Request
            && let Some(control) = self.codec.cache_control()
        {
            body.member("cache_control", &control);
        }
    }

    /// The thinking parameter. It is left out where the API would refuse it: beside a forced tool, and, with a budget, while
    /// the running tool loop holds an answer whose thinking this model did not make.
    fn thinking(&self, request: &ModelRequest, limit: u32) -> Option<Value> {
        let effort = request.settings.reasoning_effort.as_deref()?;
        if self.rule.thinking == ThinkingParam::None {
            return None;
        }
        if is_off(effort) {
            return Some(json!({"type": "disabled"}));
        }
        if matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_)) {
            return None;
        }
        let mut thinking = match self.rule.thinking {
            ThinkingParam::None => return None,
            ThinkingParam::Adaptive => json!({"type": "adaptive"}),
            ThinkingParam::Budget => {
                if self.lacks_own_thinking(request) {
                    return None;
                }
                let budget = match effort {
                    "minimal" | "low" => 4096,
                    "medium" => 12_288,
                    "high" | "xhigh" | "max" => 32_768,
                    other => other.parse().unwrap_or(12_288),
                };
                // The budget is part of the output limit; at least a quarter of that is left for the answer.
                let budget = budget.min(limit / 4 * 3);
                if budget < LEAST_BUDGET {
                    return None;
                }
                json!({"type": "enabled", "budget_tokens": budget})
            }
        };
        if let (Some(display), Some(map)) =
            (&self.codec.options.thinking_display, thinking.as_object_mut())
        {
            map.insert("display".to_owned(), json!(display));
        }
        Some(thinking)
    }

    fn lacks_own_thinking(&self, request: &ModelRequest) -> bool {
        request
            .transcript
            .entries()
            .iter()
            .rev()
            .take_while(|e| !matches!(e.item, Item::User { .. }))
            .any(|e| match &e.item {
                Item::Assistant { blocks } => {
                    blocks.iter().any(|b| matches!(b, Block::ToolCall { .. }))
                        && !blocks.iter().any(|b| match b {
                            Block::Thinking { native, .. } => self
                                .target
                                .own_model(native.as_ref())
                                .is_some_and(|d| d.get("signature").or(d.get("type")).is_some()),
                            _ => false,
                        })
                }
                _ => false,
            })
    }

    /// The schema as the API takes it; none when it is asked for in another form.
    fn output_format(&self, request: &ModelRequest) -> Option<Value> {
        if self.rule.no_output_format {
            None
        } else {
            schema::closed(&request.output.as_ref()?.schema)
        }
    }

    fn tools(&self, request: &ModelRequest, key: u64, body: &mut Json) -> Result<(), ModelError> {
        let offer = Offer::of(request, self.rule.form(request));
        let specs = &offer.specs;
        if specs.is_empty() {
            return Ok(());
        }
        let tools = offer.rendered(key, render_tools)?;
        body.raw(r#","tools":"#).piece(&tools);
        let serial = request.settings.parallel_tool_calls == Some(false);
        let mut choice = match &offer.choice {
            ToolChoice::Auto if !serial => return Ok(()),
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::None => {
                body.member("tool_choice", &json!({"type": "none"}));
                return Ok(());
            }
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::Tool(name) => {
                if !specs.iter().any(|s| s.name == *name) {
                    return Err(config(format!(
                        "the forced tool `{name}` is not among the tools on offer"
                    )));
                }
                json!({"type": "tool", "name": name})
            }
        };
        if let (true, Some(map)) = (serial, choice.as_object_mut()) {
            map.insert("disable_parallel_tool_use".to_owned(), json!(true));
        }
        body.member("tool_choice", &choice);
        Ok(())
    }

    fn system(&self, request: &ModelRequest, body: &mut Json) {
        let mut blocks: Vec<SystemBlock> = request.system.clone();
        if let Some(output) = &request.output
            && self.rule.form(request) == Form::Words
        {
            blocks.push(SystemBlock::new(schema_instruction(&output.schema)));
        }
        blocks.retain(|b| !b.text.trim().is_empty());
        if blocks.is_empty() {
            return;
        }
        let control = self.codec.cache_control();
        // The API takes four breakpoints; the growing conversation needs one of them.
        let marked: Vec<usize> =
            (0..blocks.len()).filter(|i| blocks.get(*i).is_some_and(|b| b.cache)).collect();
        let kept = marked.iter().rev().take(3).copied().collect::<Vec<_>>();
        body.raw(r#","system":["#);
        for (at, block) in blocks.iter().enumerate() {
            body.comma().raw(r#"{"type":"text""#).member("text", &*block.text);
            if let (true, Some(control)) = (kept.contains(&at), &control) {
                body.member("cache_control", control);
            }
            body.raw("}");
        }
        body.raw("]");
    }

    fn entries(&self, request: &ModelRequest, key: u64, body: &mut Json) {
        let entries = render_entries(request, ID_FORM, key, Some(OPENING), |item, ids, out| {
            self.item(item, ids, out);
        });
        body.elements(&entries);
        if self.codec.options.conversation_cache == ConversationCache::LastBlock
            && let Some(control) = self.codec.cache_control()
            && body.0.ends_with(b"}]}")
        {
            body.0.truncate(body.0.len() - 3);
            body.member("cache_control", &control).raw("}]}");
        }
    }

    fn item(&self, item: &Item, ids: EntryIds<'_>, out: &mut Json) {
        match item {
            Item::User { content: Content::Text(text) } => user_text(text, out),
            Item::User { content: Content::Parts(parts) } => self.parts(parts, out),
            Item::System { text } => user_text(&system_note(text), out),
            Item::Assistant { blocks } => self.assistant(blocks, ids, out),
            Item::ToolResults { results } => tool_results(results, ids, out),
        }
    }

    fn parts(&self, parts: &[ContentPart], out: &mut Json) {
        let mut content = Json::default();
        for part in parts {
            if !self.media_part(part, &mut content) {
                let text = media::as_text(part);
                if !text.trim().is_empty() {
                    content.comma().raw(r#"{"type":"text""#).member("text", &*text).raw("}");
                }
            }
        }
        if content.0.is_empty() {
            return user_text("", out);
        }
        out.raw(r#"{"role":"user","content":["#);
        out.0.extend_from_slice(&content.0);
        out.raw("]}");
    }

    /// Writes an image or document; `false` when the server does not take it.
    fn media_part(&self, part: &ContentPart, out: &mut Json) -> bool {
        let (kind, mime, source) = match part {
            ContentPart::Text { .. } => return false,
            ContentPart::Image(image) => ("image", image.mime.as_str(), &image.source),
            ContentPart::File(file) => {
                if let Some(text) = media::document_text(file) {
                    if text.trim().is_empty() {
                        return false;
                    }
                    out.comma().raw(
                        r#"{"type":"document","source":{"type":"text","media_type":"text/plain""#,
                    );
                    out.member("data", &text).raw("}").member("title", &file.name).raw("}");
                    return true;
                }
                if file.mime != FileType::Pdf {
                    return false;
                }
                ("document", file.mime.as_str(), &file.source)
            }
        };
        let Some(place) = self.codec.options.media.place(source) else { return false };
        out.comma().raw("{").member("type", kind).name("source");
        match place {
            Place::Data(data) => {
                out.raw(r#"{"type":"base64""#).member("media_type", mime).name("data");
                media::base64(data, out);
            }
            Place::Url(url) => {
                out.raw(r#"{"type":"url""#).member("url", url);
            }
        }
        out.raw("}");
        if let ContentPart::File(file) = part {
            out.member("title", &file.name);
        }
        out.raw("}");
        true
    }

    fn assistant(&self, blocks: &[Block], mut ids: EntryIds<'_>, out: &mut Json) {
        let mut content = Json::default();
        let mut speaks = false;
        for block in blocks {
            match block {
                Block::Text { text, native } => {
                    if text.trim().is_empty() {
                        continue;
                    }
                    content.comma().raw(r#"{"type":"text""#).member("text", text);
                    if let Some(citations) =
                        self.target.own(native.as_ref()).and_then(|d| d.get("citations"))
                    {
                        content.member("citations", citations);
                    }
                    content.raw("}");
                }
                Block::Thinking { text, native } => {
                    let Some(data) = self.target.own_model(native.as_ref()) else { continue };
                    if data.get("type").is_some() {
                        content.comma().value(data);
                    } else if let Some(signature) = data.get("signature") {
                        content.comma().raw(r#"{"type":"thinking""#).member("thinking", text);
                        content.member("signature", signature).raw("}");
                    }
                    continue;
                }
                Block::ToolCall { wire_id, name, arguments, native } => {
                    content.comma().raw(r#"{"type":"tool_use""#).member("id", &*ids.next(wire_id));
                    content
                        .member("name", &*tool_name(name))
                        .name("input")
                        .raw(&arguments_object(arguments));
                    if let Some(caller) =
                        self.target.own(native.as_ref()).and_then(|d| d.get("caller"))
                    {
                        content.member("caller", caller);
                    }
                    content.raw("}");
                }
                Block::Native { native } => {
                    let Some(data) = self.target.own(Some(native)) else { continue };
                    content.comma().value(data);
                }
            }
            speaks = true;
        }
        if speaks {
            out.raw(r#"{"role":"assistant","content":["#);
            out.0.extend_from_slice(&content.0);
            out.raw("]}");
        }
    }
}

fn user_text(text: &str, out: &mut Json) {
    let text = if text.trim().is_empty() { NOTHING } else { text };
    out.raw(r#"{"role":"user","content":[{"type":"text""#).member("text", text).raw("}]}");
}

fn tool_results(results: &[ToolResult], mut ids: EntryIds<'_>, out: &mut Json) {
    if results.is_empty() {
        return;
    }
    out.raw(r#"{"role":"user","content":["#);
    for result in results {
        out.comma().raw(r#"{"type":"tool_result""#);
        out.member("tool_use_id", &*ids.next(&result.wire_id));
        let content = if result.content.trim().is_empty() { NOTHING } else { &result.content };
        out.member("content", content);
        if result.is_error {
            out.member("is_error", &true);
        }
        out.raw("}");
    }
    out.raw("]}");
}

fn render_tools(specs: &[ToolSpec]) -> Result<Bytes, ModelError> {
    let mut out = Json::default();
    out.raw("[");
    for spec in specs {
        out.comma().raw("{").member("name", offered_name(spec.name.as_str())?);
        out.member("description", &spec.description)
            .member("input_schema", &*spec.input_schema)
            .raw("}");
    }
    out.raw("]");
    Ok(out.finish())
}
