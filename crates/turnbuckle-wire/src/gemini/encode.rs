//! A request as Gemini wants it. `contents` come last.

use super::Gemini;
use super::options::{GeminiRule, GeminiThinking};
use crate::EncodedRequest;
use crate::answer_tool::{Form, Offer};
use crate::media::{self, MediaForm, Place};
use crate::render::{
    EVENTS, EntryIds, IdForm, Json, Target, arguments_object, config, float, headers, offered_name,
    render_entries, schema_instruction, system_note, tool_name,
};
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use turnbuckle_core::content::{Content, ContentPart, FileType};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, Delivery, ModelRequest, ToolChoice};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult};

/// For parts that may not be empty.
const NOTHING: &str = "(empty)";
/// Opens a conversation whose first message would be the model's.
const OPENING: &str = r#"{"role":"user","parts":[{"text":"(The conversation goes on.)"}]}"#;
/// The signature the vendor documents for calls that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";
const ID_FORM: IdForm = IdForm::Word(64);

impl Gemini {
    pub(super) fn encode_request(
        &self,
        request: &ModelRequest,
    ) -> Result<EncodedRequest, ModelError> {
        let rule = self.options.rule(&request.model);
        let target = Target { wire: super::WIRE, provider: &self.provider, model: &request.model };
        let renderer = Renderer { codec: self, rule, target };
        let key = self.key(&request.model);
        let mut body = Json::with_capacity(1024);
        body.raw("{");
        renderer.settings(request, &mut body);
        renderer.tools(request, key, &mut body)?;
        renderer.system(request, &mut body);
        body.name("contents").raw("[");
        let entries = render_entries(request, ID_FORM, key, Some(OPENING), |item, ids, out| {
            renderer.item(item, ids, out);
        });
        body.elements(&entries).raw("]}");

        let method = match request.delivery {
            Delivery::Stream => "streamGenerateContent?alt=sse",
            Delivery::Whole => "generateContent",
        };
        Ok(EncodedRequest {
            path: self.options.path.replace("{model}", &request.model).replace("{method}", method),
            headers: headers(request.delivery, EVENTS),
            body: body.finish(),
        })
    }
}

struct Renderer<'a> {
    codec: &'a Gemini,
    rule: GeminiRule,
    target: Target<'a>,
}

impl Renderer<'_> {
    fn settings(&self, request: &ModelRequest, body: &mut Json) {
        let settings = &request.settings;
        let mut config = Map::new();
        if let Some(limit) = settings.max_output_tokens {
            config.insert("maxOutputTokens".to_owned(), json!(limit));
        }
        if let Some(temperature) = settings.temperature {
            config.insert("temperature".to_owned(), float(temperature));
        }
        if let Some(top_p) = settings.top_p {
            config.insert("topP".to_owned(), float(top_p));
        }
        if let Some(seed) = settings.seed {
            // The wire's seed is a 32-bit number.
            config.insert("seed".to_owned(), json!(seed % u64::from(u32::MAX >> 1)));
        }
        if let Some(output) = &request.output
            && self.form(request) == Form::Native
        {
            config.insert("responseMimeType".to_owned(), json!("application/json"));
            config.insert("responseJsonSchema".to_owned(), (*output.schema).clone());
        }
        if let Some(thinking) = self.thinking(settings.reasoning_effort.as_deref()) {
            config.insert("thinkingConfig".to_owned(), Value::Object(thinking));
        }
        if !config.is_empty() {
            body.member("generationConfig", &config);
        }
    }

    fn thinking(&self, effort: Option<&str>) -> Option<Map<String, Value>> {
        let mut thinking = Map::new();
        if self.rule.thinking == GeminiThinking::None {
            return None;
        }
        if self.codec.options.include_thoughts && !matches!(effort, Some("none" | "off")) {
            thinking.insert("includeThoughts".to_owned(), json!(true));
        }
        if let Some(effort) = effort {
            if self.rule.thinking == GeminiThinking::Level {
                // There is no switching it off; the least is what comes nearest.
                let level = match effort {
                    "none" | "off" => "minimal",
                    "xhigh" | "max" => "high",
                    other => other,
                };
                thinking.insert("thinkingLevel".to_owned(), json!(level));
            } else {
                let budget = match effort {
                    "none" | "off" => 0,
                    "minimal" | "low" => 2048,
                    "medium" => 8192,
                    "high" | "xhigh" | "max" => 24_576,
                    other => other.parse().unwrap_or(8192),
                };
                thinking.insert("thinkingBudget".to_owned(), json!(budget));
            }
        }
        (!thinking.is_empty()).then_some(thinking)
    }

    fn form(&self, request: &ModelRequest) -> Form {
        self.rule.form(request)
    }

    fn tools(&self, request: &ModelRequest, key: u64, body: &mut Json) -> Result<(), ModelError> {
        let offer = Offer::of(request, self.form(request));
        let specs = &offer.specs;
        if specs.is_empty() {
            return Ok(());
        }
        let choice = match &offer.choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!({"mode": "NONE"})),
            ToolChoice::Required => Some(json!({"mode": "ANY"})),
            ToolChoice::Tool(name) if specs.iter().any(|s| s.name == *name) => {
                Some(json!({"mode": "ANY", "allowedFunctionNames": [name]}))
            }
            ToolChoice::Tool(name) => {
                return Err(config(format!(
                    "the forced tool `{name}` is not among the tools on offer"
                )));
            }
        };
        let tools = offer.rendered(key, render_tools)?;
        body.name("tools").piece(&tools);
        if let Some(choice) = choice {
            body.member("toolConfig", &json!({ "functionCallingConfig": choice }));
        }
        Ok(())
    }

    fn system(&self, request: &ModelRequest, body: &mut Json) {
        let mut texts: Vec<&str> =
            request.system.iter().map(|b| &*b.text).filter(|t| !t.is_empty()).collect();
        let instruction = request
            .output
            .as_ref()
            .filter(|_| self.form(request) == Form::Words)
            .map(|output| schema_instruction(&output.schema));
        texts.extend(instruction.as_deref());
        if texts.is_empty() {
            return;
        }
        body.name("systemInstruction").raw(r#"{"parts":["#);
        for text in texts {
            body.comma().raw("{").member("text", text).raw("}");
        }
        body.raw("]}");
    }

    fn item(&self, item: &Item, ids: EntryIds<'_>, out: &mut Json) {
        match item {
            Item::User { content: Content::Text(text) } => user_text(text, out),
            Item::User { content: Content::Parts(parts) } => user_parts(parts, out),
            Item::System { text } => user_text(&system_note(text), out),
            Item::Assistant { blocks } => self.model(blocks, ids, out),
            Item::ToolResults { results } => self.results(results, ids, out),
        }
    }

    fn model(&self, blocks: &[Block], mut ids: EntryIds<'_>, out: &mut Json) {
        let mut parts = Json::default();
        let mut speaks = false;
        let mut calls = 0;
        for block in blocks {
            match block {
                Block::Text { text, native } => {
                    if text.is_empty() {
                        continue;
                    }
                    parts.comma().raw("{").member("text", text);
                    self.sign(self.target.own_model(native.as_ref()), &mut parts);
                    parts.raw("}");
                    speaks = true;
                }
                Block::Thinking { text, native } => {
                    let Some(data) = self.target.own_model(native.as_ref()) else { continue };
                    parts.comma().raw("{").member("text", text);
                    if data.get("thought").is_some() {
                        parts.member("thought", &true);
                    }
                    self.sign(Some(data), &mut parts);
                    parts.raw("}");
                }
                Block::ToolCall { wire_id, name, arguments, native } => {
                    calls += 1;
                    let id = ids.next(wire_id);
                    parts.comma().raw(r#"{"functionCall":{"#);
                    if self.codec.options.call_ids {
                        parts.member("id", &*id);
                    }
                    parts
                        .member("name", &*tool_name(name))
                        .name("args")
                        .raw(&arguments_object(arguments));
                    parts.raw("}");
                    let own = self.target.own_model(native.as_ref());
                    if own.is_some() {
                        self.sign(own, &mut parts);
                    } else if calls == 1 && !self.rule.unsigned_calls {
                        // Of parallel calls the first is signed, and every step's first call must be.
                        parts.member("thoughtSignature", FOREIGN_SIGNATURE);
                    }
                    parts.raw("}");
                    speaks = true;
                }
                Block::Native { native } => {
                    let Some(data) = self.target.own(Some(native)) else { continue };
                    parts.comma().value(data);
                    speaks = true;
                }
            }
        }
        if speaks {
            out.raw(r#"{"role":"model","parts":["#);
            out.0.extend_from_slice(&parts.0);
            out.raw("]}");
        }
    }

    fn sign(&self, data: Option<&Value>, out: &mut Json) {
        if let Some(signature) = data.and_then(|d| d.get("thoughtSignature")) {
            out.member("thoughtSignature", signature);
        }
    }

    fn results(&self, results: &[ToolResult], mut ids: EntryIds<'_>, out: &mut Json) {
        if results.is_empty() {
            return;
        }
        out.raw(r#"{"role":"user","parts":["#);
        for result in results {
            let id = ids.next(&result.wire_id);
            out.comma().raw(r#"{"functionResponse":{"#);
            if self.codec.options.call_ids {
                out.member("id", &*id);
            }
            out.member("name", &*tool_name(result.name.as_str()));
            out.raw(r#","response":{"#).name(if result.is_error { "error" } else { "output" });
            // JSON goes in as JSON: as text it would be quoted twice.
            match serde_json::from_str::<&RawValue>(&result.content) {
                Ok(json) if json.get().starts_with(['{', '[']) => out.raw(json.get()),
                _ => out.value(&result.content),
            };
            out.raw("}}}");
        }
        out.raw("]}");
    }
}

fn user_text(text: &str, out: &mut Json) {
    let text = if text.is_empty() { NOTHING } else { text };
    out.raw(r#"{"role":"user","parts":[{"#).member("text", text).raw("}]}");
}

fn user_parts(parts: &[ContentPart], out: &mut Json) {
    let mut content = Json::default();
    for part in parts {
        if !media_part(part, &mut content) {
            let text = media::as_text(part);
            if !text.is_empty() {
                content.comma().raw("{").member("text", &*text).raw("}");
            }
        }
    }
    if content.0.is_empty() {
        return user_text("", out);
    }
    out.raw(r#"{"role":"user","parts":["#);
    out.0.extend_from_slice(&content.0);
    out.raw("]}");
}

/// Writes an image or file; `false` when the wire does not take it.
fn media_part(part: &ContentPart, out: &mut Json) -> bool {
    let (mime, source) = match part {
        ContentPart::Text { .. } => return false,
        ContentPart::Image(image) => (image.mime.as_str(), &image.source),
        ContentPart::File(file) if file.mime == FileType::Pdf => (file.mime.as_str(), &file.source),
        ContentPart::File(_) => return false,
    };
    match MediaForm::Any.place(source) {
        None => return false,
        Some(Place::Data(data)) => {
            out.comma().raw(r#"{"inlineData":{"#).member("mimeType", mime).name("data");
            media::base64(data, out);
        }
        Some(Place::Url(url)) => {
            out.comma().raw(r#"{"fileData":{"#).member("mimeType", mime).member("fileUri", url);
        }
    }
    out.raw("}}");
    true
}

fn render_tools(specs: &[ToolSpec]) -> Result<Bytes, ModelError> {
    let mut out = Json::default();
    out.raw(r#"[{"functionDeclarations":["#);
    for spec in specs {
        out.comma().raw("{").member("name", offered_name(spec.name.as_str())?);
        out.member("description", &spec.description)
            .member("parametersJsonSchema", &*spec.input_schema)
            .raw("}");
    }
    out.raw("]}]");
    Ok(out.finish())
}
