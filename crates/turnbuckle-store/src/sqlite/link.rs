//! Connections that survive dropped futures.
//!
//! A future may be dropped between any two awaits, and so within a transaction. A [`Link`] therefore knows whether it may be
//! inside one, and rolls back before it is used again; a dropped [`Lent`] also asks for that at once, so that no lock on the
//! file outlives its user.

use crate::error::StoreError;
use crate::sqlite::fail::failed;
use futures_util::{FutureExt, Stream, TryStreamExt};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteQueryResult, SqliteRow};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Either, Encode, Executor, Sqlite, SqliteConnection,
    Type,
};
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Mutex, MutexGuard};
use tracing::dispatcher::{Dispatch, with_default};

/// SQL text with its arguments; several statements run in one trip to the connection's thread.
#[derive(Default)]
pub(super) struct Script {
    sql: String,
    args: SqliteArguments,
    uncached: bool,
}

impl Script {
    pub(super) fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), ..Self::default() }
    }

    /// A transaction that takes the write lock at its start; [`Script::end`] closes it.
    pub(super) fn transaction() -> Self {
        let mut script = Self { sql: String::with_capacity(1024), ..Self::default() };
        script.add("BEGIN IMMEDIATE;");
        script
    }

    /// A transaction that sees one moment.
    pub(super) fn snapshot() -> Self {
        Self::new("BEGIN;")
    }

    pub(super) fn add(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    pub(super) fn end(&mut self) -> &mut Self {
        self.add("COMMIT;")
    }

    /// For text that will hardly come again: it would only push others out of the statement cache.
    pub(super) fn uncached(&mut self) {
        self.uncached = true;
    }

    /// The argument for the next `?`.
    pub(super) fn bind<'q, T: Encode<'q, Sqlite> + Type<Sqlite> + 'q>(
        &mut self,
        value: T,
    ) -> Result<&mut Self, StoreError> {
        use sqlx::Arguments;
        self.args.add(value).map_err(|e| failed(sqlx::Error::Encode(e)))?;
        Ok(self)
    }
}

/// One connection, opened when first used and again after its thread has died.
pub(super) struct Link {
    options: SqliteConnectOptions,
    conn: Option<SqliteConnection>,
    /// A transaction may be open.
    unsure: bool,
}

impl Link {
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self { options, conn: None, unsure: false }
    }

    pub(super) async fn conn(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        if self.conn.is_none() {
            self.unsure = false;
            self.conn = Some(outside_spans(self.options.connect()).await?);
        }
        let conn = self.conn.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        if self.unsure {
            rollback(conn).await;
            self.unsure = false;
        }
        Ok(conn)
    }

    /// Runs a script that ends its own transaction. When it fails, nothing of it stays.
    pub(super) async fn run(&mut self, script: Script) -> Result<Vec<SqliteRow>, sqlx::Error> {
        self.conn().await?;
        self.unsure = true;
        let result = self.step(script).await;
        self.settle(result.is_ok()).await;
        result
    }

    /// Opens a transaction of several trips, closed by [`Link::finish`].
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.conn().await.map_err(failed)?;
        self.unsure = true;
        let begun = self.step(Script::new("BEGIN IMMEDIATE")).await;
        if begun.is_err() {
            self.settle(false).await;
        }
        begun.map(drop).map_err(failed)
    }

    /// Commits what succeeded and takes back what failed.
    pub(super) async fn finish<T>(
        &mut self,
        result: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = match result {
            Ok(value) => self.step(Script::new("COMMIT")).await.map(|_| value).map_err(failed),
            Err(error) => Err(error),
        };
        self.settle(result.is_ok()).await;
        result
    }

    /// Runs a script within the open transaction.
    pub(super) async fn step(&mut self, script: Script) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let conn = self.conn.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        let Script { sql, args, uncached } = script;
        let statements = statements(&sql);
        let query = sqlx::query_with(AssertSqlSafe(sql), args).persistent(!uncached);
        let result = outside_spans(answer(conn.fetch_many(query), statements)).await;
        if let Err(sqlx::Error::WorkerCrashed | sqlx::Error::Io(_)) = result {
            self.conn = None;
        }
        result
    }

    async fn settle(&mut self, ended: bool) {
        if !ended && let Some(conn) = self.conn.as_mut() {
            rollback(conn).await;
        }
        self.unsure = false;
    }

    /// Asks for a rollback without waiting for it, when the user of the link was dropped half-way.
    fn abandon(&mut self) {
        if self.unsure
            && let Some(conn) = self.conn.as_mut()
        {
            // One poll puts the command into the connection's queue, behind whatever still runs there.
            let _ = rollback(conn).now_or_never();
        }
    }

    pub(super) async fn close(&mut self) -> Result<(), sqlx::Error> {
        match self.conn.take() {
            Some(conn) => outside_spans(conn.close()).await,
            None => Ok(()),
        }
    }
}

/// How many statements a script has; at the most, since a semicolon may be part of a text.
fn statements(sql: &str) -> usize {
    sql.split(';').filter(|statement| !statement.trim().is_empty()).count()
}

/// The rows of a script of so many statements. Each ends with its own answer, by which it has taken effect; that there is no
/// more to come after the last would be a message of its own from the connection's thread, and wake the caller once more.
async fn answer(
    mut told: impl Stream<Item = Result<Either<SqliteQueryResult, SqliteRow>, sqlx::Error>> + Unpin,
    mut statements: usize,
) -> Result<Vec<SqliteRow>, sqlx::Error> {
    let mut rows = Vec::new();
    while statements > 0 {
        match told.try_next().await? {
            Some(Either::Left(_done)) => statements -= 1,
            Some(Either::Right(row)) => rows.push(row),
            None => break,
        }
    }
    Ok(rows)
}

/// Leaves a transaction if there is one; without one SQLite answers with an error of no interest.
async fn rollback(conn: &mut SqliteConnection) {
    let _ = outside_spans(sqlx::query("ROLLBACK").execute(conn)).await;
}

/// Does something in no span. A statement takes the current one to the connection's thread, which lets go of it some time after
/// the answer: the span would end later than what it stands for, and not at all when the process ends with that. Nor is what one
/// turn writes for another of its span.
async fn outside_spans<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|cx| with_default(&Dispatch::none(), || work.as_mut().poll(cx))).await
}

/// A link in use.
pub(super) struct Lent<'a>(MutexGuard<'a, Link>);

impl Deref for Lent<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Link {
        &mut self.0
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A fixed set of links, each for one user at a time.
pub(super) struct Links {
    links: Vec<Mutex<Link>>,
    turn: AtomicUsize,
}

impl Links {
    pub(super) fn new(options: &SqliteConnectOptions, count: usize) -> Self {
        let links = (0..count.max(1)).map(|_| Mutex::new(Link::new(options.clone()))).collect();
        Self { links, turn: AtomicUsize::new(0) }
    }

    /// The first free one, so that no more are opened than are used at once; when all are taken, the users queue evenly.
    pub(super) async fn take(&self) -> Result<Lent<'_>, StoreError> {
        if let Some(free) = self.links.iter().find_map(|link| link.try_lock().ok()) {
            return Ok(Lent(free));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.links.len().max(1);
        match self.links.get(turn) {
            Some(link) => Ok(Lent(link.lock().await)),
            None => Err(failed(sqlx::Error::PoolClosed)),
        }
    }

    pub(super) async fn close(&self) -> Result<(), StoreError> {
        for link in &self.links {
            link.lock().await.close().await.map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::thread::ThreadId;
    use tracing::span::Id;
    use tracing::{Instrument, Subscriber, info_span};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    /// The threads that entered a span.
    #[derive(Clone, Default)]
    struct Entered(Arc<std::sync::Mutex<HashSet<ThreadId>>>);

    impl<S: Subscriber> Layer<S> for Entered {
        fn on_enter(&self, _: &Id, _: Context<'_, S>) {
            self.0.lock().unwrap().insert(std::thread::current().id());
        }
    }

    #[tokio::test]
    async fn every_row_and_the_failure_of_any_statement_come_back() {
        let mut link = Link::new(SqliteConnectOptions::new().in_memory(true));
        let numbers = |rows: Vec<SqliteRow>| -> Vec<i64> {
            rows.iter().map(|row| sqlx::Row::get(row, 0)).collect()
        };
        for (script, expected) in [
            ("CREATE TABLE t (n INTEGER UNIQUE)", vec![]),
            ("INSERT INTO t VALUES (1), (2) RETURNING n", vec![1, 2]),
            (
                "BEGIN;SELECT n FROM t;INSERT INTO t VALUES (3);SELECT n FROM t WHERE n > 1;COMMIT;",
                vec![1, 2, 2, 3],
            ),
            ("SELECT n FROM t WHERE n > 9", vec![]),
            ("SELECT length(';;;');SELECT n FROM t WHERE n = 3", vec![3, 3]),
            ("", vec![]),
        ] {
            assert_eq!(numbers(link.run(Script::new(script)).await.unwrap()), expected, "{script}");
        }
        for broken in [
            "INSERT INTO t VALUES (1)",
            "BEGIN;INSERT INTO t VALUES (4);INSERT INTO t VALUES (1);COMMIT;",
            "BEGIN;INSERT INTO t VALUES (4);COMMIT;SELECT nothing",
        ] {
            assert!(link.run(Script::new(broken)).await.is_err(), "{broken}");
        }
        assert_eq!(numbers(link.run(Script::new("SELECT n FROM t")).await.unwrap()), [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn the_connections_thread_takes_part_in_no_span() {
        let entered = Entered::default();
        let subscriber = tracing_subscriber::registry().with(entered.clone());
        let _default = tracing::subscriber::set_default(subscriber);
        let mut link = Link::new(SqliteConnectOptions::new().in_memory(true));
        for script in ["SELECT 1", "BEGIN; no statement"] {
            let _ = link.run(Script::new(script)).instrument(info_span!("a turn")).await;
        }
        assert_eq!(*entered.0.lock().unwrap(), [std::thread::current().id()].into());
    }
}
