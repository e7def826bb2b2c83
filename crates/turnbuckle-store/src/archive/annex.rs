//! What is kept beside the sessions and goes along with them.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::error::Error;

/// A kind of what is kept beside the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annexed {
    /// API keys, by the hashes of their secrets.
    Key,
    /// Entries of the audit log.
    Audit,
}

/// An item of it; what it holds is its keeper's business.
pub type AnnexItem = Map<String, Value>;

/// Why it cannot be read or written, in its keeper's words.
pub type AnnexError = Box<dyn Error + Send + Sync>;

/// The future of an operation.
pub type AnnexFuture<'a, T> = BoxFuture<'a, Result<T, AnnexError>>;

/// Who keeps it.
pub trait Annex: Send + Sync {
    /// Reads up to `limit` items of a kind, of every tenant, from behind a place on; and the place to go on from, as long as
    /// there may be more.
    ///
    /// # Errors
    /// The database's.
    fn read(
        &self,
        kind: Annexed,
        after: Option<String>,
        limit: u32,
    ) -> AnnexFuture<'_, (Vec<AnnexItem>, Option<String>)>;

    /// Writes an item that was read elsewhere. Items of one kind come in the order in which they were read.
    ///
    /// # Errors
    /// The database's; when the item is not one of that kind, or one of its id is there.
    fn write(&self, kind: Annexed, item: AnnexItem) -> AnnexFuture<'_, ()>;
}
