//! Tokens of an identity provider: signed with a shared secret (HS256) or with a key of a published set (JWKS).

use super::principal::Principal;
use crate::dto::{AuthKind, Role};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use turnbuckle_core::time::Timestamp;

/// Clocks may differ by so much.
const LEEWAY_MS: i64 = 30_000;
/// A key set is read again after this, and for an unknown key at the earliest after that.
const REFRESH: Duration = Duration::from_secs(600);
const REFRESH_FOR_UNKNOWN: Duration = Duration::from_secs(30);
/// How long a key set may take, and how large it may be.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const LARGEST_SET: usize = 1024 * 1024;
/// With which a published key may sign. Never with a shared secret: the key is public.
const PUBLIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// How tokens are read.
#[derive(Clone, Debug)]
pub struct TokenOptions {
    /// The shared secret of HS256; at least 32 bytes.
    pub secret: Option<Vec<u8>>,
    /// Where the key set is published.
    pub jwks_url: Option<String>,
    /// The issuer a token must name.
    pub issuer: Option<String>,
    /// The audience a token must name.
    pub audience: Option<String>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that names the user.
    pub user_claim: String,
    /// The claim that lists the roles.
    pub roles_claim: String,
    /// The roles of a token that has no such claim.
    pub default_roles: BTreeSet<Role>,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self {
            secret: None,
            jwks_url: None,
            issuer: None,
            audience: None,
            tenant_claim: "tenant".to_owned(),
            user_claim: "sub".to_owned(),
            roles_claim: "roles".to_owned(),
            default_roles: BTreeSet::new(),
        }
    }
}

/// Options that are not sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenOptionsError {
    /// There is neither a secret nor a key set.
    #[error("tokens need a shared secret or the address of a key set")]
    NoKey,
    /// The secret can be guessed.
    #[error("the shared secret for tokens must have at least 32 bytes")]
    ShortSecret,
    /// The client for key sets cannot be made.
    #[error("the client for key sets cannot be made")]
    Client,
}

/// Why a token is refused. For the log only: the caller is told nothing.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The library's word.
    #[error(transparent)]
    Token(#[from] jsonwebtoken::errors::Error),
    /// Signed in a way that is not taken.
    #[error("signed with {0:?}, which is not taken")]
    Algorithm(Algorithm),
    /// It insists on an extension.
    #[error("it insists on an extension that is not known here")]
    Critical,
    /// No key of that name.
    #[error("no key of the set is named so")]
    UnknownKey,
    /// The set cannot be read.
    #[error("the key set cannot be read: {0}")]
    KeySet(String),
    /// A claim is missing or not what it should be.
    #[error("the claim `{0}` is missing or not what it should be")]
    Claim(String),
    /// Its time has run out.
    #[error("its time has run out")]
    Expired,
}

/// Reads tokens.
pub struct Tokens {
    options: TokenOptions,
    secret: Option<DecodingKey>,
    http: reqwest::Client,
    set: Mutex<KeySet>,
}

/// A key set as it is published.
#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

#[derive(Default)]
struct KeySet {
    keys: Option<JwkSet>,
    read: Option<Instant>,
}

impl Tokens {
    /// A reader.
    ///
    /// # Errors
    /// When the options are not sound.
    pub fn new(options: TokenOptions) -> Result<Self, TokenOptionsError> {
        if options.secret.is_none() && options.jwks_url.is_none() {
            return Err(TokenOptionsError::NoKey);
        }
        if options.secret.as_ref().is_some_and(|secret| secret.len() < 32) {
            return Err(TokenOptionsError::ShortSecret);
        }
        let secret = options.secret.as_deref().map(DecodingKey::from_secret);
        let http = reqwest::Client::builder()
            .timeout(FETCH_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|_| TokenOptionsError::Client)?;
        Ok(Self { options, secret, http, set: Mutex::default() })
    }

    /// Who a token stands for.
    ///
    /// # Errors
    /// Why it is refused, for the log.
    pub async fn principal(&self, token: &str, now: Timestamp) -> Result<Principal, Refusal> {
        let header = jsonwebtoken::decode_header(token)?;
        // Whoever wrote the token insists on something that is not understood here.
        if header.crit.is_some() {
            return Err(Refusal::Critical);
        }
        let claims = match (header.alg, &self.secret) {
            (Algorithm::HS256, Some(secret)) => self.claims(token, secret, header.alg)?,
            (alg, _) if PUBLIC.contains(&alg) && self.options.jwks_url.is_some() => {
                let jwk = self.key(header.kid.as_deref()).await?;
                if !signs_with(&jwk, alg) {
                    return Err(Refusal::Algorithm(alg));
                }
                self.claims(token, &DecodingKey::from_jwk(&jwk)?, alg)?
            }
            (alg, _) => return Err(Refusal::Algorithm(alg)),
        };
        self.read(&claims, now)
    }

    fn claims(
        &self,
        token: &str,
        key: &DecodingKey,
        algorithm: Algorithm,
    ) -> Result<Map<String, Value>, Refusal> {
        let mut validation = Validation::new(algorithm);
        // Times are checked by our own clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.set_required_spec_claims(&["exp"]);
        match &self.options.issuer {
            Some(issuer) => {
                validation.set_issuer(&[issuer]);
                validation.required_spec_claims.insert("iss".to_owned());
            }
            None => validation.iss = None,
        }
        match &self.options.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                validation.required_spec_claims.insert("aud".to_owned());
            }
            None => validation.validate_aud = false,
        }
        Ok(jsonwebtoken::decode::<Map<String, Value>>(token, key, &validation)?.claims)
    }

    fn read(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<Principal, Refusal> {
        let options = &self.options;
        let missing = |name: &str| Refusal::Claim(name.to_owned());
        let text = |name: &str| match claims.get(name).and_then(Value::as_str) {
            Some(text) if !text.is_empty() && text.len() <= 200 => Ok(text),
            _ => Err(missing(name)),
        };
        let seconds = |name: &str| match claims.get(name).map(Value::as_f64) {
            None => Ok(None),
            Some(Some(seconds)) => Ok(Some((seconds * 1000.0) as i64)),
            Some(None) => Err(missing(name)),
        };
        let expires = seconds("exp")?.ok_or_else(|| missing("exp"))?;
        if expires.saturating_add(LEEWAY_MS) <= now.as_millis() {
            return Err(Refusal::Expired);
        }
        if seconds("nbf")?.is_some_and(|from| from.saturating_sub(LEEWAY_MS) > now.as_millis()) {
            return Err(missing("nbf"));
        }
        let roles = match claims.get(&options.roles_claim) {
            None => options.default_roles.clone(),
            Some(Value::String(words)) => words.split_whitespace().filter_map(role).collect(),
            Some(Value::Array(items)) => {
                items.iter().filter_map(Value::as_str).filter_map(role).collect()
            }
            Some(_) => return Err(missing(&options.roles_claim)),
        };
        Ok(Principal {
            tenant: text(&options.tenant_claim)?.into(),
            user: text(&options.user_claim)?.into(),
            roles,
            key: None,
            kind: AuthKind::Jwt,
            until: Some(Timestamp::from_millis(expires)),
        })
    }

    /// A key of the set. The lock is held over the reading, so that many requests read it once.
    async fn key(&self, id: Option<&str>) -> Result<Jwk, Refusal> {
        let mut set = self.set.lock().await;
        let age = set.read.map(|at| at.elapsed());
        if let Some(key) = set.find(id)
            && age.is_some_and(|age| age < REFRESH)
        {
            return Ok(key);
        }
        if age.is_none_or(|age| age >= REFRESH_FOR_UNKNOWN) {
            set.read = Some(Instant::now());
            match self.fetch().await {
                Ok(keys) => set.keys = Some(keys),
                // The last good set goes on.
                Err(e) if set.keys.is_some() => tracing::warn!("{}", Refusal::KeySet(e)),
                Err(e) => return Err(Refusal::KeySet(e)),
            }
        }
        set.find(id).ok_or(Refusal::UnknownKey)
    }

    async fn fetch(&self) -> Result<JwkSet, String> {
        let url = self.options.jwks_url.as_deref().unwrap_or_default();
        let text = |e: reqwest::Error| e.without_url().to_string();
        let mut answer =
            self.http.get(url).send().await.and_then(|a| a.error_for_status()).map_err(text)?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(text)? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_SET {
                return Err("it is too large".to_owned());
            }
        }
        let set: Published = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
        // A key of a kind that is not known here must not take the others along.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(JwkSet { keys: keys.collect() })
    }
}

impl KeySet {
    /// The key of that id; without an id, the only one there is.
    fn find(&self, id: Option<&str>) -> Option<Jwk> {
        let set = self.keys.as_ref()?;
        match (id, set.keys.as_slice()) {
            (Some(id), _) => set.find(id).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        }
    }
}

/// Whether a published key is for signatures of that kind, as far as the set says.
fn signs_with(jwk: &Jwk, algorithm: Algorithm) -> bool {
    let for_signatures =
        jwk.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
    let wanted = jwk.common.key_algorithm.as_ref().map(ToString::to_string);
    for_signatures && wanted.is_none_or(|wanted| wanted == format!("{algorithm:?}"))
}

/// A role by its name; others belong to somebody else's system.
fn role(name: &str) -> Option<Role> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}
