//! Answers that are usually there at once. The common case costs no allocation.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use turnbuckle_core::error::ToolErrorCode;

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

/// Why code that is not ours came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It panicked.
    Panicked(Panic),
    /// It did not end in time, and was dropped.
    TooLong(Duration),
}

impl Broken {
    pub(crate) const fn code(&self) -> ToolErrorCode {
        match self {
            Self::Panicked(_) => ToolErrorCode::Panicked,
            Self::TooLong(_) => ToolErrorCode::Timeout,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => panic.fmt(f),
            Self::TooLong(limit) => write!(f, "it did not end within {limit:?}"),
        }
    }
}

/// Runs code that is not ours; a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(Panic::of)
}

/// Runs a future; a panic on the way becomes an error.
pub(crate) async fn contained<F: Future>(work: F) -> Result<F::Output, Panic> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(Panic::of)
}

/// Runs code that is not ours to its end; a panic on the way, or no end within the limit, becomes an error.
pub(crate) async fn guarded_eventual<'a, T>(
    limit: Duration,
    work: impl FnOnce() -> Eventual<'a, T>,
) -> Result<T, Broken> {
    match guarded(work).map_err(Broken::Panicked)? {
        Eventual::Ready(value) => Ok(value),
        // Boxed: most have their value at once, and whoever asks need not hold room for a clock.
        Eventual::Later(future) => match Box::pin(timeout(limit, Contained::new(future))).await {
            Ok(ended) => ended.map_err(Broken::Panicked),
            Err(_) => Err(Broken::TooLong(limit)),
        },
    }
}

/// A running future that is not ours: its panics become errors, those while it is dropped included.
pub(crate) struct Contained<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> Contained<'a, T> {
    pub(crate) fn new(future: BoxFuture<'a, T>) -> Self {
        Self(Some(future))
    }
}

impl<T> Future for Contained<'_, T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Some(run) => AssertUnwindSafe(run).catch_unwind().poll_unpin(cx).map_err(Panic::of),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Contained<'_, T> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(panic) = guarded(|| drop(future)) {
            tracing::error!("code of a tool or a hook panicked while it was dropped: {panic}");
        }
    }
}
