//! Ctrl-C.

use crate::error::CliError;
use futures_util::FutureExt;
use std::pin::pin;

/// Interrupts of this process, as they come. None is lost between two waits.
pub struct Interrupts {
    #[cfg(unix)]
    inner: tokio::signal::unix::Signal,
    #[cfg(windows)]
    inner: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Listens from now on; Ctrl-C no longer ends the process by itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Self, CliError> {
        let what = CliError::io("Ctrl-C cannot be listened to");
        #[cfg(unix)]
        let inner = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
        #[cfg(windows)]
        let inner = tokio::signal::windows::ctrl_c();
        Ok(Self { inner: inner.map_err(what)? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        if self.inner.recv().await.is_none() {
            std::future::pending().await
        }
    }

    /// Waits for another program that has the terminal, and with it Ctrl-C, to itself: interrupts meanwhile are its own.
    pub async fn left_to<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                () = self.next() => {}
            }
        };
        // The last one may have ended the program; the runtime hears of it once it has looked at what came in.
        tokio::task::yield_now().await;
        while self.next().now_or_never().is_some() {}
        done
    }
}
