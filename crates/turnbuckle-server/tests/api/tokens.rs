//! Tokens of an identity provider: which are taken, which are not, and that a caller is not told why.

use crate::support::*;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turnbuckle_core::time::Timestamp;
use turnbuckle_models::scripted::Scripted;
use turnbuckle_server::auth::jwt::{Refusal, TokenOptions, TokenOptionsError, Tokens};
use turnbuckle_server::auth::principal::Principal;
use turnbuckle_server::dto::Role;

const SECRET: &[u8] = b"a secret of at least thirty-two bytes";
/// Now, in seconds.
const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_millis(NOW * 1000)
}

/// The claims of a sound token, with some of them changed. `null` takes one away.
fn claims(changes: Value) -> Value {
    let mut claims = json!({"tenant": "acme", "sub": "ada", "roles": ["user"], "exp": NOW + 60});
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

fn hs256(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

fn with_secret() -> TokenOptions {
    TokenOptions { secret: Some(SECRET.to_vec()), ..TokenOptions::default() }
}

fn ada(roles: &[Role]) -> Principal {
    let principal = Principal::local("acme", "ada");
    let until = Some(Timestamp::from_millis((NOW + 60) * 1000));
    let kind = turnbuckle_server::dto::AuthKind::Jwt;
    Principal { roles: roles.iter().copied().collect(), kind, until, ..principal }
}

/// Why a token is refused; nothing when it is not.
async fn refusal(tokens: &Tokens, token: &str) -> String {
    match tokens.principal(token, now()).await {
        Ok(_) => String::new(),
        Err(why) => why.to_string(),
    }
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A key of a provider: it signs, and is published.
struct Signer {
    id: &'static str,
    algorithm: Algorithm,
    key: EncodingKey,
    public: Value,
}

impl Signer {
    fn rsa(id: &'static str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der>::as_der(&pair);
        let public = pair.public_key();
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        Self {
            id,
            algorithm: Algorithm::RS256,
            key: EncodingKey::from_rsa_der(&rsa_private(der.unwrap().as_ref())),
            public: json!({
                "kty": "RSA", "kid": id, "use": "sig", "alg": "RS256",
                "n": number(public.modulus().big_endian_without_leading_zero()),
                "e": number(public.exponent().big_endian_without_leading_zero()),
            }),
        }
    }

    fn ec(id: &'static str) -> Self {
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let der = der.unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref()).unwrap();
        let point = pair.public_key().as_ref();
        Self {
            id,
            algorithm: Algorithm::ES256,
            key: EncodingKey::from_ec_der(der.as_ref()),
            public: json!({
                "kty": "EC", "crv": "P-256", "kid": id,
                "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]),
            }),
        }
    }

    fn ed(id: &'static str) -> Self {
        let der = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.as_ref()).unwrap();
        Self {
            id,
            algorithm: Algorithm::EdDSA,
            key: EncodingKey::from_ed_der(der.as_ref()),
            public: json!({
                "kty": "OKP", "crv": "Ed25519", "kid": id,
                "x": URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()),
            }),
        }
    }

    fn token(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.to_owned());
        encode(&header, claims, &self.key).unwrap()
    }
}

/// The key within PKCS#8, which is what RSA keys are read from here.
fn rsa_private(pkcs8: &[u8]) -> Vec<u8> {
    // SEQUENCE { version, algorithm, OCTET STRING { key } }, of which the string is the last 4 + n bytes.
    let at = pkcs8.windows(2).position(|w| w == [0x04, 0x82]).unwrap();
    pkcs8[at + 4..].to_vec()
}

/// A provider that publishes its keys, and counts how often it is asked.
#[derive(Clone, Default)]
struct Provider {
    answer: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
    url: String,
}

impl Provider {
    async fn start(keys: &[&Signer]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let provider = Self { url, ..Self::default() };
        provider.publish(keys);
        let state = provider.clone();
        let router = axum::Router::new().route(
            "/keys",
            axum::routing::get(move || async move {
                state.asked.fetch_add(1, Ordering::SeqCst);
                let answer = state.answer.lock().unwrap().clone();
                answer.map(axum::Json).ok_or(http::StatusCode::INTERNAL_SERVER_ERROR)
            }),
        );
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    fn publish(&self, keys: &[&Signer]) {
        let keys: Vec<_> = keys.iter().map(|key| key.public.clone()).collect();
        *self.answer.lock().unwrap() = Some(json!({"keys": keys}));
    }

    fn fail(&self) {
        *self.answer.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn tokens(&self) -> Tokens {
        let jwks_url = Some(self.url.clone());
        Tokens::new(TokenOptions { jwks_url, ..TokenOptions::default() }).unwrap()
    }
}

/// Lets time pass for whoever measures it by tokio's clock.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_says_who_it_stands_for() {
    let tokens = Tokens::new(with_secret()).unwrap();
    let who = |changes| {
        let token = hs256(&claims(changes));
        let tokens = &tokens;
        async move { tokens.principal(&token, now()).await.unwrap() }
    };
    assert_eq!(who(json!({})).await, ada(&[Role::User]));
    assert_eq!(who(json!({"roles": "user approver"})).await, ada(&[Role::User, Role::Approver]));
    // Roles of somebody else's system are no roles here.
    assert_eq!(who(json!({"roles": ["root", 7, "operator"]})).await, ada(&[Role::Operator]));
    assert_eq!(who(json!({"roles": null})).await, ada(&[]));

    let options = TokenOptions {
        tenant_claim: "org".into(),
        user_claim: "email".into(),
        roles_claim: "groups".into(),
        default_roles: [Role::User].into(),
        ..with_secret()
    };
    let other = Tokens::new(options).unwrap();
    let token = hs256(&json!({"org": "acme", "email": "ada", "exp": NOW + 60}));
    assert_eq!(other.principal(&token, now()).await.unwrap(), ada(&[Role::User]));
}

#[tokio::test]
async fn times_are_held_to_with_some_leeway_for_clocks() {
    let tokens = Tokens::new(with_secret()).unwrap();
    let expired = "its time has run out";
    let early = "the claim `nbf` is missing or not what it should be";
    for (changes, expected) in [
        (json!({"exp": NOW + 1}), ""),
        (json!({"exp": NOW - 29}), ""),
        (json!({"exp": NOW - 30}), expired),
        (json!({"exp": NOW - 86_400}), expired),
        (json!({"exp": 0}), expired),
        (json!({"exp": -1}), "Missing required claim: exp"),
        (json!({"exp": NOW as f64 + 0.5}), ""),
        (json!({"exp": 1e300}), "Missing required claim: exp"),
        (json!({"nbf": NOW}), ""),
        (json!({"nbf": NOW + 30}), ""),
        (json!({"nbf": NOW + 31}), early),
        (json!({"nbf": NOW - 5}), ""),
        (json!({"nbf": "tomorrow"}), early),
        (json!({"iat": NOW + 3600}), ""),
    ] {
        let token = hs256(&claims(changes.clone()));
        assert_eq!(refusal(&tokens, &token).await, expected, "{changes}");
    }
}

#[tokio::test]
async fn a_token_without_what_it_must_say_is_refused() {
    let tokens = Tokens::new(with_secret()).unwrap();
    for changes in [
        json!({"exp": null}),
        json!({"exp": "soon"}),
        json!({"tenant": null}),
        json!({"tenant": ""}),
        json!({"tenant": 7}),
        json!({"tenant": "x".repeat(201)}),
        json!({"sub": null}),
        json!({"sub": ["ada"]}),
        json!({"roles": {"user": true}}),
    ] {
        let token = hs256(&claims(changes.clone()));
        assert_ne!(refusal(&tokens, &token).await, "", "{changes}");
    }
    let options = TokenOptions {
        issuer: Some("https://login.example.com/".into()),
        audience: Some("turnbuckle".into()),
        ..with_secret()
    };
    let strict = Tokens::new(options).unwrap();
    let sound = json!({"iss": "https://login.example.com/", "aud": ["other", "turnbuckle"]});
    assert_eq!(refusal(&strict, &hs256(&claims(sound.clone()))).await, "");
    for (name, value) in [
        ("iss", json!(null)),
        ("iss", json!("https://login.example.com.evil/")),
        ("aud", json!(null)),
        ("aud", json!("other")),
        ("aud", json!([])),
    ] {
        let mut changed = sound.clone();
        changed[name] = value;
        assert_ne!(refusal(&strict, &hs256(&claims(changed.clone()))).await, "", "{changed}");
    }
    // Whoever does not name an audience takes tokens for any.
    assert_eq!(refusal(&tokens, &hs256(&claims(json!({"aud": "other"})))).await, "");
}

#[tokio::test]
async fn a_token_that_is_not_signed_as_it_must_be_is_refused() {
    let tokens = Tokens::new(with_secret()).unwrap();
    let sound = hs256(&claims(json!({})));
    let [header, body, signature] = sound.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let other = EncodingKey::from_secret(b"another secret of thirty-two bytes!!");
    let wrong_key = encode(&Header::new(Algorithm::HS256), &claims(json!({})), &other).unwrap();
    let strong = EncodingKey::from_secret(SECRET);
    let hs512 = encode(&Header::new(Algorithm::HS512), &claims(json!({})), &strong).unwrap();
    let none = part(&json!({"alg": "none", "typ": "JWT"}));
    let changed = part(&claims(json!({"roles": ["admin"]})));
    let critical = part(&json!({"alg": "HS256", "crit": ["exp"]}));
    let rest: String = signature.chars().skip(1).collect();
    let flipped = format!("{}{rest}", if signature.starts_with('A') { 'B' } else { 'A' });
    for token in [
        wrong_key,
        hs512,
        format!("{none}.{body}."),
        format!("{none}.{body}.{signature}"),
        format!("{header}.{changed}.{signature}"),
        format!("{header}.{body}."),
        format!("{header}.{body}.{flipped}"),
        format!("{critical}.{body}.{signature}"),
        format!("{header}.{body}"),
        format!("{header}.{body}.{signature}.{signature}"),
        "..".into(),
        "tbq".into(),
        "\u{1F511}".into(),
        "x".repeat(100_000),
    ] {
        let shown: String = token.chars().take(80).collect();
        assert_ne!(refusal(&tokens, &token).await, "", "{shown}");
    }
    assert_eq!(refusal(&tokens, &sound).await, "");
}

#[tokio::test]
async fn a_critical_extension_that_nobody_knows_is_refused() {
    let tokens = Tokens::new(with_secret()).unwrap();
    let mut header = Header::new(Algorithm::HS256);
    header.crit = Some(vec!["b64".into()]);
    let token = encode(&header, &claims(json!({})), &EncodingKey::from_secret(SECRET)).unwrap();
    assert_ne!(refusal(&tokens, &token).await, "");
}

#[tokio::test]
async fn published_keys_of_every_kind_are_taken_and_a_public_key_is_no_secret() {
    let keys = [Signer::rsa("r"), Signer::ec("e"), Signer::ed("d")];
    let provider = Provider::start(&keys.iter().collect::<Vec<_>>()).await;
    let tokens = provider.tokens();
    for key in &keys {
        let token = key.token(&claims(json!({})));
        assert_eq!(tokens.principal(&token, now()).await.unwrap(), ada(&[Role::User]));
        assert_ne!(refusal(&tokens, &key.token(&claims(json!({"exp": NOW - 30})))).await, "");
    }
    // One reading of the set served them all.
    assert_eq!(provider.asked(), 1);

    // Signed with the public key as if that were a shared secret.
    let modulus = URL_SAFE_NO_PAD.decode(keys[0].public["n"].as_str().unwrap()).unwrap();
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("r".into());
    let forged = encode(&header, &claims(json!({})), &EncodingKey::from_secret(&modulus)).unwrap();
    assert_eq!(refusal(&tokens, &forged).await, Refusal::Algorithm(Algorithm::HS256).to_string());
    // Signed by one key in the name of another, of the same kind and of another kind.
    let impostor = Signer { id: "e", ..Signer::ec("x") };
    assert_ne!(refusal(&tokens, &impostor.token(&claims(json!({})))).await, "");
    let impostor = Signer { id: "e", ..Signer::rsa("x") };
    assert_ne!(refusal(&tokens, &impostor.token(&claims(json!({})))).await, "");
    // A shared secret beside the key set does not let the one pass for the other.
    let both = Tokens::new(TokenOptions { jwks_url: Some(provider.url.clone()), ..with_secret() });
    let both = both.unwrap();
    assert_ne!(refusal(&both, &forged).await, "");
    assert_eq!(refusal(&both, &hs256(&claims(json!({})))).await, "");
    assert_eq!(refusal(&both, &keys[1].token(&claims(json!({})))).await, "");
}

#[tokio::test]
async fn a_key_that_is_not_for_signatures_or_for_another_algorithm_is_not_used() {
    for (name, value) in [("use", "enc"), ("alg", "RS512"), ("alg", "RSA-OAEP")] {
        let mut key = Signer::rsa("r");
        key.public[name] = json!(value);
        let provider = Provider::start(&[&key]).await;
        let token = key.token(&claims(json!({})));
        assert_ne!(refusal(&provider.tokens(), &token).await, "", "{name} {value}");
    }
}

#[tokio::test]
async fn a_key_of_an_unknown_kind_does_not_take_the_others_along() {
    let mut strange = Signer::ed("s");
    strange.public = json!({"kty": "AKP", "kid": "s", "alg": "ML-DSA-44", "pub": "AA"});
    let key = Signer::ec("e");
    let provider = Provider::start(&[&strange, &key]).await;
    assert_eq!(refusal(&provider.tokens(), &key.token(&claims(json!({})))).await, "");
    assert_ne!(refusal(&provider.tokens(), &strange.token(&claims(json!({})))).await, "");
}

#[tokio::test]
async fn keys_are_rotated_without_a_restart_and_strangers_do_not_make_us_ask_again_and_again() {
    let (old, new) = (Signer::ec("old"), Signer::ec("new"));
    let provider = Provider::start(&[&old]).await;
    let tokens = provider.tokens();
    let (by_old, by_new) = (old.token(&claims(json!({}))), new.token(&claims(json!({}))));
    assert_eq!(refusal(&tokens, &by_old).await, "");
    assert_eq!(refusal(&tokens, &by_new).await, Refusal::UnknownKey.to_string());
    assert_eq!(provider.asked(), 1, "an unknown key is asked for at most every 30 seconds");

    provider.publish(&[&old, &new]);
    assert_eq!(refusal(&tokens, &by_new).await, Refusal::UnknownKey.to_string());
    pass(Duration::from_secs(31)).await;
    assert_eq!(refusal(&tokens, &by_new).await, "");
    assert_eq!(refusal(&tokens, &by_old).await, "");
    assert_eq!(provider.asked(), 2);
    for _ in 0..50 {
        assert_ne!(refusal(&tokens, &Signer::ec("who").token(&claims(json!({})))).await, "");
    }
    assert_eq!(provider.asked(), 2);

    // The old key is withdrawn: it counts until the set is read again.
    provider.publish(&[&new]);
    assert_eq!(refusal(&tokens, &by_old).await, "");
    pass(Duration::from_secs(601)).await;
    assert_eq!(refusal(&tokens, &by_old).await, Refusal::UnknownKey.to_string());
    assert_eq!(refusal(&tokens, &by_new).await, "");
    assert_eq!(provider.asked(), 3);

    // While the provider is away the last good set goes on.
    provider.fail();
    pass(Duration::from_secs(601)).await;
    assert_eq!(refusal(&tokens, &by_new).await, "");
    assert_eq!(provider.asked(), 4);
}

#[tokio::test]
async fn a_provider_that_is_away_from_the_start_refuses_and_recovers() {
    let key = Signer::ed("d");
    let provider = Provider::start(&[&key]).await;
    provider.fail();
    let tokens = provider.tokens();
    let token = key.token(&claims(json!({})));
    let why = refusal(&tokens, &token).await;
    assert!(why.starts_with("the key set cannot be read") && !why.contains("127.0.0.1"), "{why}");
    provider.publish(&[&key]);
    pass(Duration::from_secs(31)).await;
    assert_eq!(refusal(&tokens, &token).await, "");
}

#[tokio::test]
async fn a_token_without_a_key_id_needs_a_set_of_one_key() {
    let (a, b) = (Signer::ec("a"), Signer::ec("b"));
    let bare =
        |key: &Signer| encode(&Header::new(key.algorithm), &claims(json!({})), &key.key).unwrap();
    let one = Provider::start(&[&a]).await;
    assert_eq!(refusal(&one.tokens(), &bare(&a)).await, "");
    let two = Provider::start(&[&a, &b]).await;
    assert_eq!(refusal(&two.tokens(), &bare(&a)).await, Refusal::UnknownKey.to_string());
}

#[tokio::test]
async fn unsound_options_are_refused() {
    let made = |options| Tokens::new(options).err();
    assert_eq!(made(TokenOptions::default()), Some(TokenOptionsError::NoKey));
    let short = TokenOptions { secret: Some(vec![7; 31]), ..TokenOptions::default() };
    assert_eq!(made(short), Some(TokenOptionsError::ShortSecret));
    assert_eq!(made(with_secret()), None);
}

#[tokio::test]
async fn requests_with_tokens_are_of_whom_the_token_says_and_refusals_look_alike() {
    let nothing: [Scripted; 0] = [];
    let site = site(nothing).with_tokens(Tokens::new(with_secret()).unwrap()).start().await;
    let real = site.api.now().as_millis() / 1000;
    let send = |token: String| answer(site.request(Method::GET, "/v1/whoami").bearer_auth(token));
    let sound = hs256(&claims(json!({"exp": real + 60, "roles": ["user", "admin"]})));
    let (status, who) = send(sound).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        who,
        json!({"tenant": "acme", "user": "ada", "roles": ["user", "admin"], "auth": "jwt"})
    );
    let refused = send("nonsense".into()).await;
    assert_eq!(refused.0, StatusCode::UNAUTHORIZED);
    for changes in [
        json!({"exp": real - 3600}),
        json!({"exp": real + 3600, "nbf": real + 3600}),
        json!({"exp": real + 60, "sub": null}),
    ] {
        assert_eq!(send(hs256(&claims(changes))).await, refused);
    }
}
