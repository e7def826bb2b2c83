//! Newtypes for identifiers. All are cheap to clone and print as plain strings.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a string.
            pub fn new(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.into())
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

id!(
    /// An organisation whose data is kept apart from every other's.
    TenantId
);
id!(
    /// A person (or a service acting for one) within a tenant.
    UserId
);
id!(
    /// A conversation.
    SessionId
);
id!(
    /// One turn: a user message and everything done until the engine hands control back.
    TurnId
);
id!(
    /// A stored message. Ids of a turn's messages are derived from the turn's id, so that replay mints the same ones.
    MessageId
);
id!(
    /// A tool call, unique over all sessions: the turn's id and the call's ordinal in it, or the id of the call that runs
    /// the sub-agent and the ordinal among the sub-agent's calls.
    CallId
);
id!(
    /// Work that is done once, some time, by any worker; unique in its tenant.
    JobId
);
id!(
    /// A schedule that makes jobs; unique in its tenant.
    ScheduleId
);
id!(
    /// A registered agent's name.
    AgentName
);
id!(
    /// A registered tool's name, as the model sees it.
    ToolName
);

/// A session as its tenant may name it. An id under another tenant names nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, unique over all tenants.
    pub id: SessionId,
}

impl SessionKey {
    /// Names a session.
    pub fn new(tenant: impl Into<TenantId>, id: impl Into<SessionId>) -> Self {
        Self { tenant: tenant.into(), id: id.into() }
    }
}

impl TurnId {
    /// The id of the user message that opens the turn.
    pub fn user_message(&self) -> MessageId {
        MessageId::from(format!("{self}-u"))
    }

    /// The id of the turn's assistant message.
    pub fn assistant_message(&self) -> MessageId {
        MessageId::from(format!("{self}-a"))
    }

    /// The id of the `ordinal`-th tool call of the turn, counted over the agents of its route.
    pub fn call(&self, ordinal: u32) -> CallId {
        CallId::from(format!("{self}-{ordinal}"))
    }
}

impl CallId {
    /// The id of the approval card that asks about this call.
    pub fn card(&self) -> MessageId {
        MessageId::from(format!("{self}-card"))
    }

    /// The id of the `ordinal`-th call of the sub-agent that this call runs. It does not depend on what runs beside it.
    pub fn nested(&self, ordinal: u32) -> CallId {
        CallId::from(format!("{self}.{ordinal}"))
    }

    /// The id of the nested assistant message when the call runs a sub-agent.
    pub fn child_message(&self) -> MessageId {
        MessageId::from(format!("{self}-a"))
    }

    /// The key under which a tool with outside effects can recognise a repeated execution.
    pub fn idempotency_key(&self) -> &str {
        self.as_str()
    }
}
