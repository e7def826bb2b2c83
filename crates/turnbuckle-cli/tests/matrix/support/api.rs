//! A client of the HTTP API, and what must hold of every session that came to rest.

use super::{Script, soon, until};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use turnbuckle::core::event::{Event, EventKind};
use turnbuckle::core::fold::TurnFold;
use turnbuckle::core::message::{AssistantMessage, Message, MessageState};
use turnbuckle::core::outcome::Outcome;
use turnbuckle::core::part::{ToolCallPart, ToolCallStatus};

/// A replica, as its clients see it.
#[derive(Clone)]
pub struct Api {
    base: String,
    client: reqwest::Client,
}

/// A session at rest: everything that is stored of it, after it was found to be sound.
pub struct Session {
    pub events: Vec<Event>,
    /// The events as they are stored.
    pub lines: Vec<String>,
    pub messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

impl Api {
    pub fn at(base: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { base: base.to_owned(), client }
    }

    /// With an API key.
    pub fn with_key(base: &str, key: &str) -> Self {
        let headers = [(reqwest::header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap())];
        let client = reqwest::Client::builder().no_proxy();
        let client = client.default_headers(headers.into_iter().collect()).build().unwrap();
        Self { base: base.to_owned(), client }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// A new session; its id.
    pub async fn session(&self) -> String {
        let (status, session) = self.post("/v1/sessions", &json!({})).await;
        assert_eq!(status, StatusCode::CREATED, "{session}");
        session["id"].as_str().unwrap().to_owned()
    }

    /// Submits what the model shall do; the turn's id.
    pub async fn submit(&self, session: &str, script: &Script) -> String {
        let path = format!("/v1/sessions/{session}/turns");
        let (status, submitted) = self.post(&path, &json!({"content": script.message()})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{submitted}");
        submitted["turn"].as_str().unwrap().to_owned()
    }

    /// The cards of a session that wait.
    pub async fn cards(&self, session: &str) -> Vec<Value> {
        let (_, page) = self.get(&format!("/v1/approvals?session={session}")).await;
        page["items"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
    }

    /// The only card of a session, once it waits.
    pub async fn card(&self, session: &str) -> String {
        let card = until("a card", async || self.cards(session).await.into_iter().next()).await;
        card["id"].as_str().unwrap().to_owned()
    }

    pub async fn approve(&self, card: &str) -> (StatusCode, Value) {
        self.post(&format!("/v1/approvals/{card}"), &json!({"decision": "approve"})).await
    }

    /// Whether requests can be served, and what is wrong.
    pub async fn ready(&self) -> (StatusCode, Vec<String>) {
        let (status, body) = self.get("/readyz").await;
        (status, serde_json::from_value(body["problems"].clone()).unwrap())
    }

    /// Watches a session from behind a place.
    pub async fn watch(&self, session: &str, after: &str, until: Option<&str>) -> Sse {
        let until = until.map(|until| format!("&until={until}")).unwrap_or_default();
        let path = format!("/v1/sessions/{session}/events?after={after}{until}");
        Sse::open(self.request(Method::GET, &path)).await.unwrap()
    }

    /// The session's row.
    pub async fn row(&self, session: &str) -> Value {
        let (status, detail) = self.get(&format!("/v1/sessions/{session}?messages=1")).await;
        assert_eq!(status, StatusCode::OK, "{detail}");
        detail["session"].clone()
    }

    /// Waits until nothing runs and nothing waits in a session, and checks all that must hold of it then.
    pub async fn at_rest(&self, session: &str) -> Session {
        let rest = async {
            loop {
                self.watch(session, "0", Some("idle")).await.rest().await;
                let row = self.row(session).await;
                if row["status"] != "running" && row["pending"] == 0 {
                    return;
                }
            }
        };
        soon("the session comes to rest", rest).await;
        self.stored(session).await
    }

    /// The stored events, word for word.
    pub async fn stored_events(&self, session: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut after = Some("0".to_owned());
        while let Some(place) = after {
            let path = format!("/v1/sessions/{session}/events?after={place}&limit=1000");
            let request = self.request(Method::GET, &path).header("accept", "application/json");
            let page: Page = request.send().await.unwrap().json().await.unwrap();
            lines.extend(page.items.iter().map(|item| item.get().to_owned()));
            after = page.next;
        }
        lines
    }

    /// What is stored of a session, after it was found to be sound: events without a gap, which fold to the stored messages
    /// byte for byte; every call of an ended turn settled; no call id twice.
    pub async fn stored(&self, session: &str) -> Session {
        let lines = self.stored_events(session).await;
        let events: Vec<Event> = lines.iter().map(|l| serde_json::from_str(l).unwrap()).collect();
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
        let path = format!("/v1/sessions/{session}?messages=1000");
        let detail = self.request(Method::GET, &path).send().await.unwrap().bytes().await.unwrap();
        #[derive(Deserialize)]
        struct Detail {
            messages: Vec<Box<RawValue>>,
        }
        let detail: Detail = serde_json::from_slice(&detail).unwrap();
        let kept: BTreeSet<String> = detail.messages.iter().map(|m| m.get().to_owned()).collect();
        let messages: Vec<Message> =
            detail.messages.iter().map(|m| serde_json::from_str(m.get()).unwrap()).collect();
        let told = folded(&events);
        let told: BTreeSet<String> =
            told.iter().map(|message| serde_json::to_string(message).unwrap()).collect();
        assert_eq!(kept, told, "what was told is not what is stored");
        let found = Session { events, lines, messages };
        let mut ids = BTreeSet::new();
        for message in found.answers() {
            if matches!(message.state, MessageState::Finished { .. }) {
                for call in message.calls() {
                    assert!(call.status.is_settled(), "{call:?}");
                    assert!(ids.insert(call.id.clone()), "{call:?} is there twice");
                }
            }
        }
        found
    }
}

impl Session {
    /// The agent's messages, one for each turn.
    pub fn answers(&self) -> impl Iterator<Item = &AssistantMessage> {
        self.messages.iter().filter_map(|message| match message {
            Message::Assistant(message) => Some(&**message),
            _ => None,
        })
    }

    /// The last message of the agent.
    pub fn answer(&self) -> &AssistantMessage {
        self.answers().last().expect("an answer")
    }

    /// How the last turn ended.
    pub fn outcome(&self) -> Outcome {
        match &self.answer().state {
            MessageState::Finished { outcome } => outcome.clone(),
            other => panic!("the turn is {other:?}"),
        }
    }

    /// The call about a thing.
    pub fn call(&self, id: &str) -> &ToolCallPart {
        let about = |call: &&ToolCallPart| serde_json::to_value(call).unwrap()["args"]["id"] == id;
        let found: Vec<_> = self.answers().flat_map(|m| m.calls()).filter(about).collect();
        assert_eq!(found.len(), 1, "calls about {id}: {found:?}");
        found[0]
    }

    /// How the call about a thing ended: its status, and the code of its error.
    pub fn ended(&self, id: &str) -> (ToolCallStatus, Option<String>) {
        let call = self.call(id);
        let code = call.error.as_ref().map(|error| serde_json::to_value(error.code).unwrap());
        (call.status, code.map(|code| code.as_str().unwrap().to_owned()))
    }

    /// How often turns were taken up again.
    pub fn epochs(&self) -> u32 {
        self.events.iter().map(|event| event.epoch).max().unwrap_or(0)
    }

    /// Whether a call was found ended by its first owner.
    pub fn ended_in_epoch(&self, call: &ToolCallPart, epoch: u32) -> bool {
        self.events.iter().filter(|event| event.epoch == epoch).any(|event| match &event.kind {
            EventKind::ToolCallCompleted { call: id, .. } => *id == call.id,
            _ => false,
        })
    }
}

async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = soon("an answer", request.send()).await.unwrap();
    let status = response.status();
    let body = soon("an answer's body", response.bytes()).await.unwrap();
    let text = || String::from_utf8_lossy(&body).into_owned();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| Value::String(text())))
}

/// What the events of turns fold to.
pub fn folded(events: &[Event]) -> Vec<Message> {
    let mut turns: BTreeMap<String, TurnFold> = BTreeMap::new();
    for event in events {
        let fold = turns.entry(event.turn.to_string()).or_default();
        fold.apply(event.at, &event.kind).unwrap();
    }
    let mut messages = Vec::new();
    for fold in turns.into_values() {
        messages.extend(fold.user.map(Message::User));
        messages.extend(fold.assistant.map(|m| Message::Assistant(Box::new(m))));
        messages.extend(fold.cards.into_iter().map(Message::System));
    }
    messages
}

/// A frame of an event stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

impl Frame {
    /// Whether it is an event of the session.
    pub fn is_event(&self) -> bool {
        self.event.is_none() && !self.data.is_empty()
    }
}

/// An event stream being read.
pub struct Sse {
    chunks: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: Vec<u8>,
    frames: VecDeque<Frame>,
}

impl Sse {
    /// Opens one.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn open(request: RequestBuilder) -> reqwest::Result<Self> {
        let request = request.header("accept", "text/event-stream");
        let response = soon("a stream begins", request.send()).await?;
        assert_eq!(response.status(), StatusCode::OK);
        let chunks = response.bytes_stream().boxed();
        Ok(Self { chunks, text: Vec::new(), frames: VecDeque::new() })
    }

    /// The next frame; `None` at the end, or when the connection broke.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let chunk = soon("something on a stream", self.chunks.next()).await?.ok()?;
            self.take(&chunk);
        }
    }

    /// The next frame, if it comes within the time.
    pub async fn next_within(&mut self, time: Duration) -> Option<Frame> {
        tokio::time::timeout(time, self.next()).await.ok().flatten()
    }

    fn take(&mut self, chunk: &[u8]) {
        let searched = self.text.len().saturating_sub(1);
        self.text.extend_from_slice(chunk);
        let (mut begin, mut at) = (0, searched);
        while let Some(found) = self.text[at..].windows(2).position(|w| w == b"\n\n") {
            let end = at + found;
            let frame = parse(std::str::from_utf8(&self.text[begin..end]).unwrap());
            self.frames.extend(frame);
            (begin, at) = (end + 2, end + 2);
        }
        self.text.drain(..begin);
    }

    /// All to the end of the stream.
    pub async fn rest(mut self) -> Vec<Frame> {
        let mut all = Vec::new();
        while let Some(frame) = self.next().await {
            all.push(frame);
        }
        all
    }

    /// Reads until an event of this type came.
    pub async fn until(&mut self, kind: &str) -> Frame {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("no {kind} came"));
            let is = match &frame.event {
                Some(event) => event == kind,
                None => frame.data.contains(&format!("\"type\":\"{kind}\"")),
            };
            if is {
                return frame;
            }
        }
    }
}

fn parse(block: &str) -> Option<Frame> {
    let mut frame = Frame::default();
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => frame.id = Some(id.to_owned()),
            Some(("event", event)) => frame.event = Some(event.to_owned()),
            Some(("data", data)) => frame.data = data.to_owned(),
            Some(("retry" | "", _)) => {}
            _ => panic!("{line:?}"),
        }
    }
    (frame != Frame::default()).then_some(frame)
}
