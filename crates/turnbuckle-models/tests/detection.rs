//! Which model is taken when nobody chose one, and what a configuration gives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::ask;
use serde_json::json;
use std::collections::BTreeMap;
use turnbuckle_core::model::ModelRef;
use turnbuckle_models::catalogue::{InfoSource, Prices};
use turnbuckle_models::{Detected, ModelOverride, ProviderConfig, Providers};
use turnbuckle_testkit::chat::ChatAnswer;
use turnbuckle_testkit::{FakeModelServer, Reply};

type Configs = BTreeMap<String, ProviderConfig>;

fn providers(configs: Configs, env: &'static [(&'static str, &'static str)]) -> Providers {
    let find = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    Providers::with_environment(configs, find).with_local_servers(Vec::new())
}

fn found(detected: &Detected) -> (String, &str) {
    (detected.model.as_ref().unwrap().id().to_string(), &detected.why)
}

#[tokio::test]
async fn the_first_known_key_wins() {
    let all: &[(&str, &str)] =
        &[("GEMINI_API_KEY", "g"), ("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")];
    let detected = providers(Configs::new(), all).detect().await.unwrap();
    assert_eq!(found(&detected), ("openai:gpt-6.1-sol".into(), "OPENAI_API_KEY is set"));
    let detected = providers(Configs::new(), &[("GOOGLE_API_KEY", "g")]).detect().await.unwrap();
    assert_eq!(found(&detected), ("gemini:gemini-3.8-flash".into(), "GOOGLE_API_KEY is set"));
}

#[tokio::test]
async fn a_named_model_wins_over_what_is_found() {
    let env: &[(&str, &str)] = &[
        ("OPENAI_API_KEY", "o"),
        ("DEEPSEEK_API_KEY", "d"),
        ("TURNBUCKLE_MODEL", "deepseek:deepseek-v4-pro"),
    ];
    let detected = providers(Configs::new(), env).detect().await.unwrap();
    assert_eq!(
        found(&detected),
        ("deepseek:deepseek-v4-pro".into(), "TURNBUCKLE_MODEL says deepseek:deepseek-v4-pro")
    );
    // Without its key the wish is an error with the way out, not another model.
    let error = providers(Configs::new(), &[("TURNBUCKLE_MODEL", "xai:grok-4.5")])
        .detect()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("XAI_API_KEY"), "{error}");
}

#[tokio::test]
async fn a_local_server_is_asked_what_it_has() {
    let server = FakeModelServer::start().await;
    let models = json!({"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}]});
    server.enqueue(Reply::json(200, &models));
    server.enqueue(ChatAnswer::new("qwen3:8b").text("here").stream());
    let absent = FakeModelServer::start().await;
    let gone = absent.base_url();
    drop(absent);
    let local = vec![("ollama".to_owned(), gone), ("llamacpp".to_owned(), server.base_url())];
    let providers = providers(Configs::new(), &[]).with_local_servers(local);
    let detected = providers.detect().await.unwrap();
    assert_eq!(found(&detected).0, "llamacpp:qwen3:8b");
    assert_eq!(detected.why, format!("llamacpp answers at {}", server.base_url()));
    let model = detected.model.unwrap();
    assert_eq!(model.info().prices, Some(Prices::default()), "a local model costs nothing");
    assert_eq!(ask(&*model).await.text, "here");
    // The engine finds the same model by its name.
    assert!(providers.model(&ModelRef::parse("llamacpp:qwen3:8b").unwrap()).is_ok());
}

#[tokio::test]
async fn with_nothing_there_the_rehearsal_plays_and_says_why() {
    let detected = providers(Configs::new(), &[]).detect().await.unwrap();
    assert!(detected.model.is_none());
    assert!(
        detected.why.contains("OPENAI_API_KEY") && detected.why.contains("rehearsal"),
        "{}",
        detected.why
    );
}

#[tokio::test]
async fn a_base_url_is_enough_for_a_compatible_server() {
    let server = FakeModelServer::start().await;
    server.enqueue(Reply::json(200, &json!({"data": [{"id": "served"}]})));
    server.enqueue(ChatAnswer::new("served").text("here").stream());
    let url = server.base_url();
    let env = move |name: &str| (name == "OPENAI_BASE_URL").then(|| url.clone());
    let providers = Providers::with_environment(Configs::new(), env).with_local_servers(Vec::new());
    let detected = providers.detect().await.unwrap();
    assert_eq!(found(&detected), ("openai:served".into(), "OPENAI_BASE_URL is set"));
    assert_eq!(ask(&*detected.model.unwrap()).await.text, "here");
}

#[test]
fn configuration_wins_over_the_catalogue_and_says_so() {
    let own = ModelOverride { context_window: Some(64_000), ..ModelOverride::default() };
    let prices = Prices { input: 9.0, output: 99.0, ..Prices::default() };
    let priced = ModelOverride { prices: Some(prices.clone()), ..ModelOverride::default() };
    let config = ProviderConfig {
        models: [("gpt-5".to_owned(), own), ("gpt-4o".to_owned(), priced)].into(),
        ..ProviderConfig::default()
    };
    let providers = providers([("openai".to_owned(), config)].into(), &[("OPENAI_API_KEY", "o")]);
    let endpoint = providers.endpoint("openai").unwrap();
    let info = endpoint.info("gpt-5");
    assert_eq!((info.context_window, info.max_output_tokens), (64_000, 64_000));
    assert_eq!(info.source, InfoSource::Config);
    assert!(info.prices.is_some(), "what is not overridden stays");
    let info = endpoint.info("gpt-4o");
    assert_eq!((info.context_window, info.prices), (128_000, Some(prices)));
    assert!(matches!(info.source, InfoSource::Catalogue { .. }));
}

#[test]
fn bad_configurations_say_what_to_do() {
    let error = |config: ProviderConfig, name: &str| {
        let providers = providers([(name.to_owned(), config)].into(), &[]);
        providers.endpoint(name).unwrap_err().to_string()
    };
    let with_url =
        |url: &str| ProviderConfig { base_url: Some(url.to_owned()), ..ProviderConfig::default() };
    assert!(error(ProviderConfig::default(), "mine").contains("needs a `base_url`"));
    assert!(error(ProviderConfig::default(), "openai").contains("OPENAI_API_KEY"));
    assert!(error(with_url("ftp://host"), "mine").contains("ftp://host"));
    assert!(error(with_url("nonsense"), "mine").contains("nonsense"));
    let wire =
        ProviderConfig { wire: Some("smoke-signals".into()), ..with_url("http://127.0.0.1:1/v1") };
    assert!(error(wire, "mine").contains("openai-chat"));
    let profile =
        ProviderConfig { profile: Some("nobody".into()), ..with_url("http://127.0.0.1:1/v1") };
    assert!(error(profile, "mine").contains("`nobody`"));
    let bad = Prices { input: -1.0, ..Prices::default() };
    let priced = ModelOverride { prices: Some(bad), ..ModelOverride::default() };
    let prices = ProviderConfig {
        models: [("m".to_owned(), priced)].into(),
        ..with_url("http://127.0.0.1:1/v1")
    };
    assert!(error(prices, "mine").contains("`input` is -1"));
    let file = ProviderConfig {
        api_key_file: Some("absent-file".into()),
        ..with_url("http://127.0.0.1:1/v1")
    };
    assert!(error(file, "mine").contains("absent-file"));
}
