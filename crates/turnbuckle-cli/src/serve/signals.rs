//! When to end: Ctrl-C, and what supervisors send.

use crate::error::CliError;
use crate::signals::Interrupts;

/// Wishes to end, as they come.
pub struct Signals {
    interrupts: Interrupts,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Self, CliError> {
        let interrupts = Interrupts::listen()?;
        #[cfg(unix)]
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(CliError::io("SIGTERM cannot be listened to"))?;
        Ok(Self {
            interrupts,
            #[cfg(unix)]
            terminate,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            () = self.interrupts.next() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        self.interrupts.next().await;
    }
}
