//! Vertex with credentials files: what is signed is checked with the public key, at a token endpoint of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{ask, fake_tokens};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;
use turnbuckle_models::config::ConfigError;
use turnbuckle_models::{Endpoint, ProviderConfig};
use turnbuckle_testkit::chat::frame;
use turnbuckle_testkit::{FakeModelServer, Reply};

fn answer() -> Reply {
    Reply::sse([frame(
        &json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]},
        "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        "modelVersion": "m"}),
    )])
}

/// An endpoint of Vertex with a credentials file of this content.
fn vertex(server: &FakeModelServer, credentials: &Value) -> Result<Arc<Endpoint>, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials.json");
    std::fs::write(&file, credentials.to_string()).unwrap();
    let config: ProviderConfig = serde_json::from_value(json!({
        "base_url": format!("http://{}", server.address()),
        "place": {"project": "p"},
        "auth": {"kind": "google", "credentials_file": file},
    }))
    .unwrap();
    Ok(Arc::new(Endpoint::new(config.resolve("vertex", &|_| None)?)?))
}

fn fields(body: &[u8]) -> Vec<(String, String)> {
    let form = format!("http://form/?{}", std::str::from_utf8(body).unwrap());
    let url: reqwest::Url = form.parse().unwrap();
    url.query_pairs().into_owned().collect()
}

#[tokio::test]
async fn a_service_account_signs_for_its_token() {
    let (server, tokens) = (FakeModelServer::start().await, fake_tokens(3600).await);
    server.otherwise(|_| answer());
    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let token_url = format!("http://{}/token", tokens.address());
    let account = json!({"type": "service_account", "project_id": "p", "private_key_id": "k1", "private_key": pem,
        "client_email": "robot@p.iam.gserviceaccount.com", "client_id": "1", "token_uri": token_url});
    let endpoint = vertex(&server, &account).unwrap();
    assert_eq!(ask(&*endpoint.model("gemini-3.8-flash")).await.text, "Hi");
    assert_eq!(ask(&*endpoint.model("gemini-3.8-flash")).await.text, "Hi");
    assert!(server.requests().iter().all(|r| r.header("authorization") == "Bearer token-1"));
    let asked = tokens.requests();
    assert_eq!((asked.len(), asked[0].path.as_str()), (1, "/token"));

    let form = fields(&asked[0].body);
    let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    assert_eq!(form[0], ("grant_type".to_owned(), kind.to_owned()));
    let parts: Vec<&str> = form[1].1.split('.').collect();
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let header: Value = serde_json::from_slice(&decode(parts[0])).unwrap();
    assert_eq!(header, json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let mut claims: Value = serde_json::from_slice(&decode(parts[1])).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let at = claims["iat"].as_u64().unwrap();
    assert!(at <= now && now - at < 600, "{at} {now}");
    assert_eq!(claims["exp"].as_u64().unwrap(), at + 3600);
    claims.as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "iat" | "exp"));
    assert_eq!(
        claims,
        json!({"iss": "robot@p.iam.gserviceaccount.com", "aud": token_url,
            "scope": "https://www.googleapis.com/auth/cloud-platform"})
    );
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    public.verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &decode(parts[2])).unwrap();
}

#[tokio::test]
async fn a_person_who_is_logged_in_has_their_leave_renewed() {
    let (server, tokens) = (FakeModelServer::start().await, fake_tokens(3600).await);
    server.otherwise(|_| answer());
    let person = json!({"type": "authorized_user", "client_id": "c", "client_secret": "cs", "refresh_token": "r",
        "token_uri": format!("http://{}/token", tokens.address())});
    let endpoint = vertex(&server, &person).unwrap();
    assert_eq!(ask(&*endpoint.model("gemini-3.8-flash")).await.text, "Hi");
    let expected = [
        ("grant_type", "refresh_token"),
        ("client_id", "c"),
        ("client_secret", "cs"),
        ("refresh_token", "r"),
    ];
    let form = fields(&tokens.requests()[0].body);
    assert_eq!(form, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
}

#[tokio::test]
async fn a_file_that_is_no_credentials_is_refused_without_showing_it() {
    let server = FakeModelServer::start().await;
    for (content, said) in [
        (
            json!({"type": "external_account", "secret": "hush"}),
            "neither a service account's nor a person's",
        ),
        (
            json!({"type": "service_account", "client_email": "a", "private_key": "hush"}),
            "no RSA key in PEM",
        ),
        (json!({"type": "service_account", "client_email": "hush"}), "a field is missing"),
    ] {
        let error = vertex(&server, &content).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("hush"), "{error}");
    }
}
