//! The AI SDK's UI message stream v1, in a profile that its version 6 takes and one for version 7.
//!
//! | module | holds |
//! |---|---|
//! | `input` | what a client sends, and what of it counts |
//! | `chunk`, `messages` | chunks and messages as they are written |
//! | `stream` | one answer from its first chunk to its last |

mod chunk;
mod input;
mod messages;
mod stream;
#[cfg(test)]
mod tests;

pub use input::{ChatInput, ChatMessage, ChatTool, Trigger};

use super::event_stream;
use super::threads::{Begins, Reply, Thread};
use crate::api::Api;
use crate::dto::{NewToolResult, Stopped};
use crate::live::Until;
use crate::problem::{Answer, Problem};
use crate::request::{Body, Caller, Path, Query};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use input::Said;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use stream::{Since, Stream};
use turnbuckle_core::ids::{AgentName, CallId, ToolName};
use turnbuckle_core::message::{SystemBody, UserMessage};
use turnbuckle_core::tool::RunsOn;
use turnbuckle_store::{Card, Posted, Session, SessionStatus};
use utoipa::{IntoParams, ToSchema};

/// The header by which clients know the protocol.
const STREAM_VERSION: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");
/// Messages of a chat that are given at once, the last ones.
const MESSAGES: u32 = 1000;

/// Which chunks a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Those of version 6, which version 7 takes as well.
    #[default]
    V6,
    /// Those of version 7.
    V7,
}

/// In which profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ProfileQuery {
    /// `v6` by default.
    #[serde(default)]
    #[param(inline)]
    pub profile: Option<Profile>,
}

/// A chat with its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chat {
    /// The id that the client gave.
    pub id: String,
    /// Its session; absent when nothing was said yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The messages as a client holds them.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Value>,
}

/// Talk to an agent by the AI SDK's protocol: a new message, or answers to approvals and results of client tools.
#[utoipa::path(
    post, path = "/ai-sdk/{agent}", tag = "protocols", request_body = ChatInput,
    params(("agent" = String, Path, description = "The agent."), ProfileQuery),
    responses((status = 200, body = String, content_type = "text/event-stream")),
)]
pub async fn chat_ai_sdk(
    State(api): State<Api>,
    caller: Caller,
    Path(agent): Path<String>,
    Query(query): Query<ProfileQuery>,
    Body(input): Body<ChatInput>,
) -> Answer<Response> {
    let who = &caller.who;
    let thread = Thread { protocol: "ai-sdk", agent: &agent, id: &input.id };
    let found = thread.find(&api, who).await?;
    if input.trigger == Some(Trigger::RegenerateMessage) {
        let what = "An answer is not made anew in its own chat: what it did has happened. Copy the \
                    session before the message with POST /v1/sessions/{session}/fork, and send the \
                    message there.";
        return Err(Problem::field("trigger", what));
    }
    let last = input.last()?;
    let (session, (begins, since)) = match &*last.role {
        "user" => {
            let session = match found {
                Some(session) => session,
                None => thread.open(&api, who).await?,
            };
            let begins = match api.known(&session, &last.id).await? {
                Some(known) => api.begins(&session, known.message.turn).await?,
                None => api.submit_new(who, &session, &last.id, input.turn(last)?).await?.0,
            };
            (session, (begins, Since::Beginning))
        }
        "assistant" => {
            let session = found.ok_or_else(Problem::not_found)?;
            let about = answers(&api, &caller, &session, &input, input.said(last)?).await?;
            (session, about)
        }
        _ => return Err(Problem::field("messages", "must end with one of a user or an assistant")),
    };
    watch(&api, &caller, &session, begins, since, query.profile.unwrap_or_default()).await
}

/// Take up the answer that is being written, from its beginning; nothing when there is none.
#[utoipa::path(
    get, path = "/ai-sdk/{agent}/{chat}/stream", tag = "protocols",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("chat" = String, Path, description = "The client's name for the chat, or a session's id."),
        ProfileQuery,
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = 204, description = "Nothing is being written."),
    ),
)]
pub async fn resume_ai_sdk(
    State(api): State<Api>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
    Query(query): Query<ProfileQuery>,
) -> Answer<Response> {
    let thread = Thread { protocol: "ai-sdk", agent: &agent, id: &id };
    let Some(session) = thread.find(&api, &caller.who).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let Some(begins) = api.moving(&session).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let profile = query.profile.unwrap_or_default();
    watch(&api, &caller, &session, begins, Since::Beginning, profile).await
}

/// A chat's messages, for a page that is loaded.
#[utoipa::path(
    get, path = "/ai-sdk/{agent}/{chat}", tag = "protocols",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("chat" = String, Path, description = "The client's name for the chat, or a session's id."),
    ),
    responses((status = 200, body = Chat)),
)]
pub async fn get_ai_sdk_chat(
    State(api): State<Api>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Answer<Json<Chat>> {
    let thread = Thread { protocol: "ai-sdk", agent: &agent, id: &id };
    let Some(session) = thread.find(&api, &caller.who).await? else {
        return Ok(Json(Chat { id, session: None, messages: Vec::new() }));
    };
    let view = api.store().view(&session.key, MESSAGES).await?;
    let tools = ClientTools::of(&api, &session);
    let mut messages = messages::all(&session.key.id, &view.messages, &tools);
    if let (SessionStatus::Running, Some(turn)) = (view.session.status, &view.session.turn)
        && let Some(message) = api.opening(&session, turn).await?
    {
        messages.push(messages::of_user(&session.key.id, &message));
    }
    let known = |turn| {
        Some(turn) == view.session.turn.as_ref()
            || view.messages.iter().any(|message| message.turn() == turn)
    };
    for item in &view.inbox {
        if let Posted::Message { message, .. } = &item.input
            && !known(&message.turn)
        {
            messages.push(messages::of_user(&session.key.id, message));
        }
    }
    Ok(Json(Chat { id, session: Some(session.key.id.to_string()), messages }))
}

/// Stop whatever is being written in a chat. A client that only goes away stops nothing.
#[utoipa::path(
    post, path = "/ai-sdk/{agent}/{chat}/stop", tag = "protocols",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("chat" = String, Path, description = "The client's name for the chat, or a session's id."),
    ),
    responses((status = 200, body = Stopped, description = "It stops, or there was nothing to stop.")),
)]
pub async fn stop_ai_sdk(
    State(api): State<Api>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Answer<Json<Stopped>> {
    super::stop(&api, &caller.who, &Thread { protocol: "ai-sdk", agent: &agent, id: &id }).await
}

async fn watch(
    api: &Api,
    caller: &Caller,
    session: &Session,
    begins: Begins,
    since: Since,
    profile: Profile,
) -> Answer<Response> {
    let tools = ClientTools::of(api, session);
    let stream = Stream::new(profile, begins.turn.clone(), since, tools);
    let until = Some(Until::Settled(begins.turn));
    let (id, after) = (session.key.id.as_str(), Some(begins.after.as_str()));
    let watching = api.watch_as(&caller.who, id, after, until, Box::new(stream)).await?;
    let mut response = event_stream(watching);
    response.headers_mut().insert(STREAM_VERSION, HeaderValue::from_static("v1"));
    Ok(response)
}

/// Which tools the client runs.
#[derive(Clone, Debug, Default)]
struct ClientTools {
    /// Those of each agent, with whether the client runs them.
    agents: BTreeMap<AgentName, BTreeMap<ToolName, bool>>,
    /// The agent that the session talks to. It need not be the one that answers.
    addressed: Option<AgentName>,
    /// What clients brought.
    offered: BTreeSet<ToolName>,
}

impl ClientTools {
    fn of(api: &Api, session: &Session) -> Self {
        let agents = api.engine().domain().agents().iter().map(|(name, agent)| {
            let contracts = agent.tools().map(|tool| tool.tool().contract());
            let tools = contracts.map(|contract| {
                let theirs = contract.traits.runs_on == RunsOn::Client;
                (contract.name().clone(), theirs)
            });
            (name.clone(), tools.collect())
        });
        let addressed = Some(session.agent.clone());
        Self { agents: agents.collect(), addressed, offered: BTreeSet::new() }
    }

    /// A message brings tools.
    fn offer(&mut self, message: &UserMessage) {
        self.offered.extend(message.surroundings.tools.iter().map(|tool| tool.name.clone()));
    }

    /// Whether the client runs a tool that is called in an agent's message.
    fn has(&self, agent: &AgentName, tool: &ToolName) -> bool {
        let mut agents = std::iter::once(agent).chain(&self.addressed);
        let own = agents.find_map(|name| self.agents.get(name)?.get(tool).copied());
        own.unwrap_or_else(|| self.offered.contains(tool))
    }
}

/// Takes the answers to cards that a transcript holds.
async fn answers(
    api: &Api,
    caller: &Caller,
    session: &Session,
    input: &ChatInput,
    said: Vec<Said>,
) -> Answer<(Begins, Since)> {
    let open = api.open_cards(session).await?;
    let mut replies: Vec<(Card, Reply)> = Vec::new();
    let mut given: Vec<(CallId, NewToolResult)> = Vec::new();
    for said in said {
        let (card, reply) = match said {
            Said::Decided(id, new) => {
                let card = api.card_of(session, &id).await?;
                let unknown = || Problem::field("messages", format!("there is no approval {id}"));
                (card.ok_or_else(unknown)?, Reply::Decision(new))
            }
            // Results that are known are in every transcript.
            Said::Result(call, result) => {
                let is = |card: &&Card| matches!(&card.message.body, SystemBody::Approval(body) if body.call == call);
                match open.iter().find(is) {
                    Some(card) => (card.clone(), Reply::Result(result)),
                    None => {
                        given.push((call, result));
                        continue;
                    }
                }
            }
        };
        replies.push((card, reply));
    }
    let unmatched = |id: &&String| {
        let by_card = |card: &Card| match &card.message.body {
            SystemBody::Approval(body) => card.message.id == ***id || body.call == ***id,
            SystemBody::Note { .. } => false,
        };
        !replies.iter().any(|(card, _)| by_card(card))
    };
    if let Some(id) = input.amendments.keys().find(unmatched) {
        let what = "must be beside the approval of the same id in the transcript";
        return Err(Problem::field(format!("amendments.{id}"), what));
    }
    // A request that brings nothing else brings them again, since its answer was lost.
    if replies.is_empty() {
        for (call, result) in given {
            if let Some(first) = api.card_of(session, &call.card()).await? {
                replies.push((api.last_card(first).await?, Reply::Result(result)));
            }
        }
    }
    let Some(turn) = replies.first().map(|(card, _)| card.message.turn.clone()) else {
        return Err(Problem::field("messages", "brings nothing new"));
    };
    let cards = replies.iter().map(|(card, _)| card.message.id.clone()).collect();
    for (card, reply) in replies {
        api.reply(caller, &card, reply).await?;
    }
    Ok((api.begins(session, turn).await?, Since::Decision(cards)))
}
