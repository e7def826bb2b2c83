//! Who a request is.

use crate::dto::{AuthKind, Role, WhoAmI};
use std::collections::BTreeSet;
use turnbuckle_core::ids::{SessionKey, TenantId, UserId};
use turnbuckle_core::time::Timestamp;

/// Who a request is, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The organisation.
    pub tenant: TenantId,
    /// The person.
    pub user: UserId,
    /// What they may do.
    pub roles: BTreeSet<Role>,
    /// The id of the API key.
    pub key: Option<String>,
    /// How that is known.
    pub kind: AuthKind,
    /// Until when the credentials hold.
    pub until: Option<Timestamp>,
}

impl Principal {
    /// Someone with every role, who is known without credentials.
    pub fn local(tenant: impl Into<TenantId>, user: impl Into<UserId>) -> Self {
        Self {
            tenant: tenant.into(),
            user: user.into(),
            roles: [Role::User, Role::Approver, Role::Operator, Role::Admin].into(),
            key: None,
            kind: AuthKind::None,
            until: None,
        }
    }

    /// Whether they have a role; an admin has all.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role) || self.roles.contains(&Role::Admin)
    }

    /// The key of a session in their tenant.
    pub fn session(&self, id: &str) -> SessionKey {
        SessionKey::new(self.tenant.clone(), id)
    }
}

impl From<&Principal> for WhoAmI {
    fn from(p: &Principal) -> Self {
        Self {
            tenant: p.tenant.to_string(),
            user: p.user.to_string(),
            roles: p.roles.clone(),
            auth: p.kind,
            key: p.key.clone(),
        }
    }
}
