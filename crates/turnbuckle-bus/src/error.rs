//! What goes wrong with a bus, by what the caller can do about it.

use std::error::Error;
use std::sync::Arc;

/// The failure underneath, as the backend told it.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why a bus cannot be used, or can be used within this process only.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// The backend cannot be reached. The bus works within this process and tries again by itself.
    #[error("the {backend} bus cannot reach other processes")]
    Unavailable {
        /// Which kind of bus.
        backend: &'static str,
        /// The backend's own words.
        #[source]
        cause: Cause,
    },
    /// The address does not name a bus.
    #[error("{url:?} is not the address of a bus: {why}")]
    BadUrl {
        /// The address, without its password.
        url: String,
        /// What is wrong with it.
        why: String,
    },
}

impl BusError {
    /// What the reader can do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            BusError::Unavailable { .. } => {
                "check that the server of the bus runs and can be reached; nothing stored is lost"
            }
            BusError::BadUrl { .. } => {
                "use memory:, postgres://, redis:// or nats://, and a build that has it"
            }
        }
    }
}
