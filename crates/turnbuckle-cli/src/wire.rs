//! The codecs by hand: recorded answers decoded, requests encoded.

use crate::cli::{WireArgs, WireCommand};
use crate::error::CliError;
use crate::exit::Exit;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::sync::Arc;
use turnbuckle::core::model::{
    Delivery, ModelRequest, ModelSettings, OutputSchema, SystemBlock, ToolChoice, ToolSet,
};
use turnbuckle::core::tool::ToolSpec;
use turnbuckle::core::transcript::{Item, Transcript};
use turnbuckle_wire::{
    Anthropic, AnthropicOptions, Codec, Gemini, GeminiOptions, Ollama, OllamaOptions, OpenAiChat,
    OpenAiResponses, Profile, ResponsesOptions, decode_recording,
};

/// Runs the command.
///
/// # Errors
/// When the wire or profile is unknown, or stdin is not what it should be.
pub fn run(what: WireCommand) -> Result<Exit, CliError> {
    let mut input = Vec::new();
    let mut read =
        || std::io::stdin().read_to_end(&mut input).map_err(CliError::io("stdin cannot be read"));
    match what {
        WireCommand::Decode { wire, model } => {
            let codec = codec(&wire)?;
            read()?;
            decode(&*codec, &model, &input)
        }
        WireCommand::Encode { wire, whole } => {
            let codec = codec(&wire)?;
            read()?;
            encode(&*codec, &input, whole)
        }
    }
}

fn codec(args: &WireArgs) -> Result<Box<dyn Codec>, CliError> {
    if let Some(profile) = &args.profile
        && args.wire != turnbuckle_wire::openai_chat::WIRE
    {
        return Err(CliError::Usage(format!(
            "the wire {} has no profiles; leave --profile {profile} out",
            args.wire
        )));
    }
    Ok(match args.wire.as_str() {
        "openai-chat" => {
            let name = args.profile.as_deref().unwrap_or("openai");
            let profile = Profile::named(name).ok_or_else(|| {
                let known = Profile::names().collect::<Vec<_>>().join(", ");
                CliError::Usage(format!("there is no profile `{name}`; there are {known}"))
            })?;
            Box::new(OpenAiChat::new(name, profile))
        }
        "openai-responses" => Box::new(OpenAiResponses::new("openai", ResponsesOptions::default())),
        "anthropic" => Box::new(Anthropic::new("anthropic", AnthropicOptions::default())),
        "gemini" => Box::new(Gemini::new("gemini", GeminiOptions::default())),
        "ollama" => Box::new(Ollama::new("ollama", OllamaOptions::default())),
        other => {
            return Err(CliError::Usage(format!(
                "there is no wire `{other}`; there are openai-chat, openai-responses, anthropic, gemini and ollama"
            )));
        }
    })
}

fn decode(codec: &dyn Codec, model: &str, bytes: &[u8]) -> Result<Exit, CliError> {
    let recording = decode_recording(codec, model, bytes);
    let failed = recording.error.is_some();
    let mut out = json!({
        "blocks": recording.response.blocks,
        "finish": recording.response.finish,
        "usage": recording.response.usage,
        "provider": recording.response.provider,
        "model": recording.response.model,
        "id": recording.response.id,
        "events": recording.deltas,
    });
    if let (Some(error), Some(map)) = (recording.error, out.as_object_mut()) {
        map.insert("error".to_owned(), json!(error));
    }
    print(&out)?;
    Ok(if failed { Exit::Paused } else { Exit::Completed })
}

/// A session as it is written for `encode`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionFile {
    model: String,
    #[serde(default)]
    system: System,
    items: Vec<Item>,
    #[serde(default)]
    tools: Vec<ToolSpec>,
    #[serde(default)]
    tool_choice: ToolChoice,
    #[serde(default)]
    output: Option<OutputSchema>,
    #[serde(default)]
    settings: ModelSettings,
    #[serde(default)]
    cache_key: Option<String>,
    #[serde(default = "streamed")]
    stream: bool,
}

const fn streamed() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum System {
    Text(String),
    Blocks(Vec<SystemBlock>),
}

impl Default for System {
    fn default() -> Self {
        System::Blocks(Vec::new())
    }
}

fn encode(codec: &dyn Codec, bytes: &[u8], whole: bool) -> Result<Exit, CliError> {
    let file: SessionFile = serde_json::from_slice(bytes).map_err(|e| {
        CliError::Failed(format!(
            "stdin is no session: {e} (`turnbuckle wire encode --help` describes one)"
        ))
    })?;
    let mut transcript = Transcript::default();
    for item in file.items {
        transcript.push_item(item);
    }
    let mut request = ModelRequest::new(file.model, transcript);
    request.system = match file.system {
        System::Text(text) => vec![SystemBlock::new(text)],
        System::Blocks(blocks) => blocks,
    };
    request.tools = Arc::new(ToolSet::new(file.tools));
    request.tool_choice = file.tool_choice;
    request.output = file.output;
    request.settings = file.settings;
    request.cache_key = file.cache_key.map(Arc::from);
    request.delivery = if file.stream { Delivery::Stream } else { Delivery::Whole };
    let encoded = codec.encode(&request)?;
    if whole {
        let body: Value = serde_json::from_slice(&encoded.body)
            .map_err(|e| CliError::Failed(format!("the request is no JSON: {e}")))?;
        let headers: Vec<Value> = encoded.headers.iter().map(|(n, v)| json!([n, v])).collect();
        print(&json!({"method": "POST", "path": encoded.path, "headers": headers, "body": body}))?;
    } else {
        // The bytes as they would be sent.
        let mut out = std::io::stdout().lock();
        out.write_all(&encoded.body)?;
        out.write_all(b"\n")?;
    }
    Ok(Exit::Completed)
}

fn print(value: &Value) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
