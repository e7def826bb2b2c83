//! The fake model server.

use crate::reply::{Reply, ReplyBody};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A request as it came in.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedRequest {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl CapturedRequest {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header's value; empty when it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

type Responder = Arc<dyn Fn(&CapturedRequest) -> Reply + Send + Sync>;

#[derive(Default)]
struct Script {
    queue: VecDeque<Reply>,
    fallback: Option<Responder>,
    requests: Vec<CapturedRequest>,
}

/// What a test can wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    connections: usize,
    requests: usize,
    open: usize,
    most_open: usize,
    finished: usize,
    abandoned: usize,
}

struct Shared {
    script: Mutex<Script>,
    counts: watch::Sender<Counts>,
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server on a free loopback port that answers by script and keeps every request. It ends when it is dropped.
pub struct FakeModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl FakeModelServer {
    /// Starts a server with an empty queue. A request that finds neither a queued answer nor a fallback gets 599.
    ///
    /// # Panics
    /// When no loopback port can be had.
    #[allow(clippy::expect_used, reason = "a test without a server cannot go on")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared {
            script: Mutex::default(),
            counts: watch::Sender::new(Counts::default()),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared.clone()));
        Self { address, shared, _tasks: tasks }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL of an OpenAI-compatible API, `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Queues an answer; requests take them in order.
    pub fn enqueue(&self, reply: Reply) {
        self.shared.script().queue.push_back(reply);
    }

    /// Answers requests that find the queue empty.
    pub fn otherwise(&self, responder: impl Fn(&CapturedRequest) -> Reply + Send + Sync + 'static) {
        self.shared.script().fallback = Some(Arc::new(responder));
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<CapturedRequest> {
        self.shared.script().requests.clone()
    }

    /// Waits until `count` requests have arrived and gives them all.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<CapturedRequest> {
        self.wait(|c| c.requests >= count).await;
        self.requests()
    }

    /// Waits until `count` answers were given up because the client closed the connection.
    pub async fn wait_for_abandoned(&self, count: usize) {
        self.wait(|c| c.abandoned >= count).await;
    }

    /// Waits until `count` answers have been sent to their end (a cut is an end).
    pub async fn wait_for_finished(&self, count: usize) {
        self.wait(|c| c.finished >= count).await;
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.counts.borrow().connections
    }

    /// Answers being sent now.
    pub fn open(&self) -> usize {
        self.shared.counts.borrow().open
    }

    /// The most answers that were ever open at once.
    pub fn most_open(&self) -> usize {
        self.shared.counts.borrow().most_open
    }

    async fn wait(&self, done: impl Fn(&Counts) -> bool) {
        // The sender lives as long as `self`.
        let _ = self.shared.counts.subscribe().wait_for(|c| done(c)).await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
            Some(_) = connections.join_next() => continue,
        };
        let _ = stream.set_nodelay(true);
        shared.counts.send_modify(|c| c.connections += 1);
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(shared.clone(), request));
            let http = hyper::server::conn::http1::Builder::new();
            // Broken connections are what tests are about; the counts tell of them.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<CountedBody>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let path = head.uri.path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default();
    let captured =
        CapturedRequest { method: head.method.to_string(), path, headers: head.headers, body };
    let (queued, fallback) = {
        let mut script = shared.script();
        script.requests.push(captured.clone());
        let queued = script.queue.pop_front();
        (queued, script.fallback.clone())
    };
    let reply = match (queued, fallback) {
        (Some(reply), _) => reply,
        (None, Some(responder)) => responder(&captured),
        (None, None) => Reply::status(599).send("the test queued no answer for this request"),
    };
    // The guard counts an answer as abandoned when it is dropped before its end, even before its head.
    let open = Open::new(shared);
    if let Some(gate) = &reply.head_gate {
        gate.wait().await;
    }
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let body = CountedBody { body: reply.into_body(), open };
    Ok(response.body(body).unwrap_or_else(|error| {
        let open = Open::new(Arc::new(Shared {
            script: Mutex::default(),
            counts: watch::Sender::new(Counts::default()),
        }));
        let body = Reply::status(599).send(format!("bad reply in the test: {error}")).into_body();
        let mut response = Response::new(CountedBody { body, open });
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    }))
}

/// Counts an answer while it is open.
struct Open {
    shared: Arc<Shared>,
    finished: bool,
}

impl Open {
    fn new(shared: Arc<Shared>) -> Self {
        shared.counts.send_modify(|c| {
            c.requests += 1;
            c.open += 1;
            c.most_open = c.most_open.max(c.open);
        });
        Self { shared, finished: false }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let finished = self.finished;
        self.shared.counts.send_modify(|c| {
            c.open -= 1;
            if finished {
                c.finished += 1;
            } else {
                c.abandoned += 1;
            }
        });
    }
}

struct CountedBody {
    body: ReplyBody,
    open: Open,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.open.finished = true;
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
