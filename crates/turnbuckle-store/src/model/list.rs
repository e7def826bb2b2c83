//! Lists and their pages.

use crate::model::{Captured, CapturedIn, CapturedStatus, SessionStatus};
use std::fmt;
use std::str::FromStr;
use turnbuckle_core::ids::{AgentName, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::CardStatus;
use turnbuckle_core::time::Timestamp;

/// Which cards to list, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct CardQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this person's sessions.
    pub user: Option<UserId>,
    /// Only those that stand so.
    pub standing: CardStanding,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

impl CardQuery {
    /// All cards of a tenant, 50 at once.
    pub fn of(tenant: TenantId) -> Self {
        let standing = CardStanding::Any;
        Self { tenant, session: None, user: None, standing, after: None, limit: 50 }
    }
}

/// Cards by where they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CardStanding {
    /// All.
    #[default]
    Any,
    /// Those that wait, answered or not.
    Pending,
    /// Those that are settled.
    Settled,
}

impl CardStanding {
    /// Whether a card of this status is among them.
    pub fn holds(self, status: CardStatus) -> bool {
        match self {
            CardStanding::Any => true,
            CardStanding::Pending => status == CardStatus::Pending,
            CardStanding::Settled => status != CardStatus::Pending,
        }
    }
}

/// Which captured actions to list, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this turn.
    pub turn: Option<TurnId>,
    /// Only of this person's sessions.
    pub user: Option<UserId>,
    /// Only those that stand so.
    pub status: Option<CapturedStatus>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

impl CapturedQuery {
    /// All captured actions of a tenant, 50 at once.
    pub fn of(tenant: TenantId) -> Self {
        let (session, turn, user) = (None, None, None);
        Self { tenant, session, turn, user, status: None, after: None, limit: 50 }
    }
}

/// Which sessions to list, last updated first.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this person.
    pub user: Option<UserId>,
    /// Only with this agent.
    pub agent: Option<AgentName>,
    /// Only those that do this.
    pub status: Option<SessionStatus>,
    /// Only with this text in the title, upper and lower case alike.
    pub title_contains: Option<String>,
    /// Only with this text in the title, or with a message in which every word of it begins a word: `refund parc` finds
    /// "Refunds for parcels". Upper and lower case are alike.
    pub search: Option<String>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

impl SessionQuery {
    /// All sessions of a tenant, 50 at once.
    pub fn of(tenant: TenantId) -> Self {
        let (user, agent, status) = (None, None, None);
        let (title_contains, search) = (None, None);
        Self { tenant, user, agent, status, title_contains, search, after: None, limit: 50 }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; absent on the last page.
    pub next: Option<Cursor>,
}

/// Makes a page of one item more than fit, if there are so many.
pub(crate) fn page<T>(mut items: Vec<T>, limit: u32, place: impl Fn(&T) -> Cursor) -> Page<T> {
    let limit = limit as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = if more { items.last().map(place) } else { None };
    Page { items, next }
}

/// A place in a list: the last item seen. Prints as text for a query string and reads back.
///
/// Items that nobody changes are seen exactly once over all pages; one that moves to the top meanwhile is not seen twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its time.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.as_millis(), self.id)
    }
}

/// Text that is not a [`Cursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list; begin at the first page")]
pub struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (at, id) = text.split_once('.').ok_or(NotACursor)?;
        let at = at.parse().map_err(|_| NotACursor)?;
        Ok(Self { at: Timestamp::from_millis(at), id: id.to_owned() })
    }
}

/// The place of a captured action among all of its tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CapturedPlace {
    pub(crate) at: Timestamp,
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) index: u32,
}

impl CapturedPlace {
    pub(crate) fn of(one: &CapturedIn) -> Self {
        let Captured { turn, index, .. } = &one.captured;
        Self { at: one.at, session: one.session.id.clone(), turn: turn.clone(), index: *index }
    }

    /// The lengths keep ids apart that may hold anything.
    pub(crate) fn cursor(&self) -> Cursor {
        let (session, turn) = (self.session.as_str(), self.turn.as_str());
        Cursor { at: self.at, id: format!("{}.{}.{session}{turn}", self.index, session.len()) }
    }

    /// A cursor that was not made here is a place at the very end.
    pub(crate) fn read(cursor: &Cursor) -> Self {
        let parts = || {
            let (index, rest) = cursor.id.split_once('.')?;
            let (length, rest) = rest.split_once('.')?;
            let (session, turn) = rest.split_at_checked(length.parse().ok()?)?;
            Some((index.parse().ok()?, session.into(), turn.into()))
        };
        let (index, session, turn) =
            parts().unwrap_or((u32::MAX, SessionId::from("\u{10FFFF}"), TurnId::from("")));
        Self { at: cursor.at, session, turn, index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_cursor() {
        let at = Timestamp::from_millis(-5);
        for (session, turn) in [("s", "t"), ("a.b", ".t."), ("ü", ""), ("", "")] {
            let place = CapturedPlace { at, session: session.into(), turn: turn.into(), index: 7 };
            let cursor: Cursor = place.cursor().to_string().parse().unwrap();
            assert_eq!(CapturedPlace::read(&cursor), place);
        }
        for broken in ["", "1", "1.2", "x.1.s", "1.9.s", "1.1.ü"] {
            let _ends = CapturedPlace::read(&Cursor { at, id: broken.to_owned() });
        }
    }
}
