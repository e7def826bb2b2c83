//! Lists and their pages.

use std::fmt;
use std::str::FromStr;
use turnbuckle_core::ids::SessionId;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::ids::UserId;
use turnbuckle_core::message::CardStatus;
use turnbuckle_core::time::Timestamp;

/// Which cards to list, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct CardQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only with this status.
    pub status: Option<CardStatus>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

/// Which sessions to list, last updated first.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this person.
    pub user: Option<UserId>,
    /// Only with this text in the title, upper and lower case alike.
    pub title_contains: Option<String>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
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
