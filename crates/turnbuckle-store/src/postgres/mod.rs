//! A store in a Postgres database, for several processes.
//!
//! What an operation does is in the module of its idea:
//!
//! | module | holds |
//! |---|---|
//! | `commit` | the one operation that must be fast |
//! | `lease` | claim, renew, release, park |
//! | `inbox` | posted inputs and the cards they answer |
//! | `sessions` | create, list, delete, fork |
//! | `read`, `aside` | what a session holds, and usage |
//! | `jobs`, `schedules`, `tasks` | work that is not a turn |
//! | `whole` | a session to show, or to take elsewhere |
//! | `opening`, `pool`, `rows`, `fail` | tables, connections, rows and errors |
//!
//! Nearly every operation is one statement, and so one round trip and a transaction of its own. Where several rows must agree,
//! the statement calls a function of the migration: it holds the session's row before it looks at anything else, so that it
//! sees what was committed by whoever held it before.

mod aside;
mod commit;
mod fail;
mod inbox;
mod jobs;
mod lease;
mod opening;
mod pool;
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
pub use opening::migrate_postgres;
use pool::Pool;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/postgres");

/// How to open a [`PostgresStore`].
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where the database is: `postgres://user:password@host:port/database?sslmode=...`. Never shown.
    pub url: String,
    /// The schema of the tables, made when it is not there; the connection's own when absent.
    pub schema: Option<String>,
    /// How many connections may be open at once.
    pub connections: u32,
    /// How long to wait for a connection and for an answer.
    pub patience: Duration,
}

impl PostgresOptions {
    /// The defaults for a database: its own schema, 16 connections, 10 s.
    pub fn new(url: impl Into<String>) -> Self {
        let patience = Duration::from_secs(10);
        Self { url: url.into(), schema: None, connections: 16, patience }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// A [`Store`] in a Postgres database. Clones share it.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Arc<Pool>,
}

impl PostgresStore {
    /// Opens a database with default options and brings its schema up to date.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be reached; `Corrupt` when it is of a newer version; `Other` when the address is wrong or
    /// the user may not do this.
    pub async fn open(url: impl Into<String>) -> Result<Self, StoreError> {
        Self::with(PostgresOptions::new(url)).await
    }

    /// Opens a database and brings its schema up to date.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn with(options: PostgresOptions) -> Result<Self, StoreError> {
        let connect = parse(&options)?;
        if let Some(schema) = &options.schema {
            make_schema(&connect, schema, options.patience).await?;
        }
        let pool = Pool::new(connect, options.connections, options.patience);
        migrate(&pool).await?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// Looks whether a database can be reached and holds our tables, and changes nothing.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn look(options: PostgresOptions) -> Result<Tables, StoreError> {
        let pool = Pool::new(parse(&options)?, 1, options.patience);
        let newest = newest(&pool).await;
        pool.close().await;
        Tables::by(newest?, &MIGRATIONS)
    }

    /// Closes the connections that nobody uses. The store opens them again when it is used again.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

fn parse(options: &PostgresOptions) -> Result<PgConnectOptions, StoreError> {
    let connect: PgConnectOptions = options.url.parse().map_err(failed)?;
    let connect = connect.disable_statement_logging().statement_cache_capacity(200);
    let connect = match &options.schema {
        Some(schema) => connect.options([("search_path", quoted(schema))]),
        None => connect,
    };
    Ok(match connect.get_application_name() {
        Some(_) => connect,
        None => connect.application_name("turnbuckle"),
    })
}

fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

async fn make_schema(
    connect: &PgConnectOptions,
    schema: &str,
    patience: Duration,
) -> Result<(), StoreError> {
    let pool = Pool::new(connect.clone(), 1, patience);
    let made = make_missing_schema(&pool, schema).await;
    pool.close().await;
    made
}

async fn make_missing_schema(pool: &Pool, schema: &str) -> Result<(), StoreError> {
    let mut lent = pool.take().await?;
    let there = sqlx::query("SELECT 1 FROM pg_namespace WHERE nspname = $1");
    if lent.row(there.bind(schema)).await?.is_some() {
        return Ok(());
    }
    let sql = format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema));
    match lent.try_rows(sqlx::query(AssertSqlSafe(sql))).await {
        // Another process makes it at the same moment.
        Err(error) if !fail::refused(&error) => Err(failed(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The newest migration that was run.
async fn newest(pool: &Pool) -> Result<Option<i64>, StoreError> {
    let mut lent = pool.take().await?;
    let there = "SELECT 1 WHERE to_regclass('sessions') IS NOT NULL AND to_regclass('_sqlx_migrations') IS NOT NULL";
    if lent.row(sqlx::query(there)).await?.is_none() {
        return Ok(None);
    }
    let newest = sqlx::query("SELECT max(version) FROM _sqlx_migrations");
    lent.row(newest).await?.map_or(Ok(None), |row| rows::get(&row, 0))
}

async fn migrate(pool: &Pool) -> Result<(), StoreError> {
    let mut lent = pool.take().await?;
    let result = migrate_postgres(lent.conn()?, &MIGRATIONS).await;
    result.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => failed(error),
        other => corrupt("schema", other),
    })
}

/// Lends a connection to an operation.
macro_rules! once {
    ($self:ident, $module:ident::$operation:ident($($argument:expr),*)) => {
        async move {
            let mut lent = $self.pool.take().await?;
            $module::$operation(&mut lent, $($argument),*).await
        }
        .boxed()
    };
}

/// Lends a connection to an operation that may be repeated, and another when that one turns out to be lost.
macro_rules! again {
    ($self:ident, $module:ident::$operation:ident($($argument:expr),*)) => {
        async move {
            let mut lent = $self.pool.take().await?;
            let result = $module::$operation(&mut lent, $($argument),*).await;
            if result.is_ok() || !lent.is_lost() {
                return result;
            }
            drop(lent);
            let mut lent = $self.pool.take_new().await?;
            $module::$operation(&mut lent, $($argument),*).await
        }
        .boxed()
    };
}

use {again, once};

impl Store for PostgresStore {
    fn create_session(&self, new: NewSession) -> StoreFuture<'_, Session> {
        once!(self, sessions::create(&new, None))
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Session> {
        again!(self, sessions::read(key))
    }

    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Loaded> {
        again!(self, read::load(key))
    }

    fn view<'a>(&'a self, key: &'a SessionKey, messages: u32) -> StoreFuture<'a, View> {
        again!(self, whole::view(key, messages))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Page<Session>> {
        again!(self, sessions::list(&query))
    }

    fn set_title<'a>(
        &'a self,
        key: &'a SessionKey,
        title: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        again!(self, sessions::set_title(key, title, now))
    }

    fn set_model<'a>(&'a self, key: &'a SessionKey, model: &'a str) -> StoreFuture<'a, ()> {
        again!(self, sessions::set_model(key, model))
    }

    fn delete_session<'a>(&'a self, key: &'a SessionKey, now: Timestamp) -> StoreFuture<'a, ()> {
        once!(self, sessions::delete(key, now))
    }

    fn fork_session(&self, fork: Fork) -> StoreFuture<'_, Session> {
        once!(self, sessions::fork(&fork))
    }

    fn claim<'a>(
        &'a self,
        key: &'a SessionKey,
        owner: &'a str,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, Claim> {
        once!(self, lease::claim(key, owner, lease_ms, now))
    }

    fn renew<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        again!(self, lease::renew(key, fence, lease_ms, now))
    }

    fn release<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        when: Release,
    ) -> StoreFuture<'a, Released> {
        once!(self, lease::release(key, fence, when))
    }

    fn park<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        reason: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        once!(self, lease::park(key, fence, reason, now))
    }

    fn unpark<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        again!(self, lease::unpark(key))
    }

    fn parked<'a>(
        &'a self,
        after: Option<&'a SessionId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Session>> {
        again!(self, lease::parked(after, limit))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        if commit.journal.is_empty() && commit.events.is_empty() {
            // The store could not tell that it is the last one again.
            once!(self, commit::commit(&commit))
        } else {
            again!(self, commit::commit(&commit))
        }
    }

    fn messages<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u32,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Message>> {
        again!(self, read::messages(key, from, limit))
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        after_seq: u64,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Event>> {
        again!(self, read::events(key, after_seq, limit))
    }

    fn journal<'a>(&'a self, key: &'a SessionKey, turn: &'a TurnId) -> StoreFuture<'a, TurnLog> {
        again!(self, read::journal(key, turn))
    }

    fn turns<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<TurnRecord>> {
        again!(self, read::turns(key))
    }

    fn cards(&self, query: CardQuery) -> StoreFuture<'_, Page<Card>> {
        again!(self, inbox::cards(&query))
    }

    fn card<'a>(&'a self, tenant: &'a TenantId, card: &'a MessageId) -> StoreFuture<'a, Card> {
        again!(self, inbox::one_card(tenant, card))
    }

    fn expired_cards(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Card>> {
        again!(self, inbox::expired(now, limit))
    }

    fn post(&self, post: Post) -> StoreFuture<'_, Receipt> {
        if post.idempotency_key.is_some() {
            again!(self, inbox::post(&post))
        } else {
            once!(self, inbox::post(&post))
        }
    }

    fn inbox<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<InboxItem>> {
        again!(self, inbox::inbox(key))
    }

    fn claimable(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<SessionKey>> {
        again!(self, lease::claimable(now, limit))
    }

    fn writable(&self, now: Timestamp) -> StoreFuture<'_, ()> {
        again!(self, lease::probe(now))
    }

    fn forfeit<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, u64> {
        once!(self, lease::forfeit(owner))
    }

    fn captured<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: Option<&'a TurnId>,
    ) -> StoreFuture<'a, Vec<Captured>> {
        again!(self, aside::captured(key, turn))
    }

    fn list_captured(&self, query: CapturedQuery) -> StoreFuture<'_, Page<CapturedIn>> {
        again!(self, aside::list_captured(&query))
    }

    fn update_captured(&self, update: CapturedUpdate) -> StoreFuture<'_, Captured> {
        once!(self, aside::update(&update))
    }

    fn put_blob<'a>(&'a self, key: &'a SessionKey, blob: Blob) -> StoreFuture<'a, ()> {
        again!(self, aside::put(key, &blob))
    }

    fn get_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a str,
        range: Range<u64>,
    ) -> StoreFuture<'a, BlobPart> {
        again!(self, aside::read(key, id, range.clone()))
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageGroup>> {
        again!(self, aside::usage(&query))
    }

    fn every_usage(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptUsage>> {
        again!(self, aside::every_usage(after, limit))
    }

    fn meter(&self, calls: Vec<MeteredCall>) -> StoreFuture<'_, ()> {
        once!(self, aside::meter(&calls))
    }

    fn tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>> {
        again!(self, sessions::tenants(after, limit))
    }

    fn export_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Export> {
        again!(self, whole::export(key))
    }

    fn import_session(&self, export: Export, usage: ImportedUsage) -> StoreFuture<'_, Session> {
        once!(self, whole::import(&export, usage))
    }

    fn allowances<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, Vec<Allowance>> {
        again!(self, aside::allowances(tenant, user, session))
    }

    fn take_back<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        allowance: &'a MessageId,
    ) -> StoreFuture<'a, ()> {
        once!(self, aside::take_back(tenant, user, allowance))
    }

    fn every_allowance(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptAllowance>> {
        again!(self, aside::every_allowance(after, limit))
    }

    fn allow<'a>(&'a self, tenant: &'a TenantId, allowance: &'a Allowance) -> StoreFuture<'a, ()> {
        once!(self, aside::allow(tenant, allowance))
    }
}
