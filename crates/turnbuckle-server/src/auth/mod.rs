//! Who a request is, and what it may do.
//!
//! | module | holds |
//! |---|---|
//! | [`principal`] | who a request is |
//! | [`access`] | what they may do; decided without I/O |
//! | [`keys`] | API keys |
//! | [`jwt`] | tokens of an identity provider |
//! | [`origin`] | what a browser may send while there is no authentication |

pub mod access;
pub mod jwt;
pub mod keys;
pub mod origin;
pub mod principal;

use crate::accounts::Accounts;
use crate::problem::{Answer, Code, Problem};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use principal::Principal;
use std::sync::Arc;
use turnbuckle_core::time::Timestamp;

/// How requests show who they are.
pub enum Authenticator {
    /// Not at all: everyone who reaches the server is this person. For loopback only.
    Open(Principal),
    /// With an API key or a token.
    Required {
        /// Where keys are.
        accounts: Arc<dyn Accounts>,
        /// Tokens, when any are taken.
        jwt: Option<Box<jwt::Tokens>>,
    },
}

impl Authenticator {
    /// Who sent these headers.
    ///
    /// # Errors
    /// `unauthenticated`, and alike for every reason; when keys cannot be looked up.
    pub async fn principal(&self, headers: &HeaderMap, now: Timestamp) -> Answer<Principal> {
        let (accounts, jwt) = match self {
            Self::Open(local) => return Ok(local.clone()),
            Self::Required { accounts, jwt } => (accounts, jwt),
        };
        let secret = bearer(headers).ok_or_else(refused)?;
        if secret.starts_with(keys::PREFIX) {
            let key = accounts.key_by_hash(keys::hash(secret)).await?.ok_or_else(refused)?;
            return key.principal(now).ok_or_else(refused);
        }
        match jwt {
            Some(tokens) => match tokens.principal(secret, now).await {
                Ok(principal) => Ok(principal),
                Err(why) => {
                    tracing::debug!("a token was refused: {why}");
                    Err(refused())
                }
            },
            None => Err(refused()),
        }
    }

    /// Whether everyone who reaches the server is let in.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim()).filter(|s| !s.is_empty())
}

fn refused() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "Send an API key or a token as `Authorization: Bearer ...`.",
    )
}
