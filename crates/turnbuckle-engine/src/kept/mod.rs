//! `read_output`: what is kept of a session's tool outputs beside the conversation, for the model to read.
//!
//! A result names what is kept in one of two ways: an output over its cap as `"full_output": "output:CALL"`, and a result of an
//! older turn that shrank to its summary as `call:CALL`. Both are looked up in the session of the turn, under its tenant, and
//! nowhere else; and what is found is what the model was shown, or was shown the beginning of, never what was hidden from it.
//!
//! # When the model is offered it
//! Always, to every agent with a tool, in every session; never where nothing is stored. It could be offered only once something
//! is kept, but tools stand before everything else in a request: one that appears later makes the provider read the whole
//! conversation anew at full price, in the middle of a turn, to save some hundred tokens that it has in its cache. So an agent's
//! tools are the same from the first request of a session to the last, and each request begins with the one before.

mod page;
mod search;

use crate::pipeline::kept_reference;
use crate::tool::{Category, FnTool, ToolContext, ToolContract};
use page::{Page, page};
use schemars::JsonSchema;
use search::{Found, search};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::ids::CallId;
use turnbuckle_core::message::{AssistantMessage, Message};
use turnbuckle_core::part::ToolCallPart;
use turnbuckle_core::tool::SideEffect;
use turnbuckle_core::transcript::text_of;
use turnbuckle_store::{SessionKey, Store, StoreError};

/// The tool's name.
pub const READ_OUTPUT: &str = "read_output";

/// Characters of a page, unless the model asks for another number.
const PAGE: u32 = 8_000;
/// Characters of the longest page.
const LONGEST_PAGE: u32 = 16_000;
/// Bytes of a page in place, however it is quoted: its own output is never kept aside in turn.
const CAP: usize = 256 * 1024;
/// Characters of the longest query.
const LONGEST_QUERY: usize = 200;
/// Messages looked through at once.
const MESSAGES: u32 = 100;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The reference as it stands in the result: `output:...` or `call:...`.
    r#ref: String,
    /// Where to begin, in characters; 0 unless given. Each answer says where the next one begins.
    offset: Option<u64>,
    /// How many characters to read, at most 16000; 8000 unless given.
    #[schemars(range(min = 1, max = 16_000))]
    limit: Option<u32>,
    /// Text to look for instead of reading on: gives the places where it stands, with what is around it. Upper and lower case
    /// of the letters a to z are alike.
    query: Option<String>,
}

/// The tool, on what a store keeps.
pub(crate) fn read_output(store: Arc<dyn Store>) -> FnTool {
    let contract = ToolContract::new(READ_OUTPUT)
        .title("Read a kept output")
        .description(
            "Reads what is kept of an earlier tool result that was too long to be shown whole, page by page, or finds text in \
             it. Use it only with a reference that a result names: `full_output`, or `read it again as call:...`.",
        )
        .category(Category::System)
        .effect(SideEffect::ReadOnly)
        .output_cap(CAP);
    FnTool::typed(contract, move |args: Args, ctx: ToolContext| {
        let store = store.clone();
        async move { read(&*store, args, &ctx).await }
    })
}

async fn read(store: &dyn Store, args: Args, ctx: &ToolContext) -> Result<Value, ToolError> {
    let kept = find(store, &args.r#ref, ctx).await?;
    let offset = args.offset.unwrap_or(0);
    let mut answer = serde_json::Map::new();
    answer.insert("ref".into(), json!(args.r#ref));
    answer.insert("bytes".into(), json!(kept.size()));
    let next = match args.query {
        None => {
            let limit = args.limit.unwrap_or(PAGE).min(LONGEST_PAGE);
            let Page { text, next } = page(&kept, offset, limit).await?;
            answer.insert("offset".into(), json!(offset));
            answer.insert("text".into(), json!(text));
            next
        }
        Some(query) => {
            if query.is_empty() || query.chars().count() > LONGEST_QUERY {
                let text = format!("`query` takes 1 to {LONGEST_QUERY} characters.");
                return Err(ToolError::invalid(text));
            }
            let Found { matches, next } = search(&kept, &query, offset).await?;
            answer.insert("query".into(), json!(query));
            let matches: Vec<Value> = matches
                .into_iter()
                .map(|found| json!({"offset": found.offset, "text": found.text}))
                .collect();
            answer.insert("matches".into(), matches.into());
            next
        }
    };
    if let Some(next) = next {
        answer.insert("next_offset".into(), json!(next));
    }
    Ok(answer.into())
}

/// An output that is kept.
enum Kept<'a> {
    Blob { store: &'a dyn Store, key: SessionKey, id: String, size: u64 },
    Text(String),
}

impl Kept<'_> {
    fn size(&self) -> u64 {
        match self {
            Kept::Blob { size, .. } => *size,
            Kept::Text(text) => text.len() as u64,
        }
    }

    /// The bytes of a range, as far as there are any.
    async fn bytes(&self, range: Range<u64>) -> Result<Vec<u8>, ToolError> {
        match self {
            Kept::Blob { store, key, id, .. } => {
                Ok(store.get_blob(key, id, range).await.map_err(store_failed)?.content)
            }
            Kept::Text(text) => {
                let end = range.end.min(self.size()) as usize;
                let start = (range.start as usize).min(end);
                Ok(text.as_bytes().get(start..end).unwrap_or_default().to_vec())
            }
        }
    }
}

async fn find<'a>(
    store: &'a dyn Store,
    given: &str,
    ctx: &ToolContext,
) -> Result<Kept<'a>, ToolError> {
    let known = given.strip_prefix("output:").or_else(|| given.strip_prefix("call:"));
    let Some(call) = known.map(|id| CallId::from(id.trim())) else {
        let text = "References begin with `output:` or `call:`; give one as it stands in a result.";
        return Err(ToolError::invalid(text));
    };
    let key = SessionKey::new(ctx.tenant().clone(), ctx.session().clone());
    let id = kept_reference(&call);
    match store.get_blob(&key, &id, 0..0).await {
        Ok(part) => return Ok(Kept::Blob { store, key, id, size: part.size }),
        Err(StoreError::NotFound { .. }) => {}
        Err(e) => return Err(store_failed(e)),
    }
    match stored_view(store, &key, &call).await? {
        Some(text) => Ok(Kept::Text(text)),
        None => {
            let text = format!(
                "Nothing is kept under `{given}` in this session. Give a reference as it stands in a result."
            );
            Err(ToolError::new(ToolErrorCode::Failed, text))
        }
    }
}

/// What the model was shown of a call of an earlier turn: what was hidden from it then stays hidden.
async fn stored_view(
    store: &dyn Store,
    key: &SessionKey,
    call: &CallId,
) -> Result<Option<String>, ToolError> {
    let mut from = 0;
    loop {
        let messages = store.messages(key, from, MESSAGES).await.map_err(store_failed)?;
        let count = messages.len() as u32;
        for message in messages {
            // A call's id begins with its turn's.
            if let Message::Assistant(message) = message
                && call.as_str().starts_with(message.turn.as_str())
                && let Some(found) = find_call(&message, call)
            {
                return Ok(found.model_view.as_ref().or(found.output.as_ref()).map(text_of));
            }
        }
        if count < MESSAGES {
            return Ok(None);
        }
        from += count;
    }
}

fn find_call<'m>(message: &'m AssistantMessage, id: &CallId) -> Option<&'m ToolCallPart> {
    message.calls().find_map(|call| {
        if call.id == *id {
            return Some(call);
        }
        call.child.as_deref().and_then(|child| find_call(child, id))
    })
}

fn store_failed(error: StoreError) -> ToolError {
    ToolError::failed(format!("What is kept could not be read: {}", error.report()))
}
