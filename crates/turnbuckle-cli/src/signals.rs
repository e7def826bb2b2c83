//! Ctrl-C.

use crate::error::CliError;

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
}
