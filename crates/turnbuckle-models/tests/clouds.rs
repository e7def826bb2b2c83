//! Azure, Bedrock and Vertex: where they are, what their requests look like, how tokens are had.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{ask, ask_by_name, fake_tokens};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_models::config::{AuthConfig, ConfigError};
use turnbuckle_models::{Endpoint, ProviderConfig};
use turnbuckle_testkit::chat::{ChatAnswer, frame};
use turnbuckle_testkit::{FakeModelServer, Reply, event};

fn place(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

fn env<'e>(values: &'e [(&'e str, &'e str)]) -> impl Fn(&str) -> Option<String> + 'e {
    move |name| values.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
}

#[test]
fn each_cloud_is_where_its_places_say() {
    let keys = [
        ("AZURE_OPENAI_API_KEY", "k"),
        ("AWS_BEARER_TOKEN_BEDROCK", "k"),
        ("VERTEX_ACCESS_TOKEN", "k"),
    ];
    let at = |name: &str, wire: Option<&str>, more: &[(&str, &str)]| {
        let all: Vec<_> = keys.iter().chain(more).copied().collect();
        let wire = wire.map(str::to_owned);
        let config = ProviderConfig { wire, ..ProviderConfig::default() };
        let found = config.resolve(name, &env(&all)).unwrap();
        (found.base_url, found.options.get("path").cloned().unwrap_or_default())
    };
    let acme = [("AZURE_OPENAI_RESOURCE", "acme")];
    assert_eq!(
        at("azure", None, &acme),
        ("https://acme.openai.azure.com/openai/v1".to_owned(), Value::Null)
    );
    assert_eq!(
        at("azure", Some("anthropic"), &acme).0,
        "https://acme.services.ai.azure.com/anthropic"
    );
    let endpoint = [("AZURE_OPENAI_ENDPOINT", "https://acme.example.com/")];
    assert_eq!(at("azure", None, &endpoint).0, "https://acme.example.com/openai/v1");
    assert_eq!(
        at("azure-deployments", None, &acme),
        (
            "https://acme.openai.azure.com/openai".to_owned(),
            json!("/deployments/{model}/chat/completions?api-version=2024-10-21")
        )
    );
    let region = [("AWS_REGION", "eu-central-1")];
    assert_eq!(
        at("bedrock", None, &region),
        ("https://bedrock-mantle.eu-central-1.api.aws".to_owned(), json!("/anthropic/v1/messages"))
    );
    assert_eq!(
        at("bedrock-openai", None, &region),
        ("https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1".to_owned(), Value::Null)
    );
    let google = |location: &'static str| {
        [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", location)]
    };
    assert_eq!(
        at("vertex", None, &google("global")),
        (
            "https://aiplatform.googleapis.com".to_owned(),
            json!("/v1/projects/p/locations/global/publishers/google/models/{model}:{method}")
        )
    );
    assert_eq!(
        at("vertex", None, &google("europe-west4")).0,
        "https://europe-west4-aiplatform.googleapis.com"
    );
    assert_eq!(at("vertex", None, &google("eu")).0, "https://aiplatform.eu.rep.googleapis.com");
    assert_eq!(
        at("vertex-anthropic", None, &google("global")).1,
        json!("/v1/projects/p/locations/global/publishers/anthropic/models/{model}:{method}")
    );
}

#[test]
fn what_is_missing_is_named_with_what_to_set() {
    let none = env(&[]);
    let config = ProviderConfig::default();
    let problem = |name: &str, config: &ProviderConfig| config.resolve(name, &none).unwrap_err();
    assert_eq!(
        problem("azure", &config).to_string(),
        "provider `azure` needs `place.resource` in its configuration, or AZURE_OPENAI_RESOURCE"
    );
    let here = ProviderConfig { place: place(&[("resource", "acme")]), ..config.clone() };
    assert_eq!(
        problem("azure", &here).to_string(),
        "provider `azure` has no credentials: set AZURE_OPENAI_API_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and \
         AZURE_CLIENT_SECRET for a client of Entra"
    );
    for value in ["acme.evil.com/", "a/../b", "a b", "", "a?b"] {
        let led = ProviderConfig { place: place(&[("resource", value)]), ..config.clone() };
        assert!(
            matches!(
                led.resolve("azure", &env(&[("AZURE_OPENAI_API_KEY", "k")])),
                Err(ConfigError::BadPlace { .. }) | Ok(_)
            ),
            "{value}"
        );
    }
    let led = ProviderConfig { place: place(&[("resource", "evil.com/x")]), ..config.clone() };
    assert!(matches!(problem("azure", &led), ConfigError::BadPlace { .. }));
    let like = ProviderConfig { like: Some("clouds".into()), ..config };
    assert!(matches!(problem("mine", &like), ConfigError::UnknownPreset { .. }));
}

#[test]
fn a_second_region_is_like_the_first() {
    let config: ProviderConfig = serde_json::from_value(
        json!({"like": "bedrock", "place": {"region": "us-west-2"}, "api_key_env": "OTHER_KEY"}),
    )
    .unwrap();
    let found = config.resolve("bedrock-west", &env(&[("OTHER_KEY", "k")])).unwrap();
    assert_eq!(found.base_url, "https://bedrock-mantle.us-west-2.api.aws");
    assert_eq!(found.wire, "anthropic");
}

/// An answer of the Messages API.
pub fn claude() -> Reply {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}});
    Reply::sse([
        event("message_start", &json!({"type": "message_start", "message": message})),
        event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        ),
        event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "Hi"}}),
        ),
        event("content_block_stop", &json!({"type": "content_block_stop", "index": 0})),
        event(
            "message_delta",
            &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5}}),
        ),
        event("message_stop", &json!({"type": "message_stop"})),
    ])
}

fn at(server: &FakeModelServer, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

fn endpoint(name: &str, config: ProviderConfig, values: &[(&str, &str)]) -> Arc<Endpoint> {
    Arc::new(Endpoint::new(config.resolve(name, &env(values)).unwrap()).unwrap())
}

#[tokio::test]
async fn azure_takes_its_key_and_its_deployments_name() {
    let server = FakeModelServer::start().await;
    let mut cases = Vec::new();
    for (name, path) in [
        ("azure", "/openai/v1/chat/completions"),
        ("azure-deployments", "/openai/deployments/my-gpt/chat/completions?api-version=2025-04-01"),
    ] {
        let base = if name == "azure" { "/openai/v1" } else { "/openai" };
        let config = ProviderConfig {
            base_url: Some(at(&server, base)),
            place: place(&[("resource", "acme"), ("api_version", "2025-04-01")]),
            ..ProviderConfig::default()
        };
        server.enqueue(ChatAnswer::new("my-gpt").text("Hi").stream());
        let endpoint = endpoint(name, config, &[("AZURE_OPENAI_API_KEY", "k")]);
        assert_eq!(ask_by_name(&*endpoint.model("my-gpt")).await.text, "Hi");
        cases.push(path);
    }
    for (request, path) in server.requests().iter().zip(cases) {
        assert_eq!((request.path.as_str(), request.header("api-key")), (path, "k"));
        assert_eq!(request.header("authorization"), "");
    }
}

#[tokio::test]
async fn azure_over_the_other_wires() {
    let server = FakeModelServer::start().await;
    let config = |wire: &str, base: &str| ProviderConfig {
        wire: Some(wire.to_owned()),
        base_url: Some(at(&server, base)),
        place: place(&[("resource", "acme")]),
        ..ProviderConfig::default()
    };
    server.enqueue(claude());
    let anthropic =
        endpoint("azure", config("anthropic", "/anthropic"), &[("AZURE_OPENAI_API_KEY", "k")]);
    assert_eq!(ask(&*anthropic.model("claude-sonnet-5")).await.text, "Hi");
    server.enqueue(Reply::status(500));
    let responses =
        endpoint("azure", config("openai-responses", "/v1"), &[("AZURE_OPENAI_API_KEY", "k")]);
    ask(&*responses.model("gpt")).await.result.unwrap_err();
    let seen: Vec<_> = server
        .requests()
        .iter()
        .map(|r| (r.path.clone(), r.header("x-api-key").to_owned(), r.header("api-key").to_owned()))
        .collect();
    assert_eq!(
        seen,
        [
            ("/anthropic/v1/messages".to_owned(), "k".to_owned(), String::new()),
            ("/v1/responses".to_owned(), String::new(), "k".to_owned()),
        ]
    );
}

fn entra(server: &FakeModelServer, tokens: &FakeModelServer) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(at(server, "/openai/v1")),
        place: place(&[("resource", "acme")]),
        auth: Some(AuthConfig::Entra {
            tenant: None,
            client_id: Some("client".into()),
            client_secret_env: Some("MY_SECRET".into()),
            token_url: Some(at(tokens, "/dir/oauth2/v2.0/token")),
        }),
        ..ProviderConfig::default()
    }
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_shared_by_calls_at_once() {
    let (server, tokens) = (FakeModelServer::start().await, fake_tokens(3600).await);
    server.otherwise(|_| ChatAnswer::new("m").text("Hi").stream());
    let endpoint = endpoint("azure", entra(&server, &tokens), &[("MY_SECRET", "s&1")]);
    let model = endpoint.model("m");
    let asked = futures_util::future::join_all((0..5).map(|_| ask(&*model))).await;
    assert!(asked.iter().all(|a| a.text == "Hi"));
    let given = tokens.requests();
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].path, "/dir/oauth2/v2.0/token");
    assert_eq!(given[0].header("content-type"), "application/x-www-form-urlencoded");
    assert_eq!(
        given[0].body,
        "grant_type=client_credentials&client_id=client&client_secret=s%261&scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default"
    );
    assert!(server.requests().iter().all(|r| r.header("authorization") == "Bearer token-1"));
}

#[tokio::test]
async fn a_token_is_renewed_shortly_before_it_runs_out() {
    let (server, tokens) = (FakeModelServer::start().await, fake_tokens(3600).await);
    server.otherwise(|_| ChatAnswer::new("m").text("Hi").stream());
    let endpoint = endpoint("azure", entra(&server, &tokens), &[("MY_SECRET", "s")]);
    let model = endpoint.model("m");
    let later = async |by: u64| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(by)).await;
        tokio::time::resume();
        ask(&*model).await.result.unwrap();
        tokens.requests().len()
    };
    assert_eq!(later(0).await, 1);
    assert_eq!(later(3_200).await, 1);
    assert_eq!(later(150).await, 2);
    let sent: Vec<_> =
        server.requests().iter().map(|r| r.header("authorization").to_owned()).collect();
    assert_eq!(sent, ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_used_to_its_end() {
    let (server, tokens) = (FakeModelServer::start().await, FakeModelServer::start().await);
    server.otherwise(|_| ChatAnswer::new("m").text("Hi").stream());
    let endpoint = endpoint("azure", entra(&server, &tokens), &[("MY_SECRET", "s")]);
    let model = endpoint.model("m");
    tokens.enqueue(Reply::json(200, &json!({"access_token": "old", "expires_in": 3600})));
    ask(&*model).await.result.unwrap();
    tokens.otherwise(|_| Reply::json(503, &json!({"error": "temporarily_unavailable"})));
    let after = async |by: u64| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(by)).await;
        tokio::time::resume();
        ask(&*model).await.result
    };
    after(3_400).await.unwrap();
    let error = after(300).await.unwrap_err().error;
    assert_eq!(error.kind, ModelErrorKind::Server);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_refused_token_is_given_up() {
    let (server, tokens) = (FakeModelServer::start().await, fake_tokens(3600).await);
    server.enqueue(Reply::json(401, &json!({"error": {"message": "revoked"}})));
    server.otherwise(|_| ChatAnswer::new("m").text("Hi").stream());
    let endpoint = endpoint("azure", entra(&server, &tokens), &[("MY_SECRET", "s")]);
    let model = endpoint.model("m");
    assert_eq!(ask(&*model).await.result.unwrap_err().error.kind, ModelErrorKind::Auth);
    ask(&*model).await.result.unwrap();
    assert_eq!(server.requests()[1].header("authorization"), "Bearer token-2");
}

#[tokio::test]
async fn a_refusal_to_give_a_token_is_told_in_its_own_words_and_no_secret_is_shown() {
    let (server, tokens) = (FakeModelServer::start().await, FakeModelServer::start().await);
    let words = json!({"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret."});
    tokens.enqueue(Reply::json(401, &words));
    let config = entra(&server, &tokens);
    let resolved = config.resolve("azure", &env(&[("MY_SECRET", "hush-hush")])).unwrap();
    assert!(!format!("{resolved:?}").contains("hush-hush"));
    let endpoint = Arc::new(Endpoint::new(resolved).unwrap());
    let error = ask(&*endpoint.model("m")).await.result.unwrap_err().error;
    assert_eq!(error.kind, ModelErrorKind::Auth);
    assert_eq!(error.message, "no token was given out: AADSTS7000215: Invalid client secret.");
    assert!(!format!("{endpoint:?} {error:?}").contains("hush-hush"));
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn vertex_serves_gemini_and_claude() {
    let server = FakeModelServer::start().await;
    let config = || ProviderConfig {
        base_url: Some(at(&server, "")),
        place: place(&[("project", "p"), ("location", "eu")]),
        ..ProviderConfig::default()
    };
    let key = [("VERTEX_ACCESS_TOKEN", "ya29")];
    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]},
        "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        "modelVersion": "m"});
    server.enqueue(Reply::sse([frame(&gemini)]));
    let google = endpoint("vertex", config(), &key);
    assert_eq!(ask_by_name(&*google.model("gemini-3.8-flash")).await.text, "Hi");
    server.enqueue(claude());
    let anthropic = endpoint("vertex-anthropic", config(), &key);
    assert_eq!(ask_by_name(&*anthropic.model("claude-sonnet-5@20260801")).await.text, "Hi");
    let listed =
        json!({"publisherModels": [{"name": "publishers/anthropic/models/claude-sonnet-5"}]});
    server.enqueue(Reply::json(200, &listed));
    assert_eq!(anthropic.list_models().await.unwrap(), ["claude-sonnet-5"]);

    let requests = server.requests();
    let paths: Vec<_> = requests.iter().map(|r| r.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/v1/projects/p/locations/eu/publishers/google/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
            "/v1/projects/p/locations/eu/publishers/anthropic/models/claude-sonnet-5@20260801:streamRawPredict",
            "/v1beta1/publishers/anthropic/models",
        ]
    );
    assert!(requests.iter().all(|r| r.header("authorization") == "Bearer ya29"));
    // The model is in the path, the version in the body, and neither is anywhere else.
    let body = requests[1].json();
    assert_eq!(
        (&body["anthropic_version"], body.get("model")),
        (&json!("vertex-2023-10-16"), None)
    );
    assert_eq!(requests[1].header("anthropic-version"), "");
}

#[tokio::test]
async fn bedrock_takes_its_own_keys() {
    let server = FakeModelServer::start().await;
    let config = ProviderConfig {
        base_url: Some(at(&server, "")),
        place: place(&[("region", "eu-central-1")]),
        ..ProviderConfig::default()
    };
    server.enqueue(claude());
    let endpoint = endpoint("bedrock", config, &[("AWS_BEARER_TOKEN_BEDROCK", "k")]);
    assert_eq!(ask_by_name(&*endpoint.model("anthropic.claude-sonnet-5")).await.text, "Hi");
    let request = &server.requests()[0];
    assert_eq!(
        (request.path.as_str(), request.header("authorization"), request.header("x-api-key")),
        ("/anthropic/v1/messages", "Bearer k", "")
    );
    assert_eq!(request.json()["model"], "anthropic.claude-sonnet-5");
}
