//! The desk itself: one embedded database, opened, migrated and filled on its first start.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sqlx::{Sqlite, SqlitePool, Transaction};

use crate::caller::{Caller, Right};
use crate::db;
use crate::error::{DeskError, Result};
use crate::query::resolve;
use crate::seed::{self, SeedOptions};

/// Where the desk takes the present from.
#[derive(Clone, Default)]
pub enum Clock {
    /// The clock of the machine.
    #[default]
    System,
    /// A moment that never moves, for tests and rehearsals.
    Fixed(Timestamp),
    /// Anything else.
    Custom(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// The present, to the second, which is the grain the desk stores.
    pub fn now(&self) -> Timestamp {
        let now = match self {
            Self::System => Timestamp::now(),
            Self::Fixed(now) => *now,
            Self::Custom(clock) => clock(),
        };
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Fixed(now) => f.debug_tuple("Fixed").field(now).finish(),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// A support desk. Cheap to clone; clones share the database.
#[derive(Debug, Clone)]
pub struct Desk {
    pool: SqlitePool,
    clock: Clock,
}

/// What is at a path.
#[derive(Debug)]
pub enum Found {
    /// No desk yet.
    Nothing,
    /// A desk of an older version, which opening it brings up to date.
    Older,
    /// A desk, for reading alone.
    Desk(Desk),
}

impl Desk {
    /// Opens the desk at a path, creating, migrating and filling it on the first start. Later
    /// starts find the same data as it was left.
    ///
    /// # Errors
    /// When the file cannot be opened or is no desk.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, SeedOptions::default()).await
    }

    /// As [`Desk::open`], choosing how it is filled and where the present comes from.
    ///
    /// # Errors
    /// When the file cannot be opened or is no desk.
    pub async fn open_with(path: impl AsRef<Path>, options: SeedOptions) -> Result<Self> {
        Self::start(db::open_file(path.as_ref()).await?, options).await
    }

    /// Looks at a path, and neither makes nor changes anything there.
    ///
    /// # Errors
    /// When the file cannot be read, is no database, or is of a newer version.
    pub async fn look(path: impl AsRef<Path>) -> Result<Found> {
        Ok(match db::look(path.as_ref()).await? {
            db::Looked::Empty => Found::Nothing,
            db::Looked::Older => Found::Older,
            db::Looked::Current(pool) => Found::Desk(Self { pool, clock: Clock::System }),
        })
    }

    /// A desk that lives in memory and ends with its last clone.
    ///
    /// # Errors
    /// When the database cannot be made.
    pub async fn in_memory(options: SeedOptions) -> Result<Self> {
        Self::start(db::open_memory().await?, options).await
    }

    async fn start(pool: SqlitePool, options: SeedOptions) -> Result<Self> {
        let desk = Self { pool, clock: options.clock.clone() };
        seed::fill(&desk, &options).await?;
        Ok(desk)
    }

    /// The present, as the desk sees it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The database underneath, for callers that keep tables of their own beside the desk's.
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// Waits for running statements and closes the database.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The caller a member reference means: an id, an e-mail, a slug or a unique name.
    ///
    /// # Errors
    /// When no active member answers to it.
    pub async fn caller(&self, member: &str) -> Result<Caller> {
        let mut tx = self.read().await?;
        let member = resolve::any_member(&mut tx, member).await?;
        let (zone, active): (String, i64) =
            sqlx::query_as("SELECT time_zone, active FROM members WHERE id = ?")
                .bind(member.0)
                .fetch_one(&mut *tx)
                .await?;
        if active == 0 {
            return Err(DeskError::forbidden("use the desk: this member is deactivated"));
        }
        let rights: Vec<(String,)> =
            sqlx::query_as("SELECT right FROM member_rights WHERE member_id = ?")
                .bind(member.0)
                .fetch_all(&mut *tx)
                .await?;
        let rights = rights.iter().filter_map(|(word,)| Right::from_word(word)).collect();
        Ok(Caller { member, rights, zone: TimeZone::get(&zone).unwrap_or(TimeZone::UTC) })
    }

    /// A transaction that reads one state of the database throughout.
    pub(crate) async fn read(&self) -> Result<Transaction<'static, Sqlite>> {
        Ok(self.pool.begin().await?)
    }

    /// A transaction that holds the write lock from its start, so that what it reads stays true
    /// until it commits.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Sqlite>> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }
}
