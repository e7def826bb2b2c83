//! A request as Ollama's chat API wants it. `messages` come last.

use super::Ollama;
use crate::EncodedRequest;
use crate::media::{self, Place};
use crate::render::{
    EntryIds, IdForm, Json, Target, arguments_object, config, float, headers, offered_name,
    render_entries, schema_instruction, tool_name,
};
use bytes::Bytes;
use serde_json::{Map, json};
use turnbuckle_core::content::{Content, ContentPart};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, Delivery, ModelRequest, ToolChoice};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult};

const ID_FORM: IdForm = IdForm::AtMost(64);

impl Ollama {
    pub(super) fn encode_request(
        &self,
        request: &ModelRequest,
    ) -> Result<EncodedRequest, ModelError> {
        let renderer = Renderer {
            codec: self,
            target: Target { wire: super::WIRE, provider: &self.provider, model: &request.model },
        };
        let key = self.key(&request.model);
        let mut body = Json::with_capacity(1024);
        body.raw("{").member("model", &*request.model);
        // Streaming is this wire's default, so that both are said.
        body.member("stream", &(request.delivery == Delivery::Stream));
        renderer.settings(request, &mut body);
        renderer.tools(request, key, &mut body)?;
        if let Some(output) = request.output.as_ref().filter(|_| takes_schema(request)) {
            body.member("format", &*output.schema);
        }
        for (name, value) in &self.options.extra {
            body.member(name, value);
        }
        body.name("messages").raw("[");
        renderer.system(request, &mut body);
        let entries = render_entries(request, ID_FORM, key, None, |item, ids, out| {
            renderer.item(item, ids, out)
        });
        body.elements(&entries).raw("]}");
        Ok(EncodedRequest {
            path: self.options.path.clone(),
            headers: headers(request.delivery, "application/x-ndjson"),
            body: body.finish(),
        })
    }
}

/// Whether the schema goes along: enforced from the first token on, it would forbid every call.
fn takes_schema(request: &ModelRequest) -> bool {
    request.tools.specs.is_empty() || request.tool_choice == ToolChoice::None
}

struct Renderer<'a> {
    codec: &'a Ollama,
    target: Target<'a>,
}

impl Renderer<'_> {
    fn settings(&self, request: &ModelRequest, body: &mut Json) {
        let settings = &request.settings;
        match settings.reasoning_effort.as_deref() {
            None => {}
            Some("none" | "off") => {
                body.member("think", &false);
            }
            // Some models know degrees, the others only on and off.
            Some(degree @ ("low" | "medium" | "high")) => {
                body.member("think", degree);
            }
            Some(_) => {
                body.member("think", &true);
            }
        }
        if let Some(keep_alive) = &self.codec.options.keep_alive {
            body.member("keep_alive", keep_alive);
        }
        let mut options = Map::new();
        if let Some(context) = self.codec.options.context {
            options.insert("num_ctx".to_owned(), json!(context));
        }
        if let Some(limit) = settings.max_output_tokens {
            options.insert("num_predict".to_owned(), json!(limit));
        }
        if let Some(temperature) = settings.temperature {
            options.insert("temperature".to_owned(), float(temperature));
        }
        if let Some(top_p) = settings.top_p {
            options.insert("top_p".to_owned(), float(top_p));
        }
        if let Some(seed) = settings.seed {
            options.insert("seed".to_owned(), json!(seed));
        }
        if !options.is_empty() {
            body.member("options", &options);
        }
    }

    /// There is no choice of tools on this wire: "none" is said by offering none, "this tool" by offering no other.
    fn tools(&self, request: &ModelRequest, key: u64, body: &mut Json) -> Result<(), ModelError> {
        let specs = &request.tools.specs;
        let tools = match &request.tool_choice {
            _ if specs.is_empty() => return Ok(()),
            ToolChoice::None => return Ok(()),
            ToolChoice::Auto | ToolChoice::Required => {
                request.tools.rendered.get_or_render(key, || render_tools(specs))?
            }
            ToolChoice::Tool(name) => {
                let spec = specs.iter().find(|s| s.name == *name).ok_or_else(|| {
                    config(format!("the forced tool `{name}` is not among the tools on offer"))
                })?;
                render_tools(std::slice::from_ref(spec))?
            }
        };
        body.name("tools").piece(&tools);
        Ok(())
    }

    fn system(&self, request: &ModelRequest, body: &mut Json) {
        let instruction = request
            .output
            .as_ref()
            .filter(|_| !takes_schema(request))
            .map(|output| schema_instruction(&output.schema));
        let mut texts: Vec<&str> =
            request.system.iter().map(|b| &*b.text).filter(|t| !t.is_empty()).collect();
        texts.extend(instruction.as_deref());
        if !texts.is_empty() {
            text_message("system", &texts.join("\n\n"), body.comma());
        }
    }

    fn item(&self, item: &Item, ids: EntryIds<'_>, out: &mut Json) {
        match item {
            Item::User { content: Content::Text(text) } => text_message("user", text, out),
            Item::User { content: Content::Parts(parts) } => self.parts(parts, out),
            Item::System { text } => text_message("system", text, out),
            Item::Assistant { blocks } => self.assistant(blocks, ids, out),
            Item::ToolResults { results } => tool_results(results, ids, out),
        }
    }

    /// Texts in their order, and the images, which have a member of their own.
    fn parts(&self, parts: &[ContentPart], out: &mut Json) {
        let mut images = Json::default();
        let mut texts = Vec::with_capacity(parts.len());
        for part in parts {
            if let ContentPart::Image(image) = part
                && let Some(Place::Data(data)) = self.codec.options.images.place(&image.source)
            {
                media::base64(data, images.comma());
                continue;
            }
            let text = media::as_text(part);
            if !text.is_empty() {
                texts.push(text);
            }
        }
        out.raw(r#"{"role":"user""#).member("content", &texts.join("\n\n"));
        if !images.0.is_empty() {
            out.name("images").raw("[").0.extend_from_slice(&images.0);
            out.raw("]");
        }
        out.raw("}");
    }

    fn assistant(&self, blocks: &[Block], mut ids: EntryIds<'_>, out: &mut Json) {
        let (mut text, mut thinking) = (String::new(), String::new());
        let mut calls = Json::default();
        for block in blocks {
            match block {
                Block::Text { text: more, .. } => text.push_str(more),
                Block::Thinking { text: more, native } => {
                    if self.target.own_model(native.as_ref()).is_some() {
                        thinking.push_str(more);
                    }
                }
                Block::ToolCall { wire_id, name, arguments, .. } => {
                    calls.comma().raw(r#"{"type":"function""#).member("id", &*ids.next(wire_id));
                    calls.name("function").raw("{").member("name", &*tool_name(name));
                    calls.name("arguments").raw(&arguments_object(arguments)).raw("}}");
                }
                Block::Native { .. } => {}
            }
        }
        if text.is_empty() && calls.0.is_empty() {
            return;
        }
        out.raw(r#"{"role":"assistant""#).member("content", &text);
        if !thinking.is_empty() {
            out.member("thinking", &thinking);
        }
        if !calls.0.is_empty() {
            out.name("tool_calls").raw("[").0.extend_from_slice(&calls.0);
            out.raw("]");
        }
        out.raw("}");
    }
}

fn text_message(role: &str, text: &str, out: &mut Json) {
    out.raw("{").member("role", role).member("content", text).raw("}");
}

fn tool_results(results: &[ToolResult], mut ids: EntryIds<'_>, out: &mut Json) {
    for result in results {
        out.comma().raw(r#"{"role":"tool""#).member("content", &result.content);
        out.member("tool_name", &*tool_name(result.name.as_str()));
        out.member("tool_call_id", &*ids.next(&result.wire_id)).raw("}");
    }
}

fn render_tools(specs: &[ToolSpec]) -> Result<Bytes, ModelError> {
    let mut out = Json::default();
    out.raw("[");
    for spec in specs {
        out.comma().raw(r#"{"type":"function","function":{"#);
        out.member("name", offered_name(spec.name.as_str())?);
        out.member("description", &spec.description).member("parameters", &*spec.input_schema);
        out.raw("}}");
    }
    out.raw("]");
    Ok(out.finish())
}
