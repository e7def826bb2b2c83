//! The sessions whose requests are kept as snapshots.

use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::model::{
    Block, Delivery, ModelRequest, ModelSettings, OutputSchema, SystemBlock, ToolChoice, ToolSet,
};
use turnbuckle_core::part::{Native, NativeBlock};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult, Transcript};
use turnbuckle_wire::{
    Anthropic, AnthropicOptions, Codec, Gemini, GeminiOptions, Ollama, OllamaOptions, OpenAiChat,
    OpenAiResponses, Profile, ResponsesOptions,
};

pub struct Session {
    pub title: &'static str,
    pub request: ModelRequest,
}

const CHAT_PROFILES: &[&str] = &[
    "openai",
    "openrouter",
    "deepseek",
    "mistral",
    "qwen",
    "kimi",
    "ollama",
    "vllm",
    "groq",
    "llamacpp",
];

/// Every wire, chat with the profiles that differ most.
pub fn codecs() -> Vec<(String, Box<dyn Codec>)> {
    let mut out: Vec<(String, Box<dyn Codec>)> = Vec::new();
    for name in CHAT_PROFILES {
        let codec = OpenAiChat::new(*name, Profile::named(name).unwrap());
        out.push((format!("chat_{name}"), Box::new(codec)));
    }
    out.push((
        "anthropic".into(),
        Box::new(Anthropic::new("anthropic", AnthropicOptions::default())),
    ));
    out.push((
        "responses".into(),
        Box::new(OpenAiResponses::new("openai", ResponsesOptions::default())),
    ));
    out.push(("gemini".into(), Box::new(Gemini::new("google", GeminiOptions::default()))));
    let options = OllamaOptions { context: Some(32_768), ..OllamaOptions::default() };
    out.push(("ollama".into(), Box::new(Ollama::new("ollama", options))));
    out
}

/// Every wire and every built-in profile, all of one provider.
pub fn codecs_of(provider: &str) -> Vec<(String, Box<dyn Codec>)> {
    let mut out: Vec<(String, Box<dyn Codec>)> = Vec::new();
    for name in Profile::names() {
        out.push((
            format!("chat {name}"),
            Box::new(OpenAiChat::new(provider, Profile::named(name).unwrap())),
        ));
    }
    out.push(("anthropic".into(), Box::new(Anthropic::new(provider, AnthropicOptions::default()))));
    out.push((
        "responses".into(),
        Box::new(OpenAiResponses::new(provider, ResponsesOptions::default())),
    ));
    out.push(("gemini".into(), Box::new(Gemini::new(provider, GeminiOptions::default()))));
    out.push(("ollama".into(), Box::new(Ollama::new(provider, OllamaOptions::default()))));
    out
}

pub fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "Looks a record up.".into(),
        input_schema:
            json!({"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}},
            "required": ["id"], "additionalProperties": false})
            .into(),
    }
}

fn user(text: &str) -> Item {
    Item::user(text)
}

/// A message with everything that can be attached, in every place where it can be.
pub fn attached() -> Item {
    let parts = json!([
        {"type": "text", "text": "Compare"},
        {"type": "image", "mime": "image/png", "source": {"data": "iVBORw0KGgo="}, "name": "plan.png", "detail": "low",
            "size": {"width": 800, "height": 600}},
        {"type": "image", "mime": "image/jpeg", "source": {"url": "https://example.com/a.jpg?x=1&y=\u{2f}"}},
        {"type": "text", "text": "with"},
        {"type": "file", "mime": "application/pdf", "source": {"data": "JVBERi0xLjcK"}, "name": "lease \"A\".pdf"},
        {"type": "file", "mime": "application/pdf", "source": {"url": "https://example.com/b.pdf"}, "name": "b.pdf"},
        {"type": "file", "mime": "text/csv", "source": {"data": "YSxiCjEsIlgi"}, "name": "rows.csv"},
        {"type": "file", "mime": "text/plain", "source": {"url": "https://example.com/c.txt"}, "name": "c.txt"},
        {"type": "image", "mime": "image/webp", "source": {"blob": {"id": "sha256-aa", "bytes": 7}}},
    ]);
    Item::User { content: serde_json::from_value(parts).unwrap() }
}

fn call(id: &str, name: &str, arguments: &str, native: Option<Native>) -> Block {
    Block::ToolCall { wire_id: id.into(), name: name.into(), arguments: arguments.into(), native }
}

fn result(id: &str, name: &str, content: &str, is_error: bool) -> ToolResult {
    ToolResult { wire_id: id.into(), name: name.into(), content: content.into(), is_error }
}

fn transcript(items: Vec<Item>) -> Transcript {
    let mut transcript = Transcript::default();
    items.into_iter().for_each(|item| transcript.push_item(item));
    transcript
}

/// What this wire and provider would have made of signed thinking.
pub fn signed(codec: &dyn Codec, text: &str) -> Block {
    let data = match codec.wire() {
        "anthropic" => json!({"signature": "sig+/=="}),
        "openai-responses" => {
            json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "enc==",
            "summary": [{"type": "summary_text", "text": text}]})
        }
        "gemini" => json!({"thought": true, "thoughtSignature": "sig+/=="}),
        "ollama" => json!({}),
        _ => {
            json!({"reasoning_details": [{"type": "reasoning.text", "text": text, "signature": "sig+/=="}]})
        }
    };
    Block::Thinking { text: text.into(), native: Some(native(codec, data)) }
}

fn native(codec: &dyn Codec, data: serde_json::Value) -> Native {
    Native::from(NativeBlock {
        wire: codec.wire().into(),
        provider: codec.provider().into(),
        model: "m".into(),
        data: data.into(),
    })
}

fn foreign(data: serde_json::Value) -> Option<Native> {
    Some(Native::from(NativeBlock {
        wire: "elsewhere".into(),
        provider: "other".into(),
        model: "m".into(),
        data: data.into(),
    }))
}

pub fn table(codec: &dyn Codec) -> Vec<Session> {
    let tools = || Arc::new(ToolSet::new(vec![tool("lookup"), tool("search")]));
    let session = |title, request| Session { title, request };
    let mut out = Vec::new();

    let mut request = ModelRequest::new("m", transcript(vec![user("Hello \"you\" \u{1F600}\n")]));
    request.system = vec![
        SystemBlock { text: "You help.".into(), cache: true },
        SystemBlock::new("Today is Friday."),
    ];
    request.delivery = Delivery::Whole;
    out.push(session("plain", request));

    let mut request = ModelRequest::new("m", transcript(vec![user("Go")]));
    request.tools = tools();
    request.tool_choice = ToolChoice::Required;
    request.cache_key = Some("session-1".into());
    request.settings = ModelSettings {
        max_output_tokens: Some(4000),
        temperature: Some(0.5),
        top_p: Some(0.9),
        seed: Some(7),
        reasoning_effort: Some("low".into()),
        parallel_tool_calls: Some(false),
    };
    out.push(session("settings", request));

    let mut request = ModelRequest::new("m", transcript(vec![user("Go")]));
    request.tools = tools();
    request.tool_choice = ToolChoice::Tool("search".into());
    out.push(session("forced_tool", request));

    let mut request = ModelRequest::new("m", transcript(vec![user("Go")]));
    request.tools = tools();
    request.tool_choice = ToolChoice::None;
    out.push(session("no_tools_now", request));

    let mut request = ModelRequest::new(
        "m",
        transcript(vec![
            user("Find 1 and 2."),
            Item::Assistant {
                blocks: vec![
                    signed(codec, "Two look-ups."),
                    Block::Text { text: "Looking.".into(), native: None },
                    call("call_1", "lookup", "{\"id\": 1}", None),
                    call("call_2", "lookup", "", None),
                ],
            },
            Item::ToolResults {
                results: vec![
                    result("call_1", "lookup", "{\"name\":\"A\"}", false),
                    result("call_2", "lookup", "id is missing", true),
                ],
            },
            user("Only the first, please."),
            Item::System { text: "The user went to page 3.".into() },
        ]),
    );
    request.tools = tools();
    out.push(session("tool_session", request));

    let request = ModelRequest::new(
        "m",
        transcript(vec![
            user("Go"),
            Item::Assistant {
                blocks: vec![
                    Block::Thinking {
                        text: "Foreign thought.".into(),
                        native: foreign(json!({"signature": "x"})),
                    },
                    call(
                        "functions.lookup:0",
                        "files.read",
                        "{\"id\":",
                        foreign(json!({"thoughtSignature": "x"})),
                    ),
                    Block::Native { native: foreign(json!({"type": "web_search"})).unwrap() },
                ],
            },
            Item::ToolResults {
                results: vec![result("functions.lookup:0", "files.read", "", false)],
            },
            Item::Assistant {
                blocks: vec![
                    call("functions.lookup:0", "lookup", "{}", None),
                    call("", "lookup", "{}", None),
                ],
            },
            Item::ToolResults {
                results: vec![
                    result("functions.lookup:0", "lookup", "a", false),
                    result("", "lookup", "b", false),
                ],
            },
            Item::Assistant {
                blocks: vec![Block::Thinking {
                    text: "Only foreign thought.".into(),
                    native: foreign(json!({})),
                }],
            },
            user(""),
        ]),
    );
    out.push(session("from_another_provider", request));

    let request = ModelRequest::new("m", transcript(vec![attached()]));
    out.push(session("attachments", request));

    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"], "additionalProperties": false});
    let mut request = ModelRequest::new("m", transcript(vec![user("Count")]));
    request.output = Some(OutputSchema { name: "count".into(), schema: schema.into() });
    out.push(session("structured", request.clone()));
    request.tools = tools();
    out.push(session("structured_beside_tools", request));

    let request = ModelRequest::new(
        "m",
        transcript(vec![
            Item::Assistant {
                blocks: vec![Block::Text { text: "As I said.".into(), native: None }],
            },
            user("Go on"),
        ]),
    );
    out.push(session("begins_with_the_assistant", request));
    out
}
