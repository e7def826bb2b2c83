//! AG-UI 1.0, and its 0.0.59 dialect for clients that name no version.
//!
//! | module | holds |
//! |---|---|
//! | `input` | what a client sends, and what of it counts |
//! | `event`, `messages` | events and messages as they are written |
//! | `write` | what is new in a turn as events |
//! | `run` | one run from its first event to its last |

mod event;
mod input;
mod messages;
mod run;
#[cfg(test)]
mod tests;
mod write;

pub use input::{Resume, ResumeStatus, RunInput, RunMessage, RunTool};

use super::threads::{Begins, Known, Reply, Standing, Taken, Thread};
use super::{event_stream, still};
use crate::api::Api;
use crate::dto::Stopped;
use crate::live::Until;
use crate::problem::{Answer, Problem};
use crate::request::{Body, Caller, Path};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use event::AgEvent;
use run::{Names, Run, Since};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnbuckle_core::ids::{MessageId, SessionId, TurnId};
use turnbuckle_core::message::{Asks, Message, SystemBody};
use turnbuckle_store::{Card, Session};
use write::Page;

/// Messages that a run may be told anew, the last ones.
const MESSAGES: u32 = 1000;
/// Messages of a person that one run may bring.
const FRESH: usize = 16;

/// Which dialect a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 1.0 and later.
    One,
    /// 0.0.59.
    Before,
}

/// What a run is about.
enum About {
    /// A turn to follow.
    Turn(Begins, Since),
    /// Nothing moves: the messages as they are, and how they stand.
    Still(Vec<Value>, Vec<Card>, Option<Fork>),
    /// It cannot be.
    Refused(&'static str, String),
    /// A message of long ago shall be answered anew, which cannot be here: the messages as they are.
    Regenerate(Vec<Value>, Fork),
}

/// How a message is answered anew: in a copy of its session.
struct Fork {
    session: SessionId,
    /// The message's place, which is where the copy ends; absent for one of so long ago that it was not looked for.
    before: Option<u32>,
}

impl Fork {
    fn path(&self) -> String {
        format!("/v1/sessions/{}/fork", self.session)
    }

    /// As a word beside an answer that was given before.
    fn aside(&self) -> AgEvent {
        let mut value = json!({"fork": self.path()});
        if let (Some(before), Some(fields)) = (self.before, value.as_object_mut()) {
            fields.insert("before".to_owned(), json!(before));
        }
        AgEvent::Custom { name: "answered-before", value }
    }

    fn refusal(&self) -> AgEvent {
        let place = match self.before {
            Some(before) => format!(" with {{\"before\": {before}}}"),
            None => String::new(),
        };
        let message = format!(
            "The message was answered, and an answer is not made anew in its own thread: what it did has happened. Copy the \
             session before the message with POST {}{place}, and send the message there: the copy's id is its threadId.",
            self.path()
        );
        AgEvent::RunError { message, code: "regenerate".to_owned(), usage: Vec::new() }
    }
}

/// Run an agent by AG-UI: what is new in the transcript is submitted or answered, and the turn is streamed. With nothing new, the
/// turn that is at work is streamed from its beginning, or the messages as they are.
#[utoipa::path(
    post, path = "/ag-ui/{agent}", tag = "protocols", request_body = RunInput,
    params(("agent" = String, Path, description = "The agent.")),
    responses((status = 200, body = String, content_type = "text/event-stream")),
)]
pub async fn run_ag_ui(
    State(api): State<Api>,
    caller: Caller,
    Path(agent): Path<String>,
    Body(input): Body<RunInput>,
) -> Answer<Response> {
    let who = &caller.who;
    let thread = Thread { protocol: "ag-ui", agent: &agent, id: &input.thread_id };
    let names =
        Names { thread: input.thread_id.as_str().into(), run: input.run_id.as_str().into() };
    let version = input.version();
    let found = thread.find(&api, who).await?;
    crate::request::text("runId", &input.run_id, 200)?;
    let session = match found {
        Some(session) => session,
        None if input.fresh().is_empty() => {
            return Ok(settled(&names, version, Vec::new(), &[], None));
        }
        None => thread.open(&api, who).await?,
    };
    match about(&api, &caller, &session, &input).await? {
        About::Refused(code, message) => {
            let error = AgEvent::RunError { message, code: code.to_owned(), usage: Vec::new() };
            Ok(still(&[run::started(&names, version), error]))
        }
        About::Still(messages, cards, fork) => {
            Ok(settled(&names, version, messages, &cards, fork.as_ref()))
        }
        About::Regenerate(messages, fork) => Ok(still(&[
            run::started(&names, version),
            AgEvent::MessagesSnapshot { messages },
            fork.refusal(),
        ])),
        About::Turn(begins, since) => {
            let page = Page {
                session: session.key.id.clone(),
                version,
                history: history(&api, &session, Some(&begins.turn)).await?,
                given: input.given().collect(),
                agents: Vec::new(),
                usage: Vec::new(),
            };
            let state = input.state.unwrap_or_default();
            let run = Run::new(names, begins.turn.clone(), page, since, state);
            let until = Some(Until::Settled(begins.turn));
            let (id, after) = (session.key.id.as_str(), Some(begins.after.as_str()));
            let watching = api.watch_as(who, id, after, until, Box::new(run)).await?;
            Ok(event_stream(watching))
        }
    }
}

/// Stop whichever turn of a thread runs or waits. A client that only goes away stops nothing.
#[utoipa::path(
    post, path = "/ag-ui/{agent}/{thread}/stop", tag = "protocols",
    params(
        ("agent" = String, Path, description = "The agent."),
        ("thread" = String, Path, description = "The client's name for the conversation, or a session's id."),
    ),
    responses((status = 200, body = Stopped, description = "It stops, or there was nothing to stop.")),
)]
pub async fn stop_ag_ui(
    State(api): State<Api>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Answer<Json<Stopped>> {
    super::stop(&api, &caller.who, &Thread { protocol: "ag-ui", agent: &agent, id: &id }).await
}

/// Takes what is new, and finds out what to stream.
async fn about(api: &Api, caller: &Caller, session: &Session, input: &RunInput) -> Answer<About> {
    let open = api.open_cards(session).await?;
    let resume = input.resume.as_deref().unwrap_or_default();
    let replies = match replies(api, session, input, resume, &open).await? {
        Ok(replies) => replies,
        Err((code, message)) => return Ok(About::Refused(code, message)),
    };
    let fresh = input.fresh();
    if fresh.len() > FRESH {
        return Err(Problem::too_large("messages", format!("must bring at most {FRESH} at once")));
    }
    let mut new = Vec::new();
    let mut known = None;
    for message in &fresh {
        match api.known(session, message.id).await? {
            None => new.push(message),
            found => known = found,
        }
    }
    let undecided: Vec<&Card> =
        open.iter().filter(|card| asks(card) == Some(Asks::Decision)).collect();
    let answered: BTreeSet<&MessageId> = replies.iter().map(|(card, _)| &card.message.id).collect();
    let left: Vec<&str> = undecided
        .iter()
        .map(|card| &card.message.id)
        .filter(|id| !answered.contains(id))
        .map(MessageId::as_str)
        .collect();
    if !left.is_empty() && (!new.is_empty() || !resume.is_empty()) {
        let what = format!("Answer every open interrupt with `resume`: {}.", left.join(", "));
        return Ok(About::Refused("interrupts_open", what));
    }
    if !replies.is_empty() && !new.is_empty() {
        let what = "Answer first, and send the new message when the run has ended.";
        return Ok(About::Refused("answers_and_message", what.to_owned()));
    }
    if let Some(turn) = replies.first().map(|(card, _)| card.message.turn.clone()) {
        let cards = replies.iter().map(|(card, _)| card.message.id.clone()).collect();
        for (card, reply) in replies {
            api.reply(caller, &card, reply).await?;
        }
        let begins = api.begins(session, turn).await?;
        return Ok(About::Turn(begins, Since::Decision(cards)));
    }
    let answered = known.filter(|known| new.is_empty() && is_answered(session, known));
    let mut begins = None;
    for message in new {
        let turn = input.turn(message)?;
        begins = Some(api.submit_new(&caller.who, session, message.id, turn).await?);
    }
    if let Some((begins, taken)) = begins {
        if taken == Taken::Before && api.is_past(session, &begins.turn).await? {
            return regenerate(api, session, None).await;
        }
        return Ok(About::Turn(begins, Since::Beginning));
    }
    if let Some(known) = &answered
        && known.standing == Standing::Earlier
    {
        return regenerate(api, session, known.place).await;
    }
    match api.moving(session).await? {
        Some(begins) => {
            let question = question(api, session, &begins.turn).await?;
            Ok(About::Turn(begins, Since::Anew(question)))
        }
        None => {
            // Whether its answer was lost or is not wanted, nobody can tell: it is given again, with a word about it.
            let fork = answered.map(|known| fork(session, known.place));
            Ok(About::Still(history(api, session, None).await?, open, fork))
        }
    }
}

/// Whether the turn of a message is over.
fn is_answered(session: &Session, known: &Known) -> bool {
    known.place.is_some() && session.turn.as_ref() != Some(&known.message.turn)
}

fn fork(session: &Session, before: Option<u32>) -> Fork {
    Fork { session: session.key.id.clone(), before }
}

/// The transcript was cut back to a message behind which people have written more.
async fn regenerate(api: &Api, session: &Session, before: Option<u32>) -> Answer<About> {
    let mut messages = history(api, session, None).await?;
    if let Some(begins) = api.moving(session).await? {
        messages.extend(question(api, session, &begins.turn).await?);
    }
    Ok(About::Regenerate(messages, fork(session, before)))
}

type Refusal = (&'static str, String);

/// The answers that the input gives to cards.
async fn replies(
    api: &Api,
    session: &Session,
    input: &RunInput,
    resume: &[Resume],
    open: &[Card],
) -> Answer<Result<Vec<(Card, Reply)>, Refusal>> {
    let mut replies: Vec<(Card, Reply)> = Vec::new();
    for (index, entry) in resume.iter().enumerate() {
        let unknown = || {
            let what = format!("The thread has no interrupt {}.", entry.interrupt_id);
            ("unknown_interrupt", what)
        };
        let Some(card) = api.card_of(session, &entry.card()).await? else {
            return Ok(Err(unknown()));
        };
        let SystemBody::Approval(body) = &card.message.body else { return Ok(Err(unknown())) };
        if replies.iter().any(|(known, _)| known.message.id == card.message.id) {
            return Err(Problem::field(format!("resume[{index}]"), "answers an interrupt again"));
        }
        let reply = match body.asks {
            Asks::Decision => Reply::Decision(entry.decision(index, body)?),
            Asks::ClientResult => return Ok(Err(unknown())),
        };
        replies.push((card, reply));
    }
    for card in open {
        let SystemBody::Approval(body) = &card.message.body else { continue };
        if body.asks == Asks::ClientResult
            && let Some(result) = input.result(&body.call)
        {
            replies.push((card.clone(), Reply::Result(result)));
        }
    }
    Ok(Ok(replies))
}

fn asks(card: &Card) -> Option<Asks> {
    match &card.message.body {
        SystemBody::Approval(body) => Some(body.asks),
        SystemBody::Note { .. } => None,
    }
}

/// The messages before a turn, or all there are.
async fn history(api: &Api, session: &Session, before: Option<&TurnId>) -> Answer<Vec<Value>> {
    let view = api.store().view(&session.key, MESSAGES).await?;
    let earlier = |message: &Message| Some(message.turn()) != before;
    let messages: Vec<Message> = view.messages.into_iter().take_while(earlier).collect();
    Ok(messages::all(&session.key.id, &messages))
}

/// The message that opens a turn.
async fn question(api: &Api, session: &Session, turn: &TurnId) -> Answer<Option<Value>> {
    let known = api.known(session, turn.user_message().as_str()).await?;
    Ok(known.map(|known| messages::of_user(&session.key.id, &known.message)))
}

/// A run in which nothing happens.
fn settled(
    names: &Names,
    version: Version,
    messages: Vec<Value>,
    open: &[Card],
    fork: Option<&Fork>,
) -> Response {
    let outcome = run::waiting(open.iter().map(|card| &card.message));
    let mut events = vec![run::started(names, version), AgEvent::MessagesSnapshot { messages }];
    events.extend(fork.map(Fork::aside));
    events.push(run::finished(names, version, outcome, None, Vec::new()));
    still(&events)
}
