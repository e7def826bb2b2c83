//! What a Google credentials file is exchanged for: a service account signs a statement (RFC 7523), a person's leave is
//! renewed.

use super::token::{Grant, refusal};
use crate::secret::Secret;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};
use turnbuckle_core::error::ModelError;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// How long a statement holds, in seconds; the giver takes no more than an hour.
const HOLDS: u64 = 3600;

/// A credentials file, as far as it is read.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum File {
    ServiceAccount {
        client_email: String,
        private_key: String,
        #[serde(default)]
        private_key_id: Option<String>,
        #[serde(default)]
        token_uri: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        #[serde(default)]
        token_uri: Option<String>,
    },
}

/// What the file allows to ask for, and where. The error never shows what stands in the file.
pub(super) fn grant(credentials: &Secret) -> Result<(Grant, String), String> {
    let file: File = serde_json::from_str(credentials.expose()).map_err(|e| {
        format!(
            "it is neither a service account's nor a person's (type service_account or authorized_user): {} at line {}",
            words(&e),
            e.line()
        )
    })?;
    let url = |own: Option<String>| own.unwrap_or_else(|| TOKEN_URL.to_owned());
    match file {
        File::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
            let key = EncodingKey::from_rsa_pem(private_key.as_bytes())
                .map_err(|_| "its private_key is no RSA key in PEM".to_owned())?;
            let url = url(token_uri);
            let statement = Statement {
                key,
                key_id: private_key_id,
                issuer: client_email,
                audience: url.clone(),
            };
            Ok((Grant::Statement(statement), url))
        }
        File::AuthorizedUser { client_id, client_secret, refresh_token, token_uri } => {
            let grant = Grant::Leave {
                client_id,
                client_secret: Secret::new(&client_secret),
                refresh_token: Secret::new(&refresh_token),
            };
            Ok((grant, url(token_uri)))
        }
    }
}

fn words(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field is missing or of another kind",
        _ => "it is not JSON",
    }
}

/// Signs who asks, for what, and until when.
pub(super) struct Statement {
    key: EncodingKey,
    key_id: Option<String>,
    issuer: String,
    audience: String,
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

impl Statement {
    pub(super) fn sign(&self, now: SystemTime) -> Result<String, ModelError> {
        let iat = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims =
            Claims { iss: &self.issuer, scope: SCOPE, aud: &self.audience, iat, exp: iat + HOLDS };
        let mut header = Header::new(Algorithm::RS256);
        header.kid.clone_from(&self.key_id);
        jsonwebtoken::encode(&header, &claims, &self.key)
            .map_err(|e| refusal(format!("the service account's key cannot sign: {e}")))
    }
}
