//! Spans of turns, model calls and tool calls, named by the OpenTelemetry conventions for generative AI. The conventions still
//! move, so nothing else knows their names.
//!
//! | span | parent | attributes |
//! |---|---|---|
//! | `invoke_agent NAME` | whoever drives the session | agent, session (as conversation), turn, usage, outcome |
//! | `invoke_agent NAME`, nested | the agent whose call runs it | the same, and the call |
//! | `chat MODEL` | its agent | provider, model, step, attempt, purpose, usage, why it stopped, error |
//! | `execute_tool NAME` | its agent | tool, call, step, error |
//!
//! Without a subscriber that wants them, spans are neither made nor filled: each place costs one look at a static. What people
//! and models say is recorded only with [`TraceContent::Recorded`].

mod content;
mod nested;

pub(crate) use nested::{Nested, within};

use crate::domain::TurnInfo;
use tracing::field::{Empty, display};
use tracing::{Span, info_span};
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::ids::{AgentName, SessionId, TurnId};
use turnbuckle_core::machine::{ExecuteCall, ExecuteMode, ExecuteResult, StepId};
use turnbuckle_core::model::{ModelRef, ModelRequest, ModelResponse};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::usage::{FinishReason, Purpose, Usage};
use turnbuckle_models::CallFailure;

/// The target of all these spans.
pub const TARGET: &str = "turnbuckle::trace";

/// Whether spans hold what people, models and tools say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceContent {
    /// They do not.
    #[default]
    Withheld,
    /// They hold requests, answers, arguments and results.
    Recorded,
}

/// The turn.
pub(crate) fn turn(info: &TurnInfo, epoch: u32) -> Span {
    invoked(info, info.agent.as_str(), epoch)
}

/// An agent at work in a turn.
fn invoked(info: &TurnInfo, agent: &str, epoch: u32) -> Span {
    info_span!(
        target: TARGET,
        "invoke_agent",
        otel.name = %format_args!("invoke_agent {agent}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        otel.status_description = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = %info.session,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        "error.type" = Empty,
        tenant = %info.tenant,
        session = %info.session,
        turn = %info.turn,
        epoch = i64::from(epoch),
        call = Empty,
        outcome = Empty,
    )
}

/// The turn, or a nested agent, ended or paused.
pub(crate) fn turn_ended(span: &Span, outcome: &Outcome, usage: &Usage) {
    if span.is_disabled() {
        return;
    }
    let (word, error) = match outcome {
        Outcome::Completed => ("completed", None),
        Outcome::Paused => ("paused", None),
        Outcome::Exhausted { .. } => ("exhausted", None),
        Outcome::Error { error } => ("error", Some(error)),
        Outcome::Aborted { .. } => ("aborted", None),
    };
    span.record("outcome", word);
    record_tokens(span, usage);
    if let Some(error) = error {
        span.record("error.type", error_word(error).as_str());
        failed(span, &error.to_string());
    }
}

/// What a model is called for.
#[derive(Clone, Copy)]
pub(crate) struct Chat<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) turn: &'a TurnId,
    pub(crate) agent: &'a AgentName,
    pub(crate) step: StepId,
    pub(crate) purpose: Purpose,
    pub(crate) attempt: u32,
}

/// A model call.
pub(crate) fn chat(
    about: Chat<'_>,
    model: &ModelRef,
    request: &ModelRequest,
    content: TraceContent,
) -> Span {
    let span = info_span!(
        target: TARGET,
        "chat",
        otel.name = %format_args!("chat {}", request.model),
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider(&model.provider),
        gen_ai.conversation.id = %about.session,
        gen_ai.agent.name = %about.agent,
        gen_ai.request.model = %request.model,
        gen_ai.request.max_tokens = Empty,
        gen_ai.request.temperature = Empty,
        gen_ai.request.top_p = Empty,
        gen_ai.request.seed = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.system_instructions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        "error.type" = Empty,
        "http.response.status_code" = Empty,
        session = %about.session,
        turn = %about.turn,
        step = i64::from(about.step),
        purpose = purpose(about.purpose),
        attempt = i64::from(about.attempt),
    );
    if span.is_disabled() {
        return span;
    }
    let settings = &request.settings;
    if let Some(tokens) = settings.max_output_tokens {
        span.record("gen_ai.request.max_tokens", i64::from(tokens));
    }
    if let Some(temperature) = settings.temperature {
        span.record("gen_ai.request.temperature", f64::from(temperature));
    }
    if let Some(top_p) = settings.top_p {
        span.record("gen_ai.request.top_p", f64::from(top_p));
    }
    if let Some(seed) = settings.seed {
        span.record("gen_ai.request.seed", int(seed));
    }
    if content == TraceContent::Recorded {
        span.record("gen_ai.system_instructions", display(content::system(request)));
        span.record("gen_ai.input.messages", display(content::input(request)));
    }
    span
}

/// A model call ended.
pub(crate) fn chat_ended(
    span: &Span,
    result: &Result<ModelResponse, CallFailure>,
    content: TraceContent,
) {
    if span.is_disabled() {
        return;
    }
    match result {
        Ok(response) => answered(span, response, content),
        Err(failure) => {
            if let Some(partial) = &failure.partial {
                answered(span, partial, content);
            }
            span.record("error.type", display(word(&failure.error.kind)));
            if let Some(status) = failure.error.status {
                span.record("http.response.status_code", i64::from(status));
            }
            failed(span, &failure.error.to_string());
        }
    }
}

fn answered(span: &Span, response: &ModelResponse, content: TraceContent) {
    span.record("gen_ai.response.model", response.model.as_str());
    if let Some(id) = &response.id {
        span.record("gen_ai.response.id", id.as_str());
    }
    span.record("gen_ai.response.finish_reasons", finish(&response.finish));
    record_tokens(span, &response.usage);
    if content == TraceContent::Recorded {
        span.record("gen_ai.output.messages", display(content::output(response)));
    }
}

/// A tool call.
pub(crate) fn tool(about: ToolAbout<'_>, call: &ExecuteCall, content: TraceContent) -> Span {
    let span = info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = %format_args!("execute_tool {}", call.tool),
        otel.kind = "internal",
        otel.status_code = Empty,
        otel.status_description = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.conversation.id = %about.session,
        gen_ai.agent.name = %about.agent,
        gen_ai.tool.name = %call.tool,
        gen_ai.tool.call.id = %call.call,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        "gen_ai.tool.type" = "function",
        "error.type" = Empty,
        session = %about.session,
        turn = %about.turn,
        step = i64::from(about.step),
        mode = match call.mode {
            ExecuteMode::Real => "real",
            ExecuteMode::Capture { .. } => "capture",
            ExecuteMode::Recover => "recover",
        },
    );
    if content == TraceContent::Recorded && !span.is_disabled() {
        span.record("gen_ai.tool.call.arguments", display(&*call.args));
    }
    span
}

/// Where a tool is called.
#[derive(Clone, Copy)]
pub(crate) struct ToolAbout<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) turn: &'a TurnId,
    pub(crate) agent: &'a AgentName,
    pub(crate) step: StepId,
}

/// A tool call ended.
pub(crate) fn tool_ended(span: &Span, result: &ExecuteResult, content: TraceContent) {
    if span.is_disabled() {
        return;
    }
    match result {
        ExecuteResult::Success { result, .. } => {
            if content == TraceContent::Recorded {
                span.record("gen_ai.tool.call.result", display(&*result.output));
            }
        }
        ExecuteResult::Failure { error, .. } => {
            span.record("error.type", display(word::<ToolErrorCode>(&error.code)));
            // What a tool says when it fails may hold what it was given.
            match content {
                TraceContent::Recorded => failed(span, &error.message),
                TraceContent::Withheld => failed(span, "the tool failed"),
            }
        }
    }
}

fn failed(span: &Span, why: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", why);
}

fn record_tokens(span: &Span, usage: &Usage) {
    let of = |name: &str, tokens: Option<u64>| {
        if let Some(tokens) = tokens {
            span.record(name, int(tokens));
        }
    };
    // By the conventions the input includes what a cache gave.
    let input = [usage.input, usage.cache_read, usage.cache_write].iter().any(Option::is_some);
    of("gen_ai.usage.input_tokens", input.then(|| usage.prompt()));
    of("gen_ai.usage.output_tokens", usage.output);
    of("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    of("gen_ai.usage.cache_creation.input_tokens", usage.cache_write);
    of("gen_ai.usage.reasoning.output_tokens", usage.reasoning);
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A provider by the name that the conventions give it; others keep their own.
fn provider(configured: &str) -> &str {
    match configured {
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "bedrock" => "aws.bedrock",
        "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "moonshot" => "moonshot_ai",
        other => other,
    }
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Step => "step",
        Purpose::Closing => "closing",
        Purpose::Route => "route",
        Purpose::Summary => "summary",
        Purpose::Repair => "repair",
        Purpose::Title => "title",
        Purpose::Tool => "tool",
    }
}

fn finish(reason: &FinishReason) -> &str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length => "length",
        FinishReason::ContentFilter | FinishReason::Refusal => "content_filter",
        FinishReason::Pause => "pause",
        FinishReason::Other(other) => other,
    }
}

/// A code by the name it is written under.
fn word<T: serde::Serialize>(code: &T) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "_OTHER".to_owned(),
    }
}

fn error_word(error: &turnbuckle_core::outcome::TurnError) -> String {
    let value = serde_json::to_value(error).unwrap_or_default();
    value.get("code").and_then(|code| code.as_str()).unwrap_or("_OTHER").to_owned()
}
