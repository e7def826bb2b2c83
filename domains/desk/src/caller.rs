//! On whose behalf a call runs. Every query takes a [`Caller`]; there is no query without one.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::error::{DeskError, Result};
use crate::ids::MemberId;

/// Something a member may do, beyond what the inboxes grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Read threads and drafts, in the inboxes granted to the member.
    ReadMail,
    /// Answer and change threads, in the inboxes granted for writing.
    WriteMail,
    /// Create and complete tasks.
    WriteTasks,
    /// See and complete tasks of others.
    ManageTasks,
    /// Read orders.
    ReadOrders,
    /// Give money back on an order.
    RefundOrders,
    /// Read articles that are not public.
    ReadInternalArticles,
}

impl Right {
    /// Every right there is.
    pub const ALL: [Self; 7] = [
        Self::ReadMail,
        Self::WriteMail,
        Self::WriteTasks,
        Self::ManageTasks,
        Self::ReadOrders,
        Self::RefundOrders,
        Self::ReadInternalArticles,
    ];

    /// The word stored and shown for this right.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadMail => "read_mail",
            Self::WriteMail => "write_mail",
            Self::WriteTasks => "write_tasks",
            Self::ManageTasks => "manage_tasks",
            Self::ReadOrders => "read_orders",
            Self::RefundOrders => "refund_orders",
            Self::ReadInternalArticles => "read_internal_articles",
        }
    }

    /// The right a stored word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.as_str() == word)
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u32);

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);

    /// Whether the set holds the right.
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// The set with one right more.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | right.bit())
    }

    /// The set with one right less.
    #[must_use]
    pub const fn without(self, right: Right) -> Self {
        Self(self.0 & !right.bit())
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        rights.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The member a call runs for. Rights are those held when it was made: load it anew per turn with
/// [`crate::Desk::caller`]. What a member may read in the mail follows the inbox grants in the
/// database, looked up at each call.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who asks.
    pub member: MemberId,
    /// What they may do.
    pub rights: Rights,
    /// The zone in which their dates and deadlines are meant.
    pub zone: TimeZone,
}

impl Caller {
    pub(crate) fn require(&self, right: Right) -> Result<()> {
        if self.rights.has(right) {
            return Ok(());
        }
        Err(DeskError::forbidden(match right {
            Right::ReadMail => "read mail",
            Right::WriteMail => "answer or change mail",
            Right::WriteTasks => "create or complete tasks",
            Right::ManageTasks => "manage the tasks of others",
            Right::ReadOrders => "read orders",
            Right::RefundOrders => "refund orders",
            Right::ReadInternalArticles => "read internal articles",
        }))
    }
}
