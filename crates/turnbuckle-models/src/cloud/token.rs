//! OAuth tokens: asked for when the first call needs one, shared by all calls, renewed shortly before they run out.

use crate::secret::Secret;
use crate::transport::{HttpEndpoint, Reply};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use reqwest::Url;
use serde::Deserialize;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_wire::EncodedRequest;

/// How long before its end a token is renewed; a call that is long on its way must not arrive with one that has run out.
const AHEAD: Duration = Duration::from_secs(300);
/// What a token lasts when its giver does not say.
const UNSAID: Duration = Duration::from_secs(600);
/// The most of an answer that is read.
const LIMIT: usize = 64 * 1024;

/// What is given for a token.
#[derive(Debug)]
pub(super) enum Grant {
    /// A client's own secret.
    Client {
        /// The client.
        id: String,
        /// Its secret.
        secret: Secret,
        /// What the token is for.
        scope: &'static str,
    },
    /// A statement signed with a service account's key.
    #[cfg(feature = "google")]
    Statement(super::google::Statement),
    /// A person's leave, given once.
    #[cfg(feature = "google")]
    Leave {
        /// The program it was given to.
        client_id: String,
        /// That program's secret.
        client_secret: Secret,
        /// The leave.
        refresh_token: Secret,
    },
}

/// Gives out a token that holds.
pub struct TokenSource {
    http: HttpEndpoint,
    grant: Grant,
    patience: Duration,
    kept: Mutex<Option<Kept>>,
    /// One asks; who comes meanwhile waits for what it gets.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Kept {
    token: Secret,
    renew: Instant,
    end: Instant,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource").field("http", &self.http).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct Denied {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl TokenSource {
    pub(super) fn new(http: HttpEndpoint, grant: Grant, patience: Duration) -> Self {
        Self {
            http,
            grant,
            patience,
            kept: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    pub(super) async fn apply(&self, headers: &mut HeaderMap) -> Result<(), ModelError> {
        let token = self.token().await?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| refusal("the token cannot be sent in a header"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// The token is not taken any more.
    pub(super) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn token(&self) -> Result<Secret, ModelError> {
        if let Some(kept) = self.kept()
            && Instant::now() < kept.renew
        {
            return Ok(kept.token);
        }
        let _turn = self.asking.lock().await;
        let old = self.kept();
        if let Some(kept) = &old
            && Instant::now() < kept.renew
        {
            return Ok(kept.token.clone());
        }
        let asked = tokio::time::timeout(self.patience, self.ask()).await;
        let asked = asked.unwrap_or_else(|_| {
            let what = "whoever gives out tokens did not answer in time";
            Err(ModelError::new(ModelErrorKind::Timeout, what))
        });
        match (asked, old) {
            (Ok(kept), _) => {
                *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept.clone());
                Ok(kept.token)
            }
            // The old one still holds; the next call asks again.
            (Err(error), Some(old)) if Instant::now() < old.end => {
                tracing::warn!("a token could not be renewed: {error}");
                Ok(old.token)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn kept(&self) -> Option<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self) -> Result<Kept, ModelError> {
        let asked_at = Instant::now();
        let request = EncodedRequest {
            path: String::new(),
            headers: vec![
                ("content-type", "application/x-www-form-urlencoded".to_owned()),
                ("accept", "application/json".to_owned()),
            ],
            body: self.form()?,
        };
        let mut reply = self.http.send(request).await?;
        let status = reply.status();
        let body = read(&mut reply).await?;
        if !(200..300).contains(&status) {
            return Err(denied(status, &body));
        }
        let given: Given = serde_json::from_slice(&body)
            .map_err(|e| refusal(format!("what was given out is no token: {e}")))?;
        let lasts = given.expires_in.map_or(UNSAID, Duration::from_secs);
        Ok(Kept {
            token: Secret::new(&given.access_token),
            // A short-lived one is used for half of its life.
            renew: asked_at + lasts.saturating_sub(AHEAD).max(lasts / 2),
            end: asked_at + lasts,
        })
    }

    fn form(&self) -> Result<Bytes, ModelError> {
        match &self.grant {
            Grant::Client { id, secret, scope } => Ok(encoded(&[
                ("grant_type", "client_credentials"),
                ("client_id", id),
                ("client_secret", secret.expose()),
                ("scope", scope),
            ])),
            #[cfg(feature = "google")]
            Grant::Statement(statement) => {
                let signed = statement.sign(std::time::SystemTime::now())?;
                let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                Ok(encoded(&[("grant_type", kind), ("assertion", &signed)]))
            }
            #[cfg(feature = "google")]
            Grant::Leave { client_id, client_secret, refresh_token } => Ok(encoded(&[
                ("grant_type", "refresh_token"),
                ("client_id", client_id),
                ("client_secret", client_secret.expose()),
                ("refresh_token", refresh_token.expose()),
            ])),
        }
    }
}

fn encoded(fields: &[(&str, &str)]) -> Bytes {
    // A URL's query is written as forms are.
    let Ok(mut url) = Url::parse("http://form/") else { return Bytes::new() };
    url.query_pairs_mut().extend_pairs(fields);
    Bytes::from(url.query().unwrap_or_default().to_owned())
}

async fn read(reply: &mut Reply) -> Result<Vec<u8>, ModelError> {
    Ok(reply.read(LIMIT).await?.to_vec())
}

fn denied(status: u16, body: &[u8]) -> ModelError {
    let said: Denied = serde_json::from_slice(body)
        .unwrap_or(Denied { error: String::new(), error_description: String::new() });
    let words = match (said.error_description.as_str(), said.error.as_str()) {
        ("", "") => turnbuckle_core::json::clip(&String::from_utf8_lossy(body), 500).to_owned(),
        ("", error) => error.to_owned(),
        (description, _) => description.to_owned(),
    };
    let kind = match status {
        429 => ModelErrorKind::RateLimited,
        500.. => ModelErrorKind::Server,
        _ => ModelErrorKind::Auth,
    };
    let mut error = ModelError::new(kind, format!("no token was given out: {words}"));
    error.status = Some(status);
    error.code = Some(said.error).filter(|code| !code.is_empty());
    error
}

pub(super) fn refusal(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Auth, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_written_as_forms_are() {
        let form = encoded(&[("a", "1 & 2"), ("scope", "https://x/.default")]);
        assert_eq!(&form[..], b"a=1+%26+2&scope=https%3A%2F%2Fx%2F.default");
    }

    #[test]
    fn a_refusal_says_why_in_the_givers_words() {
        let error =
            denied(400, br#"{"error": "invalid_grant", "error_description": "Account not found"}"#);
        assert_eq!(
            (error.kind, error.message.as_str(), error.status, error.code.as_deref()),
            (
                ModelErrorKind::Auth,
                "no token was given out: Account not found",
                Some(400),
                Some("invalid_grant")
            )
        );
        assert_eq!(denied(503, b"<html>").kind, ModelErrorKind::Server);
    }
}
