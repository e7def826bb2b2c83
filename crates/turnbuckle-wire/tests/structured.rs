//! Structured answers where the wire has a form of its own for them, and where it has none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::model::{
    Block, ModelDelta, ModelRequest, ModelResponse, ModelSettings, OutputSchema, ToolChoice,
    ToolSet,
};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, Transcript};
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::openai_chat::{Structured, ToolChoiceForm};
use turnbuckle_wire::{
    Anthropic, AnthropicOptions, Codec, Gemini, GeminiOptions, Ollama, OllamaOptions, OpenAiChat,
    OpenAiResponses, Profile, Recorded, ResponsesOptions,
};

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false})
}

fn request(model: &str) -> ModelRequest {
    let mut transcript = Transcript::default();
    transcript.push_item(Item::user("Count"));
    let mut request = ModelRequest::new(model, transcript);
    request.output = Some(OutputSchema { name: "count".into(), schema: schema().into() });
    request
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "Looks up.".into(),
        input_schema: json!({"type": "object", "properties": {}}).into(),
    }
}

fn with_tools(mut request: ModelRequest, names: &[&str]) -> ModelRequest {
    request.tools = Arc::new(ToolSet::new(names.iter().map(|name| spec(name)).collect()));
    request
}

fn body(codec: &dyn Codec, request: &ModelRequest) -> Value {
    serde_json::from_slice(&codec.encode(request).unwrap().body).unwrap()
}

fn forced_chat() -> OpenAiChat {
    OpenAiChat::new("p", Profile { structured: Structured::Tool, ..Profile::default() })
}

fn claude() -> Anthropic {
    Anthropic::new("p", AnthropicOptions::default())
}

fn gemini() -> Gemini {
    Gemini::new("p", GeminiOptions::default())
}

/// Without a form of its own, and a model of it.
fn forced() -> Vec<(Box<dyn Codec>, ModelRequest)> {
    vec![
        (Box::new(forced_chat()), request("m")),
        (Box::new(claude()), request("claude-3-5-haiku")),
        (Box::new(gemini()), with_tools(request("gemini-2.5-flash"), &["lookup"])),
    ]
}

#[test]
fn what_is_native_stays_native() {
    let cases: [(Box<dyn Codec>, &str, &str); 6] = [
        (
            Box::new(OpenAiChat::new("p", Profile::default())),
            "m",
            "/response_format/json_schema/schema",
        ),
        (
            Box::new(OpenAiResponses::new("p", ResponsesOptions::default())),
            "m",
            "/text/format/schema",
        ),
        (Box::new(claude()), "claude-sonnet-5", "/output_config/format/schema"),
        (Box::new(gemini()), "gemini-3-pro", "/generationConfig/responseJsonSchema"),
        (Box::new(gemini()), "gemini-2.5-flash", "/generationConfig/responseJsonSchema"),
        (Box::new(Ollama::new("p", OllamaOptions::default())), "m", "/format"),
    ];
    for (codec, model, place) in cases {
        let request = request(model);
        assert_eq!(
            body(&*codec, &request).pointer(place),
            Some(&schema()),
            "{} {model}",
            codec.wire()
        );
        assert!(!codec.answers_by_tool(&request), "{} {model}", codec.wire());
    }
}

#[test]
fn without_a_native_form_the_answer_is_a_forced_call() {
    let tool = json!({"name": "give_answer", "parameters": schema(),
        "description": "Gives the final answer. Call it once, when you know all that it needs."});
    let chat = body(&forced_chat(), &request("m"));
    assert_eq!(chat["tools"], json!([{"type": "function", "function": tool}]));
    assert_eq!(
        chat["tool_choice"],
        json!({"type": "function", "function": {"name": "give_answer"}})
    );
    assert_eq!(chat.get("response_format"), None);

    let claude = body(&claude(), &request("claude-3-5-haiku"));
    let description = &tool["description"];
    assert_eq!(
        claude["tools"],
        json!([{"name": "give_answer", "description": description, "input_schema": schema()}])
    );
    assert_eq!(claude["tool_choice"], json!({"type": "tool", "name": "give_answer"}));
    assert_eq!(claude.get("system"), None, "nothing is asked for in words");
}

#[test]
fn beside_other_tools_one_of_all_must_be_called() {
    let chat = body(&forced_chat(), &with_tools(request("m"), &["lookup"]));
    assert_eq!(chat["tool_choice"], "required");
    let claude = body(&claude(), &with_tools(request("claude-3-5-haiku"), &["lookup"]));
    assert_eq!(claude["tool_choice"], json!({"type": "any"}));
    let google = body(&gemini(), &with_tools(request("gemini-2.5-flash"), &["lookup"]));
    assert_eq!(google["toolConfig"], json!({"functionCallingConfig": {"mode": "ANY"}}));
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().unwrap().iter();
        names.map(|t| t.pointer("/function/name").unwrap_or(&t["name"]).to_string()).collect()
    };
    let both = ["\"lookup\"", "\"give_answer\""];
    assert_eq!(names(&chat["tools"]), both);
    assert_eq!(names(&claude["tools"]), both);
    assert_eq!(names(&google["tools"][0]["functionDeclarations"]), both);

    // A tool that is forced for this step comes first; with tools withheld only the answer is left.
    let mut one = with_tools(request("claude-3-5-haiku"), &["lookup"]);
    one.tool_choice = ToolChoice::Tool("lookup".into());
    assert_eq!(body(&self::claude(), &one)["tool_choice"]["name"], "lookup");
    one.tool_choice = ToolChoice::None;
    assert_eq!(body(&self::claude(), &one)["tool_choice"]["name"], "give_answer");
}

#[test]
fn where_no_call_can_be_forced_the_schema_is_put_in_words() {
    let in_words = |codec: &dyn Codec, request: &ModelRequest| {
        assert!(!codec.answers_by_tool(request));
        let body = body(codec, request).to_string();
        assert!(!body.contains("give_answer"), "{body}");
        assert!(body.contains("Answer with one JSON object and nothing else."), "{body}");
    };
    let profile = Profile {
        structured: Structured::Tool,
        tool_choices: vec![ToolChoiceForm::None],
        ..Profile::default()
    };
    in_words(&OpenAiChat::new("p", profile), &request("m"));
    // Thinking and a forced call exclude each other.
    let settings =
        ModelSettings { reasoning_effort: Some("high".into()), ..ModelSettings::default() };
    in_words(&claude(), &ModelRequest { settings, ..request("claude-sonnet-4-0") });
    // Somebody else's tool has the name, or arguments cannot be such a value.
    let taken = with_tools(request("gemini-2.5-flash"), &["lookup"]);
    let mut list = taken.clone();
    list.output = Some(OutputSchema { name: "l".into(), schema: json!({"type": "array"}).into() });
    in_words(&gemini(), &list);
    let mut taken = taken;
    taken.tools = Arc::new(ToolSet::new(vec![spec("give_answer")]));
    let text = body(&gemini(), &taken).to_string();
    assert!(text.contains("Answer with one JSON object") && !gemini().answers_by_tool(&taken));
    // Ollama enforces a schema from the first token on, so that nothing could be called.
    in_words(&Ollama::new("p", OllamaOptions::default()), &with_tools(request("m"), &["lookup"]));
    // A mode for JSON, but none for schemas.
    in_words(&OpenAiChat::new("p", Profile::named("deepseek").unwrap()), &request("deepseek-chat"));
}

#[test]
fn a_schema_that_the_wire_cannot_express_goes_along_as_a_tool() {
    let open = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let mut request = request("claude-sonnet-5");
    request.output = Some(OutputSchema { name: "map".into(), schema: open.clone().into() });
    let body = body(&claude(), &request);
    assert_eq!((&body["tools"][0]["input_schema"], body.get("output_config")), (&open, None));
}

/// Groq refuses a schema for the answer beside tools.
#[test]
fn a_form_beside_tools_may_be_another() {
    let codec = OpenAiChat::new("groq", Profile::named("groq").unwrap());
    assert!(!codec.answers_by_tool(&request("m")));
    assert!(codec.answers_by_tool(&with_tools(request("m"), &["lookup"])));
}

/// What a model answers on each of the wires: a call of each name, streamed and at once.
fn answers(codec: &dyn Codec, calls: &[(&str, Value)]) -> [String; 2] {
    let event = |value: Value| format!("data: {value}\n\n");
    match codec.wire() {
        "openai-chat" => {
            let entries: Vec<Value> = calls
                .iter()
                .enumerate()
                .map(|(index, (name, arguments))| {
                    json!({"index": index, "id": format!("c{index}"), "type": "function",
                        "function": {"name": name, "arguments": text(arguments)}})
                })
                .collect();
            let finish = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
            let pieces =
                entries.iter().map(|e| json!({"choices": [{"delta": {"tool_calls": [e]}}]}));
            [
                pieces.chain([finish]).map(event).collect(),
                json!({"choices": [{"message": {"tool_calls": entries}, "finish_reason": "tool_calls"}]})
                    .to_string(),
            ]
        }
        "anthropic" => {
            let block = |(index, (name, arguments)): (usize, &(&str, Value))| json!({"type": "tool_use", "id": format!("c{index}"), "name": name, "input": arguments});
            let blocks: Vec<Value> = calls.iter().enumerate().map(block).collect();
            let starts = blocks.iter().enumerate().map(|(index, block)| {
                json!({"type": "content_block_start", "index": index, "content_block": block})
            });
            let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
            [
                starts.chain([end]).map(event).collect(),
                json!({"type": "message", "content": blocks, "stop_reason": "tool_use"})
                    .to_string(),
            ]
        }
        _ => {
            let parts: Vec<Value> = calls
                .iter()
                .map(|(name, args)| json!({"functionCall": {"name": name, "args": args}}))
                .collect();
            let whole =
                json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
            [event(whole.clone()), whole.to_string()]
        }
    }
}

fn text(arguments: &Value) -> String {
    if arguments == &json!({}) { String::new() } else { arguments.to_string() }
}

fn decode(codec: &dyn Codec, request: &ModelRequest, body: &str) -> (ModelResponse, Vec<Recorded>) {
    let mut deltas = Vec::new();
    let mut decoder = codec.decoder_for(request);
    let mut sink = |delta: ModelDelta<'_>| deltas.push(Recorded::from(delta));
    decoder.feed(body.as_bytes(), &mut sink).unwrap();
    let response = decoder.finish(&mut sink).unwrap();
    (response, deltas)
}

#[test]
fn the_call_comes_back_as_text() {
    for (codec, request) in forced() {
        for body in answers(&*codec, &[("give_answer", json!({"n": 3}))]) {
            let (response, deltas) = decode(&*codec, &request, &body);
            let text = r#"{"n":3}"#.to_owned();
            assert_eq!(response.blocks, [Block::Text { text: text.clone(), native: None }]);
            assert_eq!(response.finish, FinishReason::Stop, "{}", codec.wire());
            assert_eq!(deltas, [Recorded::Text { block: 0, text }], "{}", codec.wire());
        }
        for body in answers(&*codec, &[("give_answer", json!({}))]) {
            let (response, deltas) = decode(&*codec, &request, &body);
            let text = "{}".to_owned();
            assert_eq!(response.blocks, [Block::Text { text: text.clone(), native: None }]);
            assert_eq!(deltas, [Recorded::Text { block: 0, text }], "{}", codec.wire());
        }
    }
}

#[test]
fn other_calls_stay_calls() {
    for (codec, request) in forced() {
        for body in
            answers(&*codec, &[("lookup", json!({"id": 1})), ("give_answer", json!({"n": 3}))])
        {
            let (response, deltas) = decode(&*codec, &request, &body);
            let [Block::ToolCall { name, .. }, Block::Text { text, .. }] = &response.blocks[..]
            else {
                panic!("{:?}", response.blocks)
            };
            assert_eq!((name.as_str(), text.as_str()), ("lookup", r#"{"n":3}"#));
            assert_eq!(response.finish, FinishReason::ToolCalls, "{}", codec.wire());
            assert_eq!(deltas.len(), 3, "{}: {deltas:?}", codec.wire());
        }
    }
}
