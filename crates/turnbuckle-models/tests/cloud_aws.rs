//! Requests to Bedrock as they arrive: the signature is checked by hand, by the published algorithm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::ask;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;
use turnbuckle_models::{Endpoint, ProviderConfig};
use turnbuckle_testkit::chat::ChatAnswer;
use turnbuckle_testkit::{CapturedRequest, FakeModelServer};

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// What AWS would compute over what arrived.
fn signature(request: &CapturedRequest, secret: &str, region: &str, service: &str) -> String {
    let date = request.header("x-amz-date");
    let day = date.split_once('T').unwrap().0;
    let authorization = request.header("authorization");
    let names = authorization.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    let headers: String =
        names.split(';').map(|name| format!("{name}:{}\n", request.header(name))).collect();
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let canonical = format!(
        "{}\n{path}\n{query}\n{headers}\n{names}\n{}",
        request.method,
        hex(Sha256::digest(&request.body))
    );
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(Sha256::digest(canonical.as_bytes())));
    let key = [day, region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, text| hmac(&key, text));
    hex(hmac(&key, &to_sign))
}

#[tokio::test]
async fn every_request_is_signed_for_its_service_and_region() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| ChatAnswer::new("m").text("Hi").stream());
    let env = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("AKID".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret/1".to_owned()),
        "AWS_SESSION_TOKEN" => Some("temporary".to_owned()),
        "AWS_REGION" => Some("eu-central-1".to_owned()),
        _ => None,
    };
    for (name, service, path) in [
        ("bedrock-openai", "bedrock", "/openai/v1/chat/completions"),
        ("bedrock", "bedrock-mantle", "/anthropic/v1/messages"),
    ] {
        let base = if name == "bedrock" { "" } else { "/openai/v1" };
        let config = ProviderConfig {
            base_url: Some(format!("http://{}{base}", server.address())),
            ..ProviderConfig::default()
        };
        let resolved = config.resolve(name, &env).unwrap();
        assert!(!format!("{resolved:?}").contains("secret/1"));
        let endpoint = Arc::new(Endpoint::new(resolved).unwrap());
        let _ = ask(&*endpoint.model("openai.gpt-oss-120b")).await;
        let _ = endpoint.list_models().await;
        let requests = server.requests();
        for request in &requests[requests.len() - 2..] {
            let expected = signature(request, "secret/1", "eu-central-1", service);
            let authorization = request.header("authorization");
            assert!(authorization.ends_with(&format!("Signature={expected}")), "{authorization}");
            assert!(authorization.contains("content-type;host;x-amz-date;x-amz-security-token"));
            assert_eq!(request.header("x-amz-security-token"), "temporary");
        }
        assert_eq!(requests[requests.len() - 2].path, path);
    }
}

#[test]
fn credentials_are_found_in_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    std::fs::write(&file, "[dev]\naws_access_key_id = AKID\naws_secret_access_key = s\n").unwrap();
    let text = serde_json::json!({"place": {"region": "us-east-1"},
        "auth": {"kind": "aws", "profile": "dev", "credentials_file": file}});
    let config: ProviderConfig = serde_json::from_value(text).unwrap();
    Endpoint::new(config.resolve("bedrock", &|_| None).unwrap()).unwrap();
    let text = serde_json::json!({"place": {"region": "us-east-1"},
        "auth": {"kind": "aws", "profile": "prod", "credentials_file": file}});
    let config: ProviderConfig = serde_json::from_value(text).unwrap();
    let error = config.resolve("bedrock", &|_| None).unwrap_err().to_string();
    assert!(error.contains("has no credentials"), "{error}");
}
