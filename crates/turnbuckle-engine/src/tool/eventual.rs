//! Answers that are usually there at once. The common case costs no allocation.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value now, or a future of it.
pub enum Eventual<'a, T> {
    /// The value.
    Ready(T),
    /// The value to come.
    Later(BoxFuture<'a, T>),
}

impl<'a, T> Eventual<'a, T> {
    /// A value that takes a while.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }

    /// The value.
    pub async fn get(self) -> T {
        match self {
            Self::Ready(value) => value,
            Self::Later(future) => future.await,
        }
    }
}

/// What a panic said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic(pub String);

impl Panic {
    pub(crate) fn of(payload: Box<dyn Any + Send>) -> Self {
        let text = match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(other) => match other.downcast::<&'static str>() {
                Ok(text) => (*text).to_owned(),
                Err(_) => "a panic without a message".to_owned(),
            },
        };
        Self(turnbuckle_core::json::clip(&text, 500).to_owned())
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs code that is not ours; a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(Panic::of)
}

/// Runs code that is not ours to its end; a panic on the way becomes an error.
pub(crate) async fn guarded_eventual<'a, T>(
    work: impl FnOnce() -> Eventual<'a, T>,
) -> Result<T, Panic> {
    match guarded(work)? {
        Eventual::Ready(value) => Ok(value),
        Eventual::Later(future) => AssertUnwindSafe(future).catch_unwind().await.map_err(Panic::of),
    }
}
