//! A desk that stands still, an engine on top, and one turn at a time.

use desk::agent::{AGENT, DEFAULT_USER, DeskDomain, DeskStory};
use desk::{Desk, SeedOptions};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle::core::event::{Event, EventKind};
use turnbuckle::core::machine::Decision;
use turnbuckle::core::message::{
    ApprovalCard, AssistantMessage, Surroundings, SystemBody, SystemMessage,
};
use turnbuckle::core::model::{ModelRequest, ModelResponse};
use turnbuckle::core::part::{ToolCallPart, ToolCallStatus};
use turnbuckle::models::scripted::{calls, text};
use turnbuckle::models::{Model, RehearsalModel, ScriptedModel};
use turnbuckle::store::SessionKey;
use turnbuckle::{Engine, Submission, drain};

/// A small desk on Wednesday, 18 November 2026, 09:30 UTC.
pub async fn desk() -> Desk {
    let at = SeedOptions::at("2026-11-18T09:30:00Z".parse().unwrap());
    let small = SeedOptions { threads: 240, contacts: 120, companies: 24, orders: 240, ..at };
    Desk::in_memory(small).await.unwrap()
}

pub struct Rig {
    pub desk: Desk,
    pub engine: Engine,
    pub key: SessionKey,
}

/// What came of a turn, or of what followed a decision.
pub struct Played {
    pub events: Vec<Event>,
}

impl Played {
    pub fn message(&self) -> &AssistantMessage {
        let finished = self.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::AssistantMessageFinished { message } => Some(message),
            _ => None,
        });
        finished.unwrap_or_else(|| panic!("no finished message: {:#?}", self.events.last()))
    }

    /// All text, once the turn is completed.
    pub fn text(&self) -> String {
        assert!(self.is_completed(), "{:#?}", self.events.last());
        self.message().text()
    }

    pub fn is_completed(&self) -> bool {
        matches!(self.events.last().unwrap().kind, EventKind::TurnCompleted { .. })
    }

    /// The cards that wait, with what they ask.
    pub fn cards(&self) -> Vec<(SystemMessage, ApprovalCard)> {
        let cards = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::ApprovalRequired { card } => match &card.body {
                SystemBody::Approval(ask) => Some(((**card).clone(), (**ask).clone())),
                SystemBody::Note { .. } => None,
            },
            _ => None,
        });
        cards.collect()
    }

    /// The one card that waits.
    pub fn card(&self) -> (SystemMessage, ApprovalCard) {
        let mut cards = self.cards();
        assert_eq!(cards.len(), 1, "{:#?}", self.events.last());
        cards.remove(0)
    }

    pub fn calls(&self) -> Vec<ToolCallPart> {
        self.message().calls().cloned().collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.calls().iter().map(|call| call.name.to_string()).collect()
    }

    /// The latest call of a tool.
    pub fn call(&self, tool: &str) -> ToolCallPart {
        let calls = self.calls();
        calls
            .iter()
            .rfind(|call| call.name == *tool)
            .unwrap_or_else(|| panic!("{calls:#?}"))
            .clone()
    }

    /// The result of the latest call of a tool.
    pub fn output(&self, tool: &str) -> Value {
        let call = self.call(tool);
        assert_eq!(call.status, ToolCallStatus::Completed, "{tool}: {:?}", call.error);
        (**call.output.as_ref().unwrap()).clone()
    }

    /// Why the latest call of a tool failed.
    pub fn error(&self, tool: &str) -> String {
        let call = self.call(tool);
        call.error.unwrap_or_else(|| panic!("{tool} gave {:?}", call.output)).message
    }
}

impl Rig {
    pub async fn new(model: impl Model + 'static) -> Self {
        Self::of(model, DEFAULT_USER).await
    }

    pub async fn of(model: impl Model + 'static, user: &str) -> Self {
        let desk = desk().await;
        let domain = DeskDomain::new(desk.clone()).await.unwrap();
        Self::with(desk, domain, model, user).await
    }

    pub async fn with(
        desk: Desk,
        domain: DeskDomain,
        model: impl Model + 'static,
        user: &str,
    ) -> Self {
        let engine = Engine::builder().domain(domain).model(model).build().unwrap();
        Self::on(desk, engine, user).await
    }

    /// A new session on an engine.
    pub async fn on(desk: Desk, engine: Engine, user: &str) -> Self {
        let session = engine.create_session("bramling", user, AGENT).await.unwrap();
        Self { desk, engine, key: session.key }
    }

    /// One turn of a script that calls these tools at once and then stops.
    pub async fn calling(user: &str, tools: &[(&str, Value)]) -> Self {
        Self::of(script(vec![calling(tools), text("Done.")]), user).await
    }

    pub async fn rehearsing() -> Self {
        Self::new(rehearsal()).await
    }

    pub async fn say(&self, submission: impl Into<Submission>) -> Played {
        let submitted = self.engine.submit(&self.key, submission).await.unwrap();
        Played { events: drain(submitted.stream().unwrap()).await }
    }

    pub async fn decide(&self, card: &SystemMessage, decision: Decision) -> Played {
        let by = Some(DEFAULT_USER.into());
        let submitted = self.engine.decide(&self.key, &card.id, decision, by).await.unwrap();
        Played { events: drain(submitted.stream().unwrap()).await }
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.desk.pool()).await.unwrap()
    }

    pub async fn find(&self, sql: &'static str) -> String {
        sqlx::query_scalar(sql).fetch_one(self.desk.pool()).await.unwrap()
    }
}

pub fn approve(amendment: Option<Value>) -> Decision {
    Decision::Approve { amendment: amendment.map(Into::into), reason: None, remember: None }
}

pub fn reject(reason: &str) -> Decision {
    Decision::Reject { reason: Some(reason.to_owned()) }
}

pub fn rehearsal() -> RehearsalModel {
    RehearsalModel::new(Arc::new(DeskStory::new())).with_pace(Duration::ZERO)
}

pub fn script(answers: Vec<ModelResponse>) -> ScriptedModel {
    ScriptedModel::new("script", answers)
}

/// An answer that calls these tools at once.
pub fn calling(tools: &[(&str, Value)]) -> ModelResponse {
    let args: Vec<(String, &str, String)> = tools
        .iter()
        .enumerate()
        .map(|(index, (tool, args))| (format!("c{index}"), *tool, args.to_string()))
        .collect();
    let borrowed: Vec<(&str, &str, &str)> =
        args.iter().map(|(id, tool, args)| (id.as_str(), *tool, args.as_str())).collect();
    calls(&borrowed)
}

/// A message from a page with references.
pub fn from_page(words: &str, page: &str, references: &[Value]) -> Submission {
    let references = references.iter().cloned().map(Into::into).collect();
    let mut submission = Submission::new(words);
    submission.surroundings =
        Surroundings { page: Some(page.to_owned()), references, ..Surroundings::default() };
    submission
}

/// The tools a request offers.
pub fn offered(request: &ModelRequest) -> Vec<String> {
    request.tools.specs.iter().map(|spec| spec.name.to_string()).collect()
}

/// The system prompt of a request.
pub fn prompt(request: &ModelRequest) -> String {
    request.system.iter().map(|block| &*block.text).collect::<Vec<_>>().join("\n\n")
}

/// A model whose requests can be looked at after the engine took it.
pub struct Watched(pub Arc<ScriptedModel>);

impl Model for Watched {
    fn id(&self) -> &turnbuckle::core::model::ModelRef {
        self.0.id()
    }

    fn info(&self) -> &turnbuckle::models::ModelInfo {
        self.0.info()
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn turnbuckle::models::DeltaSink + 'a),
    ) -> futures_util::future::BoxFuture<'a, Result<ModelResponse, turnbuckle::models::CallFailure>>
    {
        self.0.call(request, sink)
    }
}

pub fn watched(answers: Vec<ModelResponse>) -> (Watched, Arc<ScriptedModel>) {
    let model = Arc::new(script(answers));
    (Watched(model.clone()), model)
}
