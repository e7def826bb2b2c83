//! Whose agents the binary runs.

use crate::config::Chosen;
use crate::error::CliError;
use crate::place;
use desk::Desk;
use desk::agent::DeskDomain;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use turnbuckle::Domain;

/// Whose agents the binary runs: the desk's, unless a product brings its own.
#[derive(Clone, Default)]
pub enum Product {
    /// The support desk.
    #[default]
    Desk,
    /// Another product's agents.
    Own(Arc<dyn Domain>),
}

impl Product {
    /// Opens the agents on a data folder for a person.
    ///
    /// # Errors
    /// When what they stand on cannot be opened.
    pub async fn open(
        &self,
        folder: &Path,
        user: &Chosen<String>,
    ) -> Result<Arc<dyn Domain>, CliError> {
        match self {
            Self::Desk => {
                let desk = Desk::open(folder.join(place::DESK)).await?;
                // A person who does not exist is better told now than by each tool.
                desk.caller(&user.value).await.map_err(|e| {
                    CliError::Failed(format!(
                        "nobody on the desk is `{}` (set {}): {e}",
                        user.value, user.source
                    ))
                })?;
                Ok(Arc::new(DeskDomain::new(desk).await?))
            }
            Self::Own(domain) => Ok(domain.clone()),
        }
    }
}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Product")
    }
}
