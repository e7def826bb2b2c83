//! A request as the Responses API wants it. `input` comes last.

use super::OpenAiResponses;
use super::options::ResponsesRule;
use crate::EncodedRequest;
use crate::media::{self, MediaForm, Place};
use crate::render::{
    EVENTS, EntryIds, IdForm, Json, Target, arguments_object, config, headers, offered_name,
    render_entries, tool_name,
};
use crate::schema::is_strict;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use turnbuckle_core::content::{Content, ContentPart, Detail, FileType};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, Delivery, ModelRequest, ToolChoice};
use turnbuckle_core::part::Native;
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult};

const ID_FORM: IdForm = IdForm::AtMost(64);

impl OpenAiResponses {
    pub(super) fn encode_request(
        &self,
        request: &ModelRequest,
    ) -> Result<EncodedRequest, ModelError> {
        let rule = self.options.rule(&request.model);
        let target = Target { wire: super::WIRE, provider: &self.provider, model: &request.model };
        let renderer = Renderer { codec: self, rule, target };
        let key = self.key(&request.model);
        let mut body = Json::with_capacity(1024);
        body.raw("{").member("model", &*request.model);
        if request.delivery == Delivery::Stream {
            body.member("stream", &true);
        }
        renderer.settings(request, &mut body);
        renderer.tools(request, key, &mut body)?;
        let texts: Vec<&str> =
            request.system.iter().map(|b| &*b.text).filter(|t| !t.is_empty()).collect();
        if !texts.is_empty() {
            body.member("instructions", &texts.join("\n\n"));
        }
        for (name, value) in &self.options.extra {
            body.member(name, value);
        }
        body.raw(r#","input":["#);
        let entries = render_entries(request, ID_FORM, key, None, |item, ids, out| {
            renderer.item(item, ids, out)
        });
        body.elements(&entries).raw("]}");
        Ok(EncodedRequest {
            path: self.options.path.replace("{model}", &request.model),
            headers: headers(request.delivery, EVENTS),
            body: body.finish(),
        })
    }
}

struct Renderer<'a> {
    codec: &'a OpenAiResponses,
    rule: ResponsesRule,
    target: Target<'a>,
}

impl Renderer<'_> {
    fn settings(&self, request: &ModelRequest, body: &mut Json) {
        let settings = &request.settings;
        body.member("store", &self.codec.options.store);
        if let Some(limit) = settings.max_output_tokens {
            body.member("max_output_tokens", &limit);
        }
        let effort = settings.reasoning_effort.as_deref();
        if self.rule.sampling || effort == Some("none") {
            if let Some(temperature) = settings.temperature {
                body.member("temperature", &temperature);
            }
            if let Some(top_p) = settings.top_p {
                body.member("top_p", &top_p);
            }
        }
        if self.rule.reasoning {
            let mut reasoning = Map::new();
            if let Some(effort) = effort {
                reasoning.insert(
                    "effort".to_owned(),
                    json!(if effort == "off" { "none" } else { effort }),
                );
            }
            if let Some(summary) = &self.codec.options.reasoning_summary {
                reasoning.insert("summary".to_owned(), json!(summary));
            }
            if !reasoning.is_empty() {
                body.member("reasoning", &reasoning);
            }
            if !self.codec.options.store {
                body.raw(r#","include":["reasoning.encrypted_content"]"#);
            }
        }
        if let Some(output) = &request.output {
            body.name("text").raw(r#"{"format":{"type":"json_schema""#);
            body.member("name", &*tool_name(&output.name));
            body.member("strict", &is_strict(&output.schema))
                .member("schema", &*output.schema)
                .raw("}}");
        }
        if let (true, Some(key)) = (self.codec.options.cache_key, &request.cache_key) {
            body.member("prompt_cache_key", &**key);
        }
    }

    fn tools(&self, request: &ModelRequest, key: u64, body: &mut Json) -> Result<(), ModelError> {
        let specs = &request.tools.specs;
        if specs.is_empty() {
            return Ok(());
        }
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) if specs.iter().any(|s| s.name == *name) => {
                Some(json!({"type": "function", "name": name}))
            }
            ToolChoice::Tool(name) => {
                return Err(config(format!(
                    "the forced tool `{name}` is not among the tools on offer"
                )));
            }
        };
        let tools = request.tools.rendered.get_or_render(key, || render_tools(specs))?;
        body.raw(r#","tools":"#).piece(&tools);
        if let Some(choice) = choice {
            body.member("tool_choice", &choice);
        }
        if let Some(parallel) = request.settings.parallel_tool_calls {
            body.member("parallel_tool_calls", &parallel);
        }
        Ok(())
    }

    fn item(&self, item: &Item, ids: EntryIds<'_>, out: &mut Json) {
        match item {
            Item::User { content: Content::Text(text) } => input_message("user", text, out),
            Item::User { content: Content::Parts(parts) } => input_parts(parts, out),
            Item::System { text } => input_message("developer", text, out),
            Item::Assistant { blocks } => self.assistant(blocks, ids, out),
            Item::ToolResults { results } => outputs(results, ids, out),
        }
    }

    fn assistant(&self, blocks: &[Block], mut ids: EntryIds<'_>, out: &mut Json) {
        // A reasoning item must be followed by what it led to.
        let last = blocks.iter().rposition(|b| match b {
            Block::Thinking { .. } => false,
            Block::Native { native } => self.target.own(Some(native)).is_some(),
            Block::Text { .. } | Block::ToolCall { .. } => true,
        });
        let mut rest = blocks.iter().take(last.map_or(0, |at| at + 1)).peekable();
        while let Some(block) = rest.next() {
            match block {
                Block::Text { text, native } => {
                    let head = self.item_head(native.as_ref());
                    out.comma().raw(r#"{"type":"message","role":"assistant""#);
                    for (name, value) in
                        head.into_iter().flatten().filter(|(name, _)| *name != "role")
                    {
                        out.member(name, value);
                    }
                    out.raw(r#","content":["#);
                    self.part(text, native.as_ref(), out);
                    while let Some(Block::Text { text, native }) = rest.peek() {
                        if head.is_none() || self.item_head(native.as_ref()) != head {
                            break;
                        }
                        self.part(text, native.as_ref(), out);
                        rest.next();
                    }
                    out.raw("]}");
                }
                Block::Thinking { native, .. } => {
                    if let Some(data) = self.target.own_model(native.as_ref())
                        && (data.get("encrypted_content").is_some() || self.codec.options.store)
                    {
                        out.comma().value(data);
                    }
                }
                Block::ToolCall { wire_id, name, arguments, native } => {
                    out.comma().raw(r#"{"type":"function_call""#);
                    if let Some(Value::Object(data)) = self.target.own(native.as_ref()) {
                        for (name, value) in data {
                            out.member(name, value);
                        }
                    }
                    out.member("call_id", &*ids.next(wire_id)).member("name", &*tool_name(name));
                    if arguments.trim().is_empty() {
                        out.member("arguments", &*arguments_object(arguments));
                    } else {
                        out.member("arguments", arguments);
                    }
                    out.raw("}");
                }
                Block::Native { native } => {
                    if let Some(data) = self.target.own(Some(native)) {
                        out.comma().value(data);
                    }
                }
            }
        }
    }

    /// What else the item of a text says: its id, its phase.
    fn item_head<'n>(&self, native: Option<&'n Native>) -> Option<&'n Map<String, Value>> {
        self.target.own(native)?.get("item")?.as_object()
    }

    fn part(&self, text: &str, native: Option<&Native>, out: &mut Json) {
        let data = self.target.own(native);
        if data.is_some_and(|d| d.get("refusal").is_some()) {
            out.comma().raw(r#"{"type":"refusal""#).member("refusal", text).raw("}");
            return;
        }
        out.comma().raw(r#"{"type":"output_text""#).member("text", text);
        if let Some(annotations) = data.and_then(|d| d.get("annotations")) {
            out.member("annotations", annotations);
        }
        out.raw("}");
    }
}

fn input_message(role: &str, text: &str, out: &mut Json) {
    out.raw(r#"{"type":"message""#).member("role", role);
    out.raw(r#","content":[{"type":"input_text""#).member("text", text).raw("}]}");
}

fn input_parts(parts: &[ContentPart], out: &mut Json) {
    out.raw(r#"{"type":"message","role":"user","content":["#);
    for part in parts {
        if !media_part(part, out) {
            let text = media::as_text(part);
            out.comma().raw(r#"{"type":"input_text""#).member("text", &*text).raw("}");
        }
    }
    out.raw("]}");
}

/// Writes an image or file; `false` when the wire does not take it.
fn media_part(part: &ContentPart, out: &mut Json) -> bool {
    match part {
        ContentPart::Text { .. } => false,
        ContentPart::Image(image) => {
            let Some(place) = MediaForm::Any.place(&image.source) else { return false };
            out.comma().raw(r#"{"type":"input_image""#);
            out.member("detail", &image.detail.unwrap_or(Detail::Auto)).name("image_url");
            match place {
                Place::Data(data) => media::data_url(image.mime.as_str(), data, out),
                Place::Url(url) => {
                    out.value(url);
                }
            }
            out.raw("}");
            true
        }
        ContentPart::File(file) if file.mime == FileType::Pdf => {
            let Some(place) = MediaForm::Any.place(&file.source) else { return false };
            out.comma().raw(r#"{"type":"input_file""#);
            match place {
                Place::Data(data) => {
                    out.member("filename", &file.name).name("file_data");
                    media::data_url(file.mime.as_str(), data, out);
                }
                // The wire names files from the web itself, and refuses a name beside the address.
                Place::Url(url) => {
                    out.member("file_url", url);
                }
            }
            out.raw("}");
            true
        }
        ContentPart::File(_) => false,
    }
}

fn outputs(results: &[ToolResult], mut ids: EntryIds<'_>, out: &mut Json) {
    for result in results {
        out.comma().raw(r#"{"type":"function_call_output""#);
        out.member("call_id", &*ids.next(&result.wire_id))
            .member("output", &result.content)
            .raw("}");
    }
}

fn render_tools(specs: &[ToolSpec]) -> Result<Bytes, ModelError> {
    let mut out = Json::default();
    out.raw("[");
    for spec in specs {
        out.comma().raw(r#"{"type":"function""#).member("name", offered_name(spec.name.as_str())?);
        // Strict is this wire's default and would make every optional argument required.
        out.member("description", &spec.description).member("parameters", &*spec.input_schema);
        out.raw(r#","strict":false}"#);
    }
    out.raw("]");
    Ok(out.finish())
}
