//! A store in one file.
//!
//! One connection writes and a few read; SQLite's write-ahead log lets them work side by side. What an operation does is in
//! the module of its idea:
//!
//! | module | holds |
//! |---|---|
//! | `commit` | the one operation that must be fast |
//! | `lease` | claim, renew, release |
//! | `inbox` | posted inputs and the cards they answer |
//! | `sessions` | create, list, delete, fork |
//! | `read`, `aside` | what a session holds |
//! | `link`, `rows`, `fail` | connections, rows and errors |

mod aside;
mod commit;
mod fail;
mod inbox;
mod lease;
mod link;
mod read;
mod rows;
mod sessions;

use crate::error::StoreError;
use crate::model::{
    Blob, BlobPart, Captured, CapturedUpdate, Card, CardQuery, Claim, Commit, Committed, Fork,
    InboxItem, Loaded, NewSession, Page, Post, Receipt, Release, Released, Session, SessionKey,
    SessionQuery, TurnLog, TurnRecord,
};
use crate::store::{Store, StoreFuture};
use fail::{corrupt, failed};
use futures_util::FutureExt;
use link::Links;
use sqlx::ConnectOptions;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, TenantId, TurnId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

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
        migrate(&writer).await?;
        let readers = Links::new(&connect.pragma("query_only", "ON"), options.readers);
        Ok(Self { shared: Arc::new(Shared { writer, readers }) })
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

async fn migrate(writer: &Links) -> Result<(), StoreError> {
    let mut link = writer.take().await?;
    let conn = link.conn().await.map_err(failed)?;
    // Not `run`: its future is not `Send` for every lifetime, so that nobody could open a store in a spawned task.
    let mut result = MIGRATIONS.run_direct(None, &mut *conn, false).await;
    if matches!(result, Err(MigrateError::Execute(_) | MigrateError::ExecuteMigration(..))) {
        // Another process may have opened the new file at the same moment and be done by now.
        result = MIGRATIONS.run_direct(None, &mut *conn, false).await;
    }
    result.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => failed(error),
        other => corrupt("schema", other),
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

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        on!(self.writer, commit::commit(commit))
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
}
