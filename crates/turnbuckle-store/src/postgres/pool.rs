//! Connections, each for one user at a time.
//!
//! A future may be dropped between any two awaits. A connection on which something may still be under way, or a transaction
//! open, is closed then; the server takes back what was not committed.

use super::fail::{failed, lost};
use crate::error::StoreError;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, Postgres};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A connection that nobody used for so long is asked whether it is there still before somebody relies on it.
const FRESH: Duration = Duration::from_secs(1);
/// A connection that nobody used for so long is closed.
const IDLE: Duration = Duration::from_secs(300);

/// A query with its arguments.
pub(super) type Sql<'q> = Query<'q, Postgres, PgArguments>;

/// A fixed number of connections, opened when they are needed.
pub(super) struct Pool {
    options: PgConnectOptions,
    patience: Duration,
    permits: Semaphore,
    /// The one used last comes first, so that no more are open than are needed.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    conn: PgConnection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(options: PgConnectOptions, connections: u32, patience: Duration) -> Self {
        let permits = Semaphore::new(connections.max(1) as usize);
        Self { options, patience, permits, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that is there, as far as can be told.
    pub(super) async fn take(&self) -> Result<Lent<'_>, StoreError> {
        let permit = self.permit().await?;
        loop {
            let Some(Idle { mut conn, since }) = self.idle().pop() else {
                return self.open(permit).await;
            };
            let alive = since.elapsed() < FRESH
                || matches!(timeout(self.patience, conn.ping()).await, Ok(Ok(())));
            if alive {
                return Ok(Lent {
                    pool: self,
                    conn: Some(conn),
                    _permit: permit,
                    state: State::Clean,
                });
            }
        }
    }

    /// A new connection, after one was lost: those that wait here were probably lost with it.
    pub(super) async fn take_new(&self) -> Result<Lent<'_>, StoreError> {
        let permit = self.permit().await?;
        self.idle().clear();
        self.open(permit).await
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        match timeout(self.patience, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(failed(sqlx::Error::PoolClosed)),
            Err(_all_taken) => Err(failed(sqlx::Error::PoolTimedOut)),
        }
    }

    async fn open<'a>(&'a self, permit: SemaphorePermit<'a>) -> Result<Lent<'a>, StoreError> {
        let conn = soon(self.patience, self.connect()).await.map_err(failed)?;
        Ok(Lent { pool: self, conn: Some(conn), _permit: permit, state: State::Clean })
    }

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = self.options.connect().await?;
        // The planner compiles what it believes to be expensive, as it does a look at one row of a table that was filled just
        // now and not analyzed yet. Nothing here is, and compiling takes a hundred times longer than the statement.
        conn.execute("SET jit = off").await?;
        Ok(conn)
    }

    /// Closes the connections that nobody uses.
    pub(super) async fn close(&self) {
        let idle = std::mem::take(&mut *self.idle());
        for Idle { conn, .. } in idle {
            let _lost_already = conn.close().await;
        }
    }

    fn give_back(&self, conn: PgConnection) {
        let now = Instant::now();
        let mut idle = self.idle();
        let stale = idle.iter().take_while(|one| now.duration_since(one.since) > IDLE).count();
        // Their sockets are closed; the server notices.
        idle.drain(..stale);
        idle.push(Idle { conn, since: now });
    }
}

async fn soon<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match timeout(patience, work).await {
        Ok(done) => done,
        Err(late) => Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, late))),
    }
}

/// What a connection may be in the middle of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing.
    Clean,
    /// A transaction.
    Transaction,
    /// A statement, or it is not known.
    Unsure,
    /// It is lost.
    Lost,
}

/// A connection in use.
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    conn: Option<PgConnection>,
    _permit: SemaphorePermit<'a>,
    state: State,
}

impl Lent<'_> {
    /// Runs a statement of its own transaction, or of the open one.
    pub(super) async fn try_rows(&mut self, sql: Sql<'_>) -> Result<Vec<PgRow>, sqlx::Error> {
        let before = std::mem::replace(&mut self.state, State::Unsure);
        let conn = self.conn.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        let result = soon(self.pool.patience, sql.fetch_all(conn)).await;
        self.state = match &result {
            Err(error) if lost(error) => State::Lost,
            Ok(_) | Err(_) => before,
        };
        result
    }

    pub(super) async fn rows(&mut self, sql: Sql<'_>) -> Result<Vec<PgRow>, StoreError> {
        self.try_rows(sql).await.map_err(failed)
    }

    /// The only row, if there is one.
    pub(super) async fn row(&mut self, sql: Sql<'_>) -> Result<Option<PgRow>, StoreError> {
        Ok(self.rows(sql).await?.into_iter().next())
    }

    /// Whether the connection broke, so that another may do better.
    pub(super) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Opens a transaction that sees one moment, closed by [`Lent::finish`].
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.open("BEGIN ISOLATION LEVEL REPEATABLE READ").await
    }

    /// Opens a transaction of which each statement sees what was committed before it, closed by [`Lent::finish`].
    pub(super) async fn begin_committed(&mut self) -> Result<(), StoreError> {
        self.open("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    async fn open(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.rows(sqlx::query(sql)).await?;
        self.state = State::Transaction;
        Ok(())
    }

    /// Commits what succeeded and takes back what failed.
    pub(super) async fn finish<T>(
        &mut self,
        result: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.state != State::Transaction {
            return result;
        }
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.rows(sqlx::query(end)).await;
        if self.state == State::Transaction {
            self.state = State::Clean;
        }
        ended.and(result)
    }

    pub(super) fn conn(&mut self) -> Result<&mut PgConnection, StoreError> {
        self.state = State::Unsure;
        self.conn.as_mut().ok_or_else(|| failed(sqlx::Error::PoolClosed))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take()
            && self.state == State::Clean
        {
            self.pool.give_back(conn);
        }
    }
}
