//! What the binary says of itself: logs without secrets, and traces to a collector of our own.

use crate::provider::beside;
use crate::support::{Place, Ran};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use turnbuckle_testkit::chat::ChatAnswer;
use turnbuckle_testkit::{FakeModelServer, Reply};

/// A collector that keeps what it is sent.
struct Collector {
    url: String,
    requests: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let kept = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = n.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                kept.lock()
                    .unwrap()
                    .push((head, ExportTraceServiceRequest::decode(&*body).unwrap()));
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { url, requests }
    }

    fn heads(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(head, _)| head.clone()).collect()
    }

    fn resource(&self) -> BTreeMap<String, String> {
        let requests = self.requests.lock().unwrap();
        let resource = requests[0].1.resource_spans[0].resource.as_ref().unwrap();
        attributes(&resource.attributes)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|(_, request)| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        let mut spans: Vec<_> = scopes.flat_map(|scope| scope.spans.clone()).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(n) => n.to_string(),
        Any::DoubleValue(n) => n.to_string(),
        Any::BoolValue(b) => b.to_string(),
        Any::ArrayValue(all) => {
            format!("[{}]", all.values.iter().map(text).collect::<Vec<_>>().join(","))
        }
        other => panic!("{other:?}"),
    }
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    all.iter().map(|kv| (kv.key.clone(), text(kv.value.as_ref().unwrap()))).collect()
}

fn expect(span: &Span, expected: &[(&str, &str)]) -> BTreeMap<String, String> {
    let found = attributes(&span.attributes);
    for (name, value) in expected {
        assert_eq!(
            found.get(*name).map(String::as_str),
            Some(*value),
            "{name} of {}: {found:#?}",
            span.name
        );
    }
    found
}

/// A model that looks something up and then answers.
async fn model() -> FakeModelServer {
    let server = FakeModelServer::start().await;
    let call = ChatAnswer::new("gpt-real").call("call_1", "list_tasks", r#"{"limit": 2}"#);
    server.enqueue(call.usage(100, 40, 7).stream());
    let answer = ChatAnswer::new("gpt-real").text("Noor works in billing.");
    server.enqueue(answer.usage(120, 90, 5).stream());
    server
}

/// A model whose provider refuses the key, and says which.
async fn refusing() -> FakeModelServer {
    let server = FakeModelServer::start().await;
    // Another key than the one that is configured, which is taken out already where it is used.
    let message = "Incorrect API key provided: sk-other-0123456789";
    server.enqueue(Reply::json(401, &json!({"error": {"message": message}})));
    server
}

async fn ask(place: Place) -> Ran {
    beside(move || place.run(&["run", "Who works in billing?"])).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_traced_by_the_conventions_and_without_what_was_said() {
    let (collector, server) = (Collector::start(), model().await);
    let place = Place::server(&server.base_url())
        .env("OPENAI_API_KEY", "sk-test-0123456789")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme");
    ask(place).await.expect(0);
    let head = &collector.heads()[0];
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    assert!(head.contains("application/x-protobuf") && head.contains("x-tenant: acme"), "{head}");
    assert_eq!(collector.resource()["service.name"], "turnbuckle");

    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["invoke_agent desk", "chat test-model", "execute_tool list_tasks", "chat test-model"]
    );
    let [turn, first, tool, second] = &spans[..] else { panic!("{names:?}") };
    assert_eq!(turn.parent_span_id, [0_u8; 0]);
    for child in [first, tool, second] {
        assert_eq!(child.parent_span_id, turn.span_id, "{}", child.name);
        assert_eq!(child.trace_id, turn.trace_id);
        assert!(child.start_time_unix_nano >= turn.start_time_unix_nano);
        assert!(child.end_time_unix_nano <= turn.end_time_unix_nano);
    }
    assert_eq!(turn.kind, SpanKind::Internal as i32);
    assert_eq!(first.kind, SpanKind::Client as i32);
    let about = expect(
        turn,
        &[
            ("gen_ai.operation.name", "invoke_agent"),
            ("gen_ai.agent.name", "desk"),
            ("gen_ai.usage.input_tokens", "220"),
            ("gen_ai.usage.output_tokens", "12"),
            ("outcome", "completed"),
        ],
    );
    let session = about["gen_ai.conversation.id"].as_str();
    assert!(session.starts_with("s_"), "{session}");
    for (span, step, input, cached, output, reason) in
        [(first, "0", "100", "40", "7", "[tool_call]"), (second, "3", "120", "90", "5", "[stop]")]
    {
        let found = expect(
            span,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.provider.name", "openai"),
                ("gen_ai.request.model", "test-model"),
                ("gen_ai.response.model", "gpt-real"),
                ("gen_ai.conversation.id", session),
                ("gen_ai.usage.input_tokens", input),
                ("gen_ai.usage.cache_read.input_tokens", cached),
                ("gen_ai.usage.output_tokens", output),
                ("gen_ai.response.finish_reasons", reason),
                ("purpose", "step"),
                ("attempt", "1"),
                ("session", session),
                ("turn", &about["turn"]),
            ],
        );
        assert!(step == "0" || found["step"] != "0", "{found:?}");
    }
    expect(
        tool,
        &[
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "list_tasks"),
            ("gen_ai.tool.type", "function"),
            ("gen_ai.conversation.id", session),
        ],
    );
    let all = format!("{spans:?}");
    assert!(!all.contains("billing") && !all.contains("Noor"), "what was said is not traced");
    assert!(!all.contains("sk-test"), "no secret is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_is_traced_when_asked_for_and_a_failure_is_an_error() {
    let collector = Collector::start();
    let server = refusing().await;
    let config = format!("[telemetry]\notlp_endpoint = \"{}/\"\ncontent = true\n", collector.url);
    let place = Place::server(&server.base_url())
        .env("OPENAI_API_KEY", "sk-test-0123456789")
        .config(&config);
    ask(place).await;
    let spans = collector.spans();
    let [turn, chat] = &spans[..] else { panic!("{spans:?}") };
    let found = expect(chat, &[("error.type", "auth"), ("http.response.status_code", "401")]);
    assert!(found["gen_ai.input.messages"].contains("Who works in billing?"), "{found:?}");
    assert!(found["gen_ai.system_instructions"].len() > 20, "{found:?}");
    for span in [turn, chat] {
        let status = span.status.as_ref().unwrap();
        assert_eq!(status.code, 2, "{span:?}");
        assert!(
            status.message.contains("[redacted]") && !status.message.contains("sk-other"),
            "{status:?}"
        );
    }
    assert!(!format!("{spans:?}").contains("0123456789"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_holds_nothing_up() {
    let (server, gone) = (model().await, "http://127.0.0.1:9");
    let place = Place::server(&server.base_url())
        .env("OPENAI_API_KEY", "sk-test-0123456789")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", gone);
    let ran = ask(place).await.expect(0);
    assert!(ran.out.contains("Noor works in billing."), "{}", ran.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_for_people_or_for_machines_and_holds_no_secret() {
    let log = async |format: &str| {
        let server = refusing().await;
        let place = Place::server(&server.base_url())
            .env("OPENAI_API_KEY", "sk-test-0123456789")
            .env("TURNBUCKLE_LOG", "debug")
            .env("TURNBUCKLE_LOG_FORMAT", format);
        ask(place).await.err
    };
    let text = log("text").await;
    let line = text.lines().find(|line| line.contains("model call failed")).unwrap();
    assert!(
        line.contains("DEBUG") && line.contains("session=s_") && line.contains("[redacted]"),
        "{line}"
    );
    let json = log("json").await;
    let line = json.lines().find(|line| line.contains("model call failed")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["level"], &line["span"]), (&"DEBUG".into(), &"chat".into()));
    assert!(line["session"].as_str().unwrap().starts_with("s_"), "{line}");
    assert_eq!(line["step"], 0);
    for log in [text, json] {
        assert!(
            log.lines().filter(|l| l.contains("DEBUG")).all(|l| !l.contains("0123456789")),
            "{log}"
        );
    }
    let wrong = Place::rehearsal().env("TURNBUCKLE_LOG_FORMAT", "xml").run(&["sessions"]);
    assert!(wrong.expect(1).err.contains("must be text or json"));
}
