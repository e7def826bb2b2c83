//! A site: a server on loopback with all that belongs to it, and a client for it.

#![allow(dead_code, reason = "what the tests of tokens and owners stand on")]

use futures_util::StreamExt;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, MemoryBus};
use turnbuckle_core::event::Event;
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::message::Message;
use turnbuckle_core::model::{ModelRef, ModelResponse};
use turnbuckle_core::usage::Usage;
use turnbuckle_engine::pipeline::{Policy, PolicyDecision, Rule};
use turnbuckle_engine::runtime::Models;
use turnbuckle_engine::tool::{
    Clock, FnTool, Resources, ToolContext, ToolContract, ToolOutput, ToolUsage,
};
use turnbuckle_engine::{Agent, Agents, Engine};
use turnbuckle_macros::tool;
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls};
use turnbuckle_server::accounts::{Accounts, SqliteAccounts};
use turnbuckle_server::auth::Authenticator;
use turnbuckle_server::auth::jwt::Tokens;
use turnbuckle_server::auth::keys::{self, Key};
use turnbuckle_server::auth::principal::Principal;
use turnbuckle_server::config::ApiOptions;
use turnbuckle_server::dto::{ModelInUse, Role};
use turnbuckle_server::metrics::Metrics;
use turnbuckle_server::quota::{self, QuotaRule, Quotas};
use turnbuckle_server::worker::{Worker, WorkerOptions};
use turnbuckle_server::{Api, server};
use turnbuckle_store::{Jobs, SqliteStore, Store};
use turnbuckle_testkit::Gate;

/// What tools did to the world.
#[derive(Clone, Default)]
pub struct World {
    log: Arc<Mutex<Vec<String>>>,
    /// Holds back the tool `wait`.
    pub gate: Gate,
    /// Is opened by the tool `wait` when it begins.
    pub begun: Gate,
}

impl World {
    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    pub fn all(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Thing {
    /// What to look for.
    key: String,
}

/// Looks a thing up.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
async fn look_up(args: Thing, ctx: ToolContext) -> Result<Value, String> {
    ctx.resource::<World>().map_err(|e| e.to_string())?.note(format!("look_up {}", args.key));
    Ok(json!({"key": args.key, "value": args.key.len()}))
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    /// In cents.
    amount: u64,
}

/// Pays money.
#[tool(crate = turnbuckle_engine, approval = "always", amendable = Payment)]
async fn pay(args: Payment, ctx: ToolContext) -> Result<Value, String> {
    ctx.resource::<World>().map_err(|e| e.to_string())?.note(format!("pay {}", args.amount));
    Ok(json!({"paid": args.amount}))
}

/// Pays money, if somebody says so at once.
#[tool(crate = turnbuckle_engine, approval = "always")]
async fn pay_at_once(args: Payment, ctx: ToolContext) -> Result<Value, String> {
    ctx.resource::<World>().map_err(|e| e.to_string())?.note(format!("pay {}", args.amount));
    Ok(json!({"paid": args.amount}))
}

/// Waits until it may go on.
#[tool(crate = turnbuckle_engine)]
async fn wait(ctx: ToolContext) -> Result<Value, String> {
    let world = ctx.resource::<World>().map_err(|e| e.to_string())?.clone();
    world.note("wait begins".into());
    world.begun.open();
    world.gate.wait().await;
    world.note("wait ends".into());
    Ok(json!("waited"))
}

/// Starts a report and does not wait for it.
#[tool(crate = turnbuckle_engine)]
async fn start_report(ctx: ToolContext) -> Result<ToolOutput, String> {
    ctx.resource::<World>().map_err(|e| e.to_string())?.note("start_report".into());
    let mut output = ToolOutput::json(json!("started"));
    output.directives.task = Some(("report".into(), "r/1".into()));
    Ok(output)
}

/// Asks a model of its own.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
async fn ask_around(ctx: ToolContext) -> Result<Value, String> {
    let usage = Usage { input: Some(3), output: Some(4), ..Usage::default() };
    let model = ModelRef::new("scripted", "small");
    ctx.meter(ToolUsage { model, usage, cost_micros: Some(9) });
    Ok(json!("nobody knows"))
}

fn read_screen() -> FnTool {
    FnTool::elsewhere(ToolContract::new("read_screen").description("Reads the screen.").on_client())
}

/// Has a nested agent do it, which has a tool of the front end.
fn ask_helper() -> FnTool {
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    let contract = ToolContract::new("ask_helper").description("Hands a task to the helper.");
    FnTool::elsewhere(contract.input_schema(schema).on_agent("helper"))
}

/// A call of a tool.
pub fn calling(tool: &str, args: Value) -> ModelResponse {
    calls(&[("c", tool, &args.to_string())])
}

/// Collects what makes a [`Site`].
pub struct SiteBuilder {
    answers: Vec<Scripted>,
    keys: bool,
    tokens: Option<Tokens>,
    worker: Option<WorkerOptions>,
    pub options: ApiOptions,
    pieces: usize,
    policy: Policy,
}

/// A server with all that belongs to it.
pub struct Site {
    pub base: String,
    pub api: Api,
    pub store: Arc<dyn Store>,
    pub jobs: Arc<dyn Jobs>,
    pub bus: Arc<dyn Bus>,
    pub accounts: Arc<dyn Accounts>,
    pub world: World,
    pub model: Arc<ScriptedModel>,
    pub engine: Engine,
    worker: Option<Worker>,
    policy: Policy,
    stop: CancellationToken,
    client: reqwest::Client,
    _folder: TempDir,
}

pub fn site<S: Into<Scripted>>(answers: impl IntoIterator<Item = S>) -> SiteBuilder {
    let model = ModelInUse { id: "scripted:m".into(), rehearsal: true, why: "a test".into() };
    let mut options = ApiOptions::new(model);
    options.default_agent = Some("main".into());
    options.limits.requests_per_second = 0;
    SiteBuilder {
        answers: answers.into_iter().map(Into::into).collect(),
        keys: false,
        tokens: None,
        worker: Some(quick()),
        options,
        pieces: 12,
        policy: Policy::default(),
    }
}

/// A worker that looks for work all the time, for tests without a second to spare.
pub fn quick() -> WorkerOptions {
    WorkerOptions {
        poll: Duration::from_millis(50),
        grace: Duration::from_secs(5),
        tool_grace: Duration::from_millis(50),
        ..WorkerOptions::default()
    }
}

impl SiteBuilder {
    /// Every request needs a key.
    pub fn with_keys(mut self) -> Self {
        self.keys = true;
        self
    }

    /// Every request needs a key or a token.
    pub fn with_tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self.with_keys()
    }

    /// No worker yet.
    pub fn without_worker(mut self) -> Self {
        self.worker = None;
        self
    }

    /// How long the worker lets turns go on when it ends.
    pub fn worker_grace_ms(mut self, ms: u64) -> Self {
        self.worker = self.worker.map(|w| WorkerOptions { grace: Duration::from_millis(ms), ..w });
        self
    }

    /// A person is asked about every call of these tools.
    pub fn asking_about(mut self, tools: &[&str]) -> Self {
        let ask = |tool: &&str| Rule::tool(*tool, PolicyDecision::Ask);
        self.policy = Policy::new(tools.iter().map(ask));
        self
    }

    /// Streams in deltas of so many characters.
    pub fn in_pieces_of(mut self, characters: usize) -> Self {
        self.pieces = characters;
        self
    }

    pub fn options(mut self, change: impl FnOnce(&mut ApiOptions)) -> Self {
        change(&mut self.options);
        self
    }

    pub async fn start(self) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let opened = SqliteStore::open(folder.path().join("turnbuckle.db")).await.unwrap();
        let jobs: Arc<dyn Jobs> = Arc::new(opened.clone());
        let store: Arc<dyn Store> = Arc::new(opened);
        let accounts: Arc<dyn Accounts> =
            Arc::new(SqliteAccounts::open(folder.path().join("accounts.db")).await.unwrap());
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let model = Arc::new(ScriptedModel::new("m", self.answers).in_pieces_of(self.pieces));
        let world = World::default();
        let quotas = self.options.quotas.clone();
        let engine = engine(&model, &store, &world, &quotas, &self.policy, "site");
        let auth = match self.keys {
            false => Authenticator::Open(Principal::local("acme", "ada")),
            true => Authenticator::Required {
                accounts: accounts.clone(),
                jwt: self.tokens.map(Box::new),
            },
        };
        let metrics = Metrics::new();
        let api = Api::new(
            engine.clone(),
            bus.clone(),
            accounts.clone(),
            auth,
            metrics.clone(),
            self.options,
        )
        .with_jobs(jobs.clone());
        let stop = CancellationToken::new();
        let base = listen(&api, &stop).await;
        let worker = self.worker.map(|o| {
            Worker::start_with_jobs(engine.clone(), bus.clone(), metrics, o, jobs.clone())
        });
        Site {
            base,
            api,
            store,
            jobs,
            bus,
            accounts,
            world,
            model,
            engine,
            worker,
            policy: self.policy,
            stop,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            _folder: folder,
        }
    }
}

fn engine(
    model: &Arc<ScriptedModel>,
    store: &Arc<dyn Store>,
    world: &World,
    quotas: &[QuotaRule],
    policy: &Policy,
    name: &str,
) -> Engine {
    let clock = Clock::system();
    let now = clock.clone();
    let quotas = Quotas::new(store.clone(), quotas.to_vec());
    let agent = Agent::builder("main")
        .instructions("Be brief.")
        .tool(look_up())
        .tool(pay())
        .tool(pay_at_once().configure(|c| c.expires_after(Duration::from_millis(1))))
        .tool(wait())
        .tool(start_report())
        .tool(ask_around())
        .tool(read_screen())
        .tool(ask_helper())
        .build()
        .unwrap();
    let helper = Agent::builder("helper").tool(read_screen()).tool(pay()).build().unwrap();
    let resources = Resources::new().with(world.clone());
    Engine::builder()
        .domain(Agents::new([agent, helper]).with_resources(resources))
        .models(Models::new(model.clone()))
        .shared_store(store.clone())
        .clock(clock)
        .policy(policy.clone())
        .wrap_models(quota::gate(quotas, move || now.now()))
        .lease(Duration::from_secs(2))
        .name(name)
        .build()
        .unwrap()
}

async fn listen(api: &Api, stop: &CancellationToken) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let serving = server::serve(listener, turnbuckle_server::router(api), stop.clone());
    tokio::spawn(serving);
    base
}

impl Site {
    /// Another server on the same store and bus; its address.
    pub async fn replica(&self) -> String {
        listen(&self.api, &self.stop).await
    }

    /// Starts the worker that was not started before.
    pub fn start_worker(&mut self, name: &str) {
        let engine = engine(&self.model, &self.store, &self.world, &[], &self.policy, name);
        let metrics = self.api.metrics().clone();
        let (bus, jobs) = (self.bus.clone(), self.jobs.clone());
        self.worker = Some(Worker::start_with_jobs(engine, bus, metrics, quick(), jobs));
    }

    /// Stops the worker as a shutdown would.
    pub async fn stop_worker(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stop().await;
        }
    }

    /// A key; its secret.
    pub async fn key(&self, tenant: &str, user: &str, roles: &[Role]) -> String {
        self.named_key(&format!("k_{tenant}_{user}_{}", roles.len()), tenant, user, roles).await
    }

    /// A key of this id; its secret.
    pub async fn named_key(&self, id: &str, tenant: &str, user: &str, roles: &[Role]) -> String {
        let secret = keys::new_secret().unwrap();
        let key = Key {
            id: id.to_owned(),
            tenant: tenant.into(),
            user: user.into(),
            name: "test".into(),
            roles: roles.iter().copied().collect(),
            created: self.api.now(),
            expires_at: None,
            revoked_at: None,
        };
        self.accounts.add_key(&key, keys::hash(&secret)).await.unwrap();
        secret
    }

    /// Waits until something is so.
    pub async fn until(&self, mut so: impl AsyncFnMut() -> bool) {
        let all = async {
            while !so().await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all).await.expect("it never came to be so");
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Value {
        answer(self.request(Method::GET, path)).await.1
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    /// A new session; its id.
    pub async fn session(&self) -> String {
        let (status, session) = self.post("/v1/sessions", json!({})).await;
        assert_eq!(status, StatusCode::CREATED, "{session}");
        session["id"].as_str().unwrap().to_owned()
    }

    /// Submits a message.
    pub async fn submit(&self, session: &str, text: &str) -> Value {
        let path = format!("/v1/sessions/{session}/turns");
        let (status, submitted) = self.post(&path, json!({"content": text})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{submitted}");
        submitted
    }

    /// Gives a session a title.
    pub async fn rename(&self, session: &str, title: &str) {
        let request = self.request(Method::PATCH, &format!("/v1/sessions/{session}"));
        let (status, renamed) = answer(request.json(&json!({"title": title}))).await;
        assert_eq!((status, &renamed["title"]), (StatusCode::OK, &json!(title)));
    }

    /// Watches a session.
    pub async fn watch(&self, session: &str, query: &str) -> Sse {
        self.watch_at(&self.base, session, query).await
    }

    pub async fn watch_at(&self, base: &str, session: &str, query: &str) -> Sse {
        let url = format!("{base}/v1/sessions/{session}/events?{query}");
        Sse::open(self.client.get(url)).await
    }

    /// Submits a message and watches its turn to the end.
    pub async fn say(&self, session: &str, text: &str) -> Vec<Frame> {
        let submitted = self.submit(session, text).await;
        let (after, turn) = (submitted["after"].as_str(), submitted["turn"].as_str());
        let query = format!("after={}&until={}", after.unwrap(), turn.unwrap());
        self.watch(session, &query).await.rest().await
    }

    /// The only card that waits.
    pub async fn card(&self) -> Value {
        let page = self.get("/v1/approvals").await;
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
        page["items"][0].clone()
    }

    pub async fn stored(&self, session: &str) -> Vec<Event> {
        let key = turnbuckle_core::ids::SessionKey::new("acme", session);
        self.store.events(&key, 0, 10_000).await.unwrap()
    }

    /// The messages as the API gives them.
    pub async fn messages(&self, session: &str) -> Vec<Message> {
        let detail = self.get(&format!("/v1/sessions/{session}")).await;
        serde_json::from_value(detail["messages"].clone()).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.api.shutdown().cancel();
        self.stop.cancel();
    }
}

pub async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let body = response.bytes().await.unwrap();
    let value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body)
            .unwrap_or_else(|_| panic!("{:?}", String::from_utf8_lossy(&body)))
    };
    (status, value)
}

/// A frame of an event stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

impl Frame {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }

    /// The event of the session, if it is one.
    pub fn event(&self) -> Option<Event> {
        if self.event.is_some() { None } else { Some(serde_json::from_str(&self.data).unwrap()) }
    }
}

/// An event stream being read.
pub struct Sse {
    pub response: Option<Response>,
    chunks: futures_util::stream::BoxStream<'static, Vec<u8>>,
    text: Vec<u8>,
    frames: VecDeque<Frame>,
    pub comments: usize,
}

impl Sse {
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.header("accept", "text/event-stream").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let chunks =
            response.bytes_stream().map(|chunk| chunk.map(|c| c.to_vec()).unwrap_or_default());
        Self {
            response: None,
            chunks: chunks.boxed(),
            text: Vec::new(),
            frames: VecDeque::new(),
            comments: 0,
        }
    }

    /// The next frame; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            self.text.extend(self.chunks.next().await?);
            while let Some(end) = self.text.windows(2).position(|w| w == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                self.frame(std::str::from_utf8(&block).unwrap());
            }
        }
    }

    fn frame(&mut self, block: &str) {
        let mut frame = Frame::default();
        for line in block.lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("", _)) => self.comments += 1,
                Some(("id", id)) => frame.id = Some(id.to_owned()),
                Some(("event", event)) => frame.event = Some(event.to_owned()),
                Some(("data", data)) => frame.data = data.to_owned(),
                Some(("retry", _)) => {}
                _ => panic!("{line:?}"),
            }
        }
        if frame != Frame::default() {
            self.frames.push_back(frame);
        }
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
                None => frame.json()["type"] == kind,
            };
            if is {
                return frame;
            }
        }
    }
}

/// The session's events among frames.
pub fn events(frames: &[Frame]) -> Vec<Event> {
    frames.iter().filter_map(Frame::event).collect()
}

/// The types of frames, in order; runs of the same type once.
pub fn shape(frames: &[Frame]) -> Vec<String> {
    let mut shape: Vec<String> = frames
        .iter()
        .map(|frame| match &frame.event {
            Some(event) => event.clone(),
            None => frame.json()["type"].as_str().unwrap().to_owned(),
        })
        .collect();
    shape.dedup();
    shape
}

/// What the events of a turn fold to.
pub fn folded(events: &[Event]) -> Vec<Message> {
    let mut fold = TurnFold::default();
    for event in events {
        fold.apply(event.at, &event.kind).unwrap();
    }
    let mut messages: Vec<Message> = fold.user.map(Message::User).into_iter().collect();
    messages.extend(fold.assistant.map(|m| Message::Assistant(Box::new(m))));
    messages.extend(fold.cards.into_iter().map(Message::System));
    messages
}
