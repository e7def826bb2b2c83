//! A write, done or only tried. A tried write goes through every check and every statement and is
//! then undone, so that a person is only asked about what would happen, and sees how it would.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Sqlite, Transaction};

use crate::caller::Caller;
use crate::db::idempotency;
use crate::error::Result;

/// Whether a write stays.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt<'a> {
    /// It does, under an idempotency key where there is one.
    Keep(Option<&'a str>),
    /// It does not.
    Try,
}

impl Attempt<'_> {
    /// The result of the same write, if it was done before.
    pub(crate) async fn earlier<T: DeserializeOwned>(
        self,
        tx: &mut Transaction<'static, Sqlite>,
        caller: &Caller,
        action: &'static str,
    ) -> Result<Option<T>> {
        match self {
            Self::Keep(key) => idempotency::earlier(tx, caller, action, key).await,
            Self::Try => Ok(None),
        }
    }

    /// Ends the write's transaction.
    pub(crate) async fn settle<T: Serialize>(
        self,
        mut tx: Transaction<'static, Sqlite>,
        caller: &Caller,
        action: &'static str,
        result: &T,
        now: Timestamp,
    ) -> Result<()> {
        match self {
            Self::Keep(key) => {
                idempotency::remember(&mut tx, caller, action, key, result, now).await?;
                Ok(tx.commit().await?)
            }
            Self::Try => Ok(tx.rollback().await?),
        }
    }
}
