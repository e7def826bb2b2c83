//! The contract every store keeps.

use crate::error::StoreError;
use crate::model::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedQuery, CapturedUpdate, Card,
    CardQuery, Claim, Commit, Committed, Export, Fork, ImportedUsage, InboxItem, KeptAllowance,
    KeptUsage, Loaded, MeteredCall, NewSession, Page, Post, Receipt, Release, Released, Session,
    SessionKey, SessionQuery, TurnLog, TurnRecord, UsageGroup, UsageQuery, View,
};
use futures_util::future::BoxFuture;
use std::ops::Range;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

/// The future of a store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Sessions and all that belongs to them.
///
/// Every operation is one transaction: it happens whole or not at all, and is durable when it returns. A future that is
/// dropped half-way leaves either the state before or the state after. Operations answer [`StoreError::NotFound`] alike for
/// what does not exist and for what belongs to another tenant.
///
/// | who | operations |
/// |---|---|
/// | the owner of a session | `claim`, `load`, `commit`, `renew`, `release`, `park` |
/// | anyone, at any time | `post`, `session`, `view`, `messages`, `events`, `cards`, and the other readers |
/// | a worker in search of work | `claimable`, `expired_cards`, `forfeit` |
/// | whoever looks after it all | `writable`, `tenants`, `parked`, `unpark`, `usage`, `export_session`, `import_session`, `every_usage`, `meter`, `every_allowance`, `allow` |
pub trait Store: Send + Sync + 'static {
    /// Creates a session: idle, without messages, with the fence at 0.
    ///
    /// # Errors
    /// [`Conflict::SessionExists`](crate::Conflict::SessionExists) when the id is or was in use, whoever's it is.
    fn create_session(&self, new: NewSession) -> StoreFuture<'_, Session>;

    /// Reads a session's row.
    ///
    /// # Errors
    /// `NotFound`.
    fn session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Session>;

    /// Reads all an owner needs, of one moment.
    ///
    /// # Errors
    /// `NotFound`.
    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Loaded>;

    /// Reads what is needed to show a session with its last `messages` messages and to go on with its events.
    ///
    /// # Errors
    /// `NotFound`.
    fn view<'a>(&'a self, key: &'a SessionKey, messages: u32) -> StoreFuture<'a, View>;

    /// Lists sessions, last updated first.
    ///
    /// # Errors
    /// Only those of the backend.
    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Page<Session>>;

    /// Gives a session a title, whoever owns it. An owner's own cached title is not what counts; the stored one does.
    ///
    /// # Errors
    /// `NotFound`.
    fn set_title<'a>(
        &'a self,
        key: &'a SessionKey,
        title: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Chooses the model a session keeps, whoever owns it; it answers from the session's next turn on.
    ///
    /// # Errors
    /// `NotFound`.
    fn set_model<'a>(&'a self, key: &'a SessionKey, model: &'a str) -> StoreFuture<'a, ()>;

    /// Deletes a session and all that belongs to it. Its id cannot be used again, so no late writer can meet a new session.
    ///
    /// # Errors
    /// `NotFound`; `Busy` while somebody holds an unexpired lease: stop the turn and wait for the release, or for the lease to
    /// run out. An owner whose lease ran out meets `NotFound` at its next commit.
    fn delete_session<'a>(&'a self, key: &'a SessionKey, now: Timestamp) -> StoreFuture<'a, ()>;

    /// Copies a session up to a place into a new one: messages and turns that are finished, the state, the blobs. Events and
    /// journals stay with the original; the copy numbers its events from 1. Cards in copied messages are records of what was
    /// decided and cannot be found by id.
    ///
    /// # Errors
    /// `NotFound`; [`Conflict::SessionExists`](crate::Conflict::SessionExists);
    /// [`Conflict::NoSuchPlace`](crate::Conflict::NoSuchPlace).
    fn fork_session(&self, fork: Fork) -> StoreFuture<'_, Session>;

    /// Takes a session for `lease_ms`, when nobody holds it or the lease of whoever did ran out at or before `now`. An owner
    /// that asks twice is `Busy` too: it must renew instead.
    ///
    /// # Errors
    /// `NotFound`.
    fn claim<'a>(
        &'a self,
        key: &'a SessionKey,
        owner: &'a str,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, Claim>;

    /// Prolongs a lease to `lease_ms` from `now`, even one that ran out as long as nobody has taken the session.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`.
    fn renew<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Gives a session back. Inputs posted at the same moment are either seen (`StillPending`) or make the session
    /// [`claimable`](Store::claimable); none is overlooked. The fence is void after it.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`.
    fn release<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        when: Release,
    ) -> StoreFuture<'a, Released>;

    /// Sets a session aside, since the turn that is open cannot be gone on with: its journal cannot be rebuilt, say. The
    /// session is given back as it is and is not [`claimable`](Store::claimable) any more, whatever is posted, so that no
    /// worker takes it up again and again. Whoever can do better may claim it all the same: a newer version, or somebody who
    /// ends the turn. The next commit that opens a turn, or says where the open one stands, makes the session an ordinary one.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`.
    fn park<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        reason: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Lets workers take up a session that was set aside. Does nothing to others.
    ///
    /// # Errors
    /// `NotFound`.
    fn unpark<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()>;

    /// Lists the sessions of every tenant that are set aside, by id, from behind the one given on.
    ///
    /// # Errors
    /// Only those of the backend.
    fn parked<'a>(
        &'a self,
        after: Option<&'a SessionId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Session>>;

    /// Writes one step. Repeating the last commit word for word changes nothing and gives the same answer, so a commit whose
    /// fate is unknown may be tried again.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`; and a [`Conflict`](crate::Conflict): `Gap`, `TurnOpen`, `NotTheOpenTurn`, `NotWaiting`. Nothing
    /// is written then.
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed>;

    /// Reads up to `limit` messages from position `from` on.
    ///
    /// # Errors
    /// `NotFound`.
    fn messages<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u32,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Message>>;

    /// Reads up to `limit` events after number `after_seq`, without gaps.
    ///
    /// # Errors
    /// `NotFound`.
    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        after_seq: u64,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Event>>;

    /// Reads a turn with its whole journal.
    ///
    /// # Errors
    /// `NotFound`.
    fn journal<'a>(&'a self, key: &'a SessionKey, turn: &'a TurnId) -> StoreFuture<'a, TurnLog>;

    /// Lists a session's turns, oldest first.
    ///
    /// # Errors
    /// `NotFound`.
    fn turns<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<TurnRecord>>;

    /// Lists cards, oldest first.
    ///
    /// # Errors
    /// Only those of the backend.
    fn cards(&self, query: CardQuery) -> StoreFuture<'_, Page<Card>>;

    /// Reads a card by id.
    ///
    /// # Errors
    /// `NotFound`.
    fn card<'a>(&'a self, tenant: &'a TenantId, card: &'a MessageId) -> StoreFuture<'a, Card>;

    /// Lists unanswered cards of every tenant whose time has run out at `now`, for the clock to post its decision.
    ///
    /// # Errors
    /// Only those of the backend.
    fn expired_cards(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Card>>;

    /// Puts an input into a session's inbox and counts it in the session's `pending`, whoever owns the session.
    ///
    /// # Errors
    /// `NotFound` for the session, or for the card of a decision; and a [`Conflict`](crate::Conflict): `KeyReused`;
    /// `Decided` when the card is not pending or its answer is already posted, so that of two people who decide at once
    /// exactly one succeeds; `WrongAnswer` when a card that asks for a decision gets a client result, or the reverse.
    /// (Rejecting or expiring a card that asks for a client result is allowed: the front end may never answer.)
    fn post(&self, post: Post) -> StoreFuture<'_, Receipt>;

    /// Reads the inputs that wait, oldest first.
    ///
    /// # Errors
    /// `NotFound`.
    fn inbox<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<InboxItem>>;

    /// Lists sessions that need an owner and have none at `now`: inputs wait, or a turn was running when its owner's lease
    /// ran out or was handed over. Those without any lease first.
    ///
    /// # Errors
    /// Only those of the backend.
    fn claimable(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<SessionKey>>;

    /// Whether something can be stored at this moment, tried by storing something small where the backend could refuse.
    ///
    /// # Errors
    /// `Full`, `Unavailable`, and whatever else stands in the way.
    fn writable(&self, now: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.claimable(now, 1).await.map(drop) })
    }

    /// Takes back every lease of `owner`, and says how many. For a process that starts and knows itself to be the only one of
    /// that name: what an earlier run left behind need not wait for its lease.
    ///
    /// # Errors
    /// Only those of the backend.
    fn forfeit<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, u64>;

    /// Lists a session's captured actions by turn (in the order the turns were opened) and index; `turn` narrows to one.
    ///
    /// # Errors
    /// `NotFound` for the session.
    fn captured<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: Option<&'a TurnId>,
    ) -> StoreFuture<'a, Vec<Captured>>;

    /// Lists captured actions, oldest first.
    ///
    /// # Errors
    /// Only those of the backend.
    fn list_captured(&self, query: CapturedQuery) -> StoreFuture<'_, Page<CapturedIn>>;

    /// Changes a captured action that nobody has changed since the caller read it.
    ///
    /// # Errors
    /// `NotFound`; [`Conflict::Stale`](crate::Conflict::Stale).
    fn update_captured(&self, update: CapturedUpdate) -> StoreFuture<'_, Captured>;

    /// Keeps a large output aside, outside any commit.
    ///
    /// # Errors
    /// `NotFound` for the session.
    fn put_blob<'a>(&'a self, key: &'a SessionKey, blob: Blob) -> StoreFuture<'a, ()>;

    /// Reads a range of a blob, clipped to its content.
    ///
    /// # Errors
    /// `NotFound`.
    fn get_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a str,
        range: Range<u64>,
    ) -> StoreFuture<'a, BlobPart>;

    /// Sums up what model calls cost. Every call that a committed event records counts once, however its turn ended and
    /// whether or not its session is there still.
    ///
    /// # Errors
    /// Only those of the backend.
    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageGroup>>;

    /// Lists what every model call of every tenant cost, deleted sessions included, from behind a place on (0 for all).
    ///
    /// # Errors
    /// Only those of the backend.
    fn every_usage(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptUsage>>;

    /// Counts model calls outside any commit. Told twice, they count twice.
    ///
    /// # Errors
    /// Only those of the backend.
    fn meter(&self, calls: Vec<MeteredCall>) -> StoreFuture<'_, ()>;

    /// Lists the tenants that have sessions, by id, from behind the one given on.
    ///
    /// # Errors
    /// Only those of the backend.
    fn tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>>;

    /// Reads all of a session, for another store; the content of its blobs is read with [`get_blob`](Store::get_blob).
    ///
    /// # Errors
    /// `NotFound`.
    fn export_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Export>;

    /// Writes a session that was exported: the same in everything, except that nobody holds it. Its blobs are written with
    /// [`put_blob`](Store::put_blob).
    ///
    /// # Errors
    /// [`Conflict::SessionExists`](crate::Conflict::SessionExists); `Other` when the parts do not fit each other, such as
    /// events with gaps.
    fn import_session(&self, export: Export, usage: ImportedUsage) -> StoreFuture<'_, Session>;

    /// Lists what a person allowed for good, oldest first: all of it, or what is in force in a session.
    ///
    /// # Errors
    /// Only those of the backend.
    fn allowances<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, Vec<Allowance>>;

    /// Takes back one of them. It is not consulted from then on.
    ///
    /// # Errors
    /// `NotFound`, for another person's as well.
    fn take_back<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        allowance: &'a MessageId,
    ) -> StoreFuture<'a, ()>;

    /// Lists what everyone of every tenant allowed for good, from behind a place on (0 for all).
    ///
    /// # Errors
    /// Only those of the backend.
    fn every_allowance(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptAllowance>>;

    /// Adds an allowance outside any turn, unless one is there that says the same.
    ///
    /// # Errors
    /// `NotFound` for the session in which it holds.
    fn allow<'a>(&'a self, tenant: &'a TenantId, allowance: &'a Allowance) -> StoreFuture<'a, ()>;
}
