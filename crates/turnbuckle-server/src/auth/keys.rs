//! API keys: 32 random bytes. Only their hash is kept; since they are random, a plain hash is as good as a slow one.

use super::principal::Principal;
use crate::digest::hex;
use crate::dto::{AuthKind, KeyView, Role};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use turnbuckle_core::ids::{TenantId, UserId};
use turnbuckle_core::time::Timestamp;

/// Every key begins with it.
pub const PREFIX: &str = "tbk_";

/// What is kept of a key's secret.
pub type Hash = [u8; 32];

/// The hash of a secret.
pub fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// A new secret: the prefix and 64 hexadecimal digits, from the system's random source.
///
/// # Errors
/// When the system has no randomness to give.
pub fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// A key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its id, for people.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// The person it acts for.
    pub user: UserId,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub roles: BTreeSet<Role>,
    /// When it was made.
    pub created: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Key {
    /// Who shows it; `None` when it is revoked or its time has run out.
    pub fn principal(self, now: Timestamp) -> Option<Principal> {
        if self.revoked_at.is_some() || self.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        Some(Principal {
            tenant: self.tenant,
            user: self.user,
            roles: self.roles,
            key: Some(self.id),
            kind: AuthKind::Key,
            until: self.expires_at,
        })
    }
}

impl From<Key> for KeyView {
    fn from(key: Key) -> Self {
        Self {
            id: key.id,
            name: key.name,
            user: key.user.to_string(),
            roles: key.roles,
            created: key.created,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_only_their_hash_is_needed() {
        let (a, b) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(a, b);
        assert_eq!((a.len(), a.starts_with(PREFIX)), (68, true));
        assert_eq!(hash(&a), hash(&a));
        assert_ne!(hash(&a), hash(&b));
    }

    #[test]
    fn a_key_works_until_its_time_and_until_it_is_revoked() {
        let at = Timestamp::from_millis;
        let key = Key {
            id: "k_1".into(),
            tenant: "acme".into(),
            user: "ada".into(),
            name: "ci".into(),
            roles: [Role::User].into(),
            created: at(0),
            expires_at: Some(at(100)),
            revoked_at: None,
        };
        assert_eq!(key.clone().principal(at(99)).unwrap().until, Some(at(100)));
        assert_eq!(key.clone().principal(at(100)), None);
        assert_eq!(Key { revoked_at: Some(at(1)), ..key }.principal(at(2)), None);
    }
}
