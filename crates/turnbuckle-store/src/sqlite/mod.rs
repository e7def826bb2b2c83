//! A store in one file.
//!
//! One connection writes and a few read; SQLite's write-ahead log lets them work side by side. What an operation does is in
//! the module of its idea:
//!
//! | module | holds |
//! |---|---|
//! | `commit`, `group` | the one operation that must be fast, and many of it at once |
//! | `lease` | claim, renew, release |
//! | `inbox` | posted inputs and the cards they answer |
//! | `sessions` | create, list, delete, fork |
//! | `read`, `aside` | what a session holds, and usage |
//! | `jobs`, `schedules`, `tasks` | work that is not a turn |
//! | `whole` | a session to show, or to take elsewhere |
//! | `opening`, `link`, `rows`, `fail` | files, connections, rows and errors |

mod aside;
mod commit;
mod fail;
mod group;
mod inbox;
mod jobs;
mod lease;
mod link;
mod opening;
mod read;
mod rows;
mod schedules;
mod sessions;
mod tasks;
mod whole;
mod work;

use crate::error::StoreError;
use crate::model::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedQuery, CapturedUpdate, Card,
    CardQuery, Claim, Commit, Committed, Export, Fork, ImportedUsage, InboxItem, KeptAllowance,
    KeptUsage, Loaded, MeteredCall, NewSession, Page, Post, Receipt, Release, Released, Session,
    SessionKey, SessionQuery, TurnLog, TurnRecord, UsageGroup, UsageQuery, View,
};
use crate::open::Tables;
use crate::sql::corrupt;
use crate::store::{Store, StoreFuture};
use fail::failed;
use futures_util::FutureExt;
use group::Group;
use link::Links;
pub use opening::{Patience, migrate};
use sqlx::ConnectOptions;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/sqlite");

/// What a commit survives once it has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The machine losing power: every commit waits for the disk.
    #[default]
    PowerLoss,
    /// The process dying. After a power loss the last commits may be missing, but never half of one.
    ProcessCrash,
}

/// How to open a [`SqliteStore`].
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The database file; made when it is not there. Its directory must exist.
    pub path: PathBuf,
    /// What a commit survives.
    pub durability: Durability,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// How many connections may read at once; each is a thread, started when first needed.
    pub readers: usize,
}

impl SqliteOptions {
    /// The defaults for a file: survives power loss, waits 5 s for other writers, 4 readers.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            durability: Durability::default(),
            busy_timeout: Duration::from_secs(5),
            readers: 4,
        }
    }
}

/// A [`Store`] in an SQLite file. Clones share it. Several processes may open one file.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    writer: Links,
    group: Group,
    readers: Links,
}

impl SqliteStore {
    /// Opens a file with default options and brings its schema up to date.
    ///
    /// # Errors
    /// `Unavailable` when the file cannot be opened; `Corrupt` when it is no database, or one of a newer version.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::with(SqliteOptions::new(path)).await
    }

    /// Opens a file and brings its schema up to date.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub async fn with(options: SqliteOptions) -> Result<Self, StoreError> {
        let synchronous = match options.durability {
            Durability::PowerLoss => SqliteSynchronous::Full,
            Durability::ProcessCrash => SqliteSynchronous::Normal,
        };
        let connect = SqliteConnectOptions::new()
            .filename(&options.path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .busy_timeout(options.busy_timeout)
            .foreign_keys(true)
            .statement_cache_capacity(200)
            .disable_statement_logging();
        let writer = Links::new(&connect, 1);
        up_to_date(&writer, options.busy_timeout).await?;
        let readers = Links::new(&connect.pragma("query_only", "ON"), options.readers);
        Ok(Self { shared: Arc::new(Shared { writer, group: Group::default(), readers }) })
    }

    /// Looks whether a file is there and holds our tables, and changes nothing.
    ///
    /// # Errors
    /// `Unavailable` when there is no such file or it cannot be read; `Corrupt` when it is no database, or one of a newer
    /// version.
    pub async fn look(path: impl AsRef<Path>) -> Result<Tables, StoreError> {
        let SqliteOptions { path, busy_timeout, .. } = SqliteOptions::new(path);
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(busy_timeout)
            .disable_statement_logging();
        let links = Links::new(&connect, 1);
        let newest = newest(&links, busy_timeout).await;
        links.close().await?;
        Tables::by(newest?, &MIGRATIONS)
    }

    /// Closes every connection after the operations in progress, so that the file can be moved. The store opens them again
    /// when it is used again.
    ///
    /// # Errors
    /// Those of the backend.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.shared.readers.close().await?;
        self.shared.writer.close().await
    }
}

#[cfg(feature = "conformance")]
impl SqliteStore {
    /// Lets the file grow to `pages` pages of 4 KiB and no further, as a disk without room would.
    ///
    /// # Errors
    /// Those of the backend.
    pub async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        let mut link = self.shared.writer.take().await?;
        let mut script = link::Script::new(&format!("PRAGMA max_page_count = {pages}"));
        script.uncached();
        link.run(script).await.map(drop).map_err(failed)
    }
}

/// The newest migration that was run.
async fn newest(links: &Links, patience: Duration) -> Result<Option<i64>, StoreError> {
    let mut patience = Patience::new(patience);
    let mut link = links.take().await?;
    let there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name IN ('sessions', '_sqlx_migrations')";
    let tables = loop {
        match link.run(link::Script::new(there)).await {
            Err(error) if patience.allows(&error).await => {}
            tables => break tables.map_err(failed)?,
        }
    };
    if tables.len() < 2 {
        return Ok(None);
    }
    let newest = link::Script::new("SELECT max(version) FROM _sqlx_migrations");
    let found = link.run(newest).await.map_err(failed)?;
    found.first().map_or(Ok(None), |row| rows::get(row, 0))
}

/// Brings the schema up to date, waiting for other processes that do.
async fn up_to_date(writer: &Links, patience: Duration) -> Result<(), StoreError> {
    let mut patience = Patience::new(patience);
    let mut link = writer.take().await?;
    let migrated = loop {
        let attempt = match link.conn().await {
            Ok(connection) => migrate(connection, &MIGRATIONS).await,
            Err(error) => Err(error),
        };
        match attempt {
            Err(error) if patience.allows(&error).await => {}
            other => break other,
        }
    };
    migrated.map_err(|error| match error {
        sqlx::Error::Migrate(error) => corrupt("schema", *error),
        other => failed(other),
    })
}

/// Lends a connection to an operation.
macro_rules! on {
    ($self:ident.$links:ident, $module:ident::$operation:ident($($argument:expr),*)) => {
        async move {
            let mut link = $self.shared.$links.take().await?;
            $module::$operation(&mut link, $($argument),*).await
        }
        .boxed()
    };
}
use on;

impl Store for SqliteStore {
    fn create_session(&self, new: NewSession) -> StoreFuture<'_, Session> {
        on!(self.writer, sessions::create(new))
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Session> {
        on!(self.readers, sessions::read(key))
    }

    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Loaded> {
        on!(self.readers, read::load(key))
    }

    fn view<'a>(&'a self, key: &'a SessionKey, messages: u32) -> StoreFuture<'a, View> {
        on!(self.readers, whole::view(key, messages))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Page<Session>> {
        on!(self.readers, sessions::list(query))
    }

    fn set_title<'a>(
        &'a self,
        key: &'a SessionKey,
        title: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        on!(self.writer, sessions::set_title(key, title, now))
    }

    fn set_model<'a>(&'a self, key: &'a SessionKey, model: &'a str) -> StoreFuture<'a, ()> {
        on!(self.writer, sessions::set_model(key, model))
    }

    fn delete_session<'a>(&'a self, key: &'a SessionKey, now: Timestamp) -> StoreFuture<'a, ()> {
        on!(self.writer, sessions::delete(key, now))
    }

    fn fork_session(&self, fork: Fork) -> StoreFuture<'_, Session> {
        on!(self.writer, sessions::fork(fork))
    }

    fn claim<'a>(
        &'a self,
        key: &'a SessionKey,
        owner: &'a str,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, Claim> {
        on!(self.writer, lease::claim(key, owner, lease_ms, now))
    }

    fn renew<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        on!(self.writer, lease::renew(key, fence, lease_ms, now))
    }

    fn release<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        when: Release,
    ) -> StoreFuture<'a, Released> {
        on!(self.writer, lease::release(key, fence, when))
    }

    fn park<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        reason: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        on!(self.writer, lease::park(key, fence, reason, now))
    }

    fn unpark<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        on!(self.writer, lease::unpark(key))
    }

    fn parked<'a>(
        &'a self,
        after: Option<&'a SessionId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Session>> {
        on!(self.readers, lease::parked(after, limit))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        group::commit(&self.shared.writer, &self.shared.group, commit).boxed()
    }

    fn messages<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u32,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Message>> {
        on!(self.readers, read::messages(key, from, limit))
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        after_seq: u64,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Event>> {
        on!(self.readers, read::events(key, after_seq, limit))
    }

    fn journal<'a>(&'a self, key: &'a SessionKey, turn: &'a TurnId) -> StoreFuture<'a, TurnLog> {
        on!(self.readers, read::journal(key, turn))
    }

    fn turns<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<TurnRecord>> {
        on!(self.readers, read::turns(key))
    }

    fn cards(&self, query: CardQuery) -> StoreFuture<'_, Page<Card>> {
        on!(self.readers, inbox::cards(query))
    }

    fn card<'a>(&'a self, tenant: &'a TenantId, card: &'a MessageId) -> StoreFuture<'a, Card> {
        on!(self.readers, inbox::one_card(tenant, card))
    }

    fn expired_cards(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Card>> {
        on!(self.readers, inbox::expired(now, limit))
    }

    fn post(&self, post: Post) -> StoreFuture<'_, Receipt> {
        on!(self.writer, inbox::post(post))
    }

    fn inbox<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<InboxItem>> {
        on!(self.readers, inbox::inbox(key))
    }

    fn claimable(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<SessionKey>> {
        on!(self.readers, lease::claimable(now, limit))
    }

    fn writable(&self, now: Timestamp) -> StoreFuture<'_, ()> {
        on!(self.writer, lease::probe(now))
    }

    fn forfeit<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, u64> {
        on!(self.writer, lease::forfeit(owner))
    }

    fn captured<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: Option<&'a TurnId>,
    ) -> StoreFuture<'a, Vec<Captured>> {
        on!(self.readers, aside::captured(key, turn))
    }

    fn list_captured(&self, query: CapturedQuery) -> StoreFuture<'_, Page<CapturedIn>> {
        on!(self.readers, aside::list_captured(query))
    }

    fn update_captured(&self, update: CapturedUpdate) -> StoreFuture<'_, Captured> {
        on!(self.writer, aside::update(update))
    }

    fn put_blob<'a>(&'a self, key: &'a SessionKey, blob: Blob) -> StoreFuture<'a, ()> {
        on!(self.writer, aside::put(key, blob))
    }

    fn get_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a str,
        range: Range<u64>,
    ) -> StoreFuture<'a, BlobPart> {
        on!(self.readers, aside::read(key, id, range))
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageGroup>> {
        on!(self.readers, aside::usage(query))
    }

    fn every_usage(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptUsage>> {
        on!(self.readers, aside::every_usage(after, limit))
    }

    fn meter(&self, calls: Vec<MeteredCall>) -> StoreFuture<'_, ()> {
        on!(self.writer, aside::meter(calls))
    }

    fn tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>> {
        on!(self.readers, sessions::tenants(after, limit))
    }

    fn export_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Export> {
        on!(self.readers, whole::export(key))
    }

    fn import_session(&self, export: Export, usage: ImportedUsage) -> StoreFuture<'_, Session> {
        on!(self.writer, whole::import(export, usage))
    }

    fn allowances<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, Vec<Allowance>> {
        on!(self.readers, aside::allowances(tenant, user, session))
    }

    fn take_back<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        allowance: &'a MessageId,
    ) -> StoreFuture<'a, ()> {
        on!(self.writer, aside::take_back(tenant, user, allowance))
    }

    fn every_allowance(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptAllowance>> {
        on!(self.readers, aside::every_allowance(after, limit))
    }

    fn allow<'a>(&'a self, tenant: &'a TenantId, allowance: &'a Allowance) -> StoreFuture<'a, ()> {
        on!(self.writer, aside::allow(tenant, allowance))
    }
}
