//! The closed vocabularies of the desk. Each word is the same in the database, in JSON and in the
//! schema a model sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// A vocabulary whose words are stored as text.
pub(crate) trait Word: Sized {
    fn read(word: &str) -> Option<Self>;
}

/// A word read back from the database, whose checks only admit known ones.
pub(crate) fn stored<T: Word>(word: &str) -> Result<T> {
    T::read(word).ok_or_else(|| sqlx::Error::Decode(format!("unknown word {word:?}").into()).into())
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// The word stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl Word for $name {
            fn read(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    )*};
}

words! {
    /// Where a thread stands.
    ThreadStatus {
        /// Waiting for someone.
        Open = "open",
        /// Done.
        Archived = "archived",
        /// Unwanted mail.
        Spam = "spam",
        /// Thrown away.
        Trash = "trash",
    }
    /// What a member is to the desk. Rights are granted one by one, not by role.
    Role {
        /// Owns the desk.
        Owner = "owner",
        /// Administers it.
        Admin = "admin",
        /// Works at it.
        User = "user",
    }
    /// How pressing a task is.
    Priority {
        /// Whenever there is time.
        Low = "low",
        /// The usual.
        Normal = "normal",
        /// Before the usual.
        High = "high",
        /// Now.
        Urgent = "urgent",
    }
    /// Where an order stands.
    OrderStatus {
        /// Placed, not paid.
        Pending = "pending",
        /// Paid, not sent.
        Paid = "paid",
        /// On its way.
        Shipped = "shipped",
        /// Arrived.
        Delivered = "delivered",
        /// Called off before it was sent.
        Cancelled = "cancelled",
    }
    /// Who an article is for.
    Audience {
        /// Everyone, customers included.
        Public = "public",
        /// Members of the desk only.
        Internal = "internal",
    }
    /// Which way a message went.
    MessageDirection {
        /// To the desk.
        Inbound = "inbound",
        /// From the desk.
        Outbound = "outbound",
    }
    /// Which end of a sorted list comes first.
    Direction {
        /// Smallest, oldest or first of the alphabet.
        Asc = "asc",
        /// Largest, newest or last of the alphabet.
        Desc = "desc",
    }
}
