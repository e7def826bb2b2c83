//! Clouds whose requests carry more than a key: tokens that are asked for and run out, and signatures over the request.
//!
//! | module | holds |
//! |---|---|
//! | `token` | OAuth tokens, kept until shortly before they run out |
//! | `google` | what a Google credentials file is exchanged for (feature `google`) |
//! | `aws` | AWS Signature Version 4 (feature `aws`) |

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "google")]
mod google;
mod token;

use crate::config::{Auth, ConfigError, TokenAuth};
use crate::secret::Secret;
use crate::transport::{HttpEndpoint, HttpOptions, Route};
use bytes::Bytes;
use http::{HeaderMap, Method};
use std::time::Duration;
use token::{Grant, TokenSource};
use turnbuckle_core::error::ModelError;

/// What is added to each request of an endpoint when it is sent.
#[derive(Debug)]
pub enum Credentials {
    /// A bearer token that is asked for.
    Token(Box<TokenSource>),
    /// A signature.
    #[cfg(feature = "aws")]
    Aws(Box<aws::Signer>),
}

/// Where and how long tokens are asked for.
pub(crate) struct Asking<'a> {
    /// The provider, for messages.
    pub(crate) provider: &'a str,
    /// How long a connection may take to stand.
    pub(crate) connect_timeout: Duration,
    /// How long an answer may take.
    pub(crate) answer_timeout: Duration,
    /// How connections are made.
    pub(crate) route: Route,
}

impl Credentials {
    /// For a way of being authorised; `None` where a header that never changes does.
    ///
    /// # Errors
    /// When the credentials are not what they should be, or this build cannot use them.
    pub(crate) fn of(auth: &Auth, asking: &Asking<'_>) -> Result<Option<Self>, ConfigError> {
        match auth {
            Auth::Key | Auth::Bearer => Ok(None),
            Auth::Token(TokenAuth::Entra { token_url, client_id, client_secret }) => {
                let grant = Grant::Client {
                    id: client_id.clone(),
                    secret: client_secret.clone(),
                    scope: "https://cognitiveservices.azure.com/.default",
                };
                Self::token(grant, token_url, asking)
            }
            #[cfg(feature = "google")]
            Auth::Token(TokenAuth::Google { credentials, token_url }) => {
                let bad = |problem| ConfigError::BadCredentials {
                    provider: asking.provider.to_owned(),
                    problem,
                };
                let (grant, own_url) = google::grant(credentials).map_err(bad)?;
                Self::token(grant, token_url.as_deref().unwrap_or(&own_url), asking)
            }
            #[cfg(not(feature = "google"))]
            Auth::Token(TokenAuth::Google { .. }) => Err(not_built(asking.provider, "google")),
            #[cfg(feature = "aws")]
            Auth::Aws(auth) => Ok(Some(Credentials::Aws(Box::new(aws::Signer::new(auth))))),
            #[cfg(not(feature = "aws"))]
            Auth::Aws(_) => Err(not_built(asking.provider, "aws")),
        }
    }

    fn token(
        grant: Grant,
        token_url: &str,
        asking: &Asking<'_>,
    ) -> Result<Option<Self>, ConfigError> {
        let http = HttpEndpoint::new(&HttpOptions {
            provider: asking.provider,
            base_url: token_url,
            auth: None,
            headers: &[],
            connect_timeout: asking.connect_timeout,
            route: asking.route,
        })?;
        Ok(Some(Credentials::Token(Box::new(TokenSource::new(http, grant, asking.answer_timeout)))))
    }

    /// Adds what proves that the request may be made.
    ///
    /// # Errors
    /// When no token is to be had; the words are those of whoever gives them out.
    #[cfg_attr(
        not(feature = "aws"),
        allow(unused_variables, reason = "only signatures are over the whole request")
    )]
    pub(crate) async fn apply(
        &self,
        method: &Method,
        url: &str,
        headers: &mut HeaderMap,
        body: &Bytes,
    ) -> Result<(), ModelError> {
        match self {
            Credentials::Token(source) => source.apply(headers).await,
            #[cfg(feature = "aws")]
            Credentials::Aws(signer) => {
                signer.sign(std::time::SystemTime::now(), method, url, headers, body)
            }
        }
    }

    /// Gives up what was just refused, so that the next call asks anew.
    pub(crate) fn refused(&self) {
        match self {
            Credentials::Token(source) => source.forget(),
            #[cfg(feature = "aws")]
            Credentials::Aws(_) => {}
        }
    }

    /// What must never be seen.
    pub(crate) fn secrets(auth: &Auth) -> Vec<Secret> {
        match auth {
            Auth::Key | Auth::Bearer => Vec::new(),
            Auth::Token(TokenAuth::Entra { client_secret, .. }) => vec![client_secret.clone()],
            Auth::Token(TokenAuth::Google { credentials, .. }) => vec![credentials.clone()],
            Auth::Aws(aws) => {
                let token = aws.session_token.clone();
                std::iter::once(aws.secret_key.clone()).chain(token).collect()
            }
        }
    }
}

#[cfg(not(all(feature = "aws", feature = "google")))]
fn not_built(provider: &str, feature: &'static str) -> ConfigError {
    ConfigError::NotBuilt { provider: provider.to_owned(), feature }
}
