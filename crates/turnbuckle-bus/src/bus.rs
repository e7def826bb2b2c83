//! The contract every bus keeps.

use crate::error::BusError;
use crate::hub::{Calls, Watch};
use crate::notice::{Call, Notice};
use futures_util::future::BoxFuture;
use turnbuckle_core::ids::SessionKey;

/// The future of a bus operation.
pub type BusFuture<'a, T> = BoxFuture<'a, T>;

/// Between those who work on sessions and those who watch them, in one process or many.
///
/// | who | operations |
/// |---|---|
/// | the owner of a session | `wanted`, `publish` |
/// | who shows a session to somebody | `watch` |
/// | whoever posts to an inbox, enqueues a job, stops a turn | `call` |
/// | a worker | `attend` |
///
/// Telling is never slow and never fails: it does not wait for a listener, a network or a lock that is held over either.
/// What cannot be passed on is dropped, and those who miss it are told that they lagged as soon as they can be. What one
/// caller tells about one session arrives in that order.
///
/// A bus between processes delivers within its own process at once and without the network, so that a server goes on alone
/// while the others cannot be reached. As long as it cannot hear them, every listener is told once a second that it lagged;
/// nobody needs a timer of their own.
pub trait Bus: Send + Sync + 'static {
    /// Whether anyone may be watching the session, in any process. When not, an owner can save itself the making of
    /// [`Notice::Events`]; the other notices are cheap enough to be told anyway. Whoever begins to watch and wants what was not
    /// told meanwhile asks for it with [`Call::Recall`].
    fn wanted(&self, session: &SessionKey) -> bool;

    /// Tells whoever watches the session, in any process.
    fn publish(&self, session: &SessionKey, notice: Notice);

    /// Tells every worker, in any process, this one included.
    fn call(&self, call: Call);

    /// Hears of a session from now on: whatever is told after this has returned reaches the watch, or the watch lags.
    fn watch<'a>(&'a self, session: &'a SessionKey) -> BusFuture<'a, Watch>;

    /// Hears every call from now on.
    fn attend(&self) -> BusFuture<'_, Calls>;

    /// Whether other processes can be reached, for those who report on the state of the service.
    ///
    /// # Errors
    /// `Unavailable`, with the backend's own words.
    fn check(&self) -> BusFuture<'_, Result<(), BusError>>;

    /// Passes on what was told so far, as far as that is possible within a few seconds, and ends every watch. Nothing can be
    /// told afterwards.
    fn close(&self) -> BusFuture<'_, ()>;
}
