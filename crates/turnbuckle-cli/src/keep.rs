//! Where sessions and keys are kept: in the data folder, or at an address that several processes share.

use crate::address::Address;
use crate::config::Settings;
use crate::error::CliError;
use crate::place;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle::store::{Opened, PostgresOptions, PostgresStore, SqliteStore, Tables};
use turnbuckle_server::accounts::{Accounts, AccountsError, PostgresAccounts, SqliteAccounts};

/// The database of API keys, in the data folder or beside a shared file of sessions.
pub const ACCOUNTS: &str = "accounts.db";

/// `[store]` of `turnbuckle.toml`. The template documents each key.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The address; the data folder when absent.
    pub url: Option<Address>,
    /// Connections to a Postgres database for sessions.
    pub connections: u32,
    /// How long a session stays with a process that has fallen silent, in milliseconds.
    pub lease_ms: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { url: None, connections: 16, lease_ms: 8_000 }
    }
}

impl StoreConfig {
    /// How long a session stays with a process that has fallen silent. A lease is renewed three times in its length, and the
    /// store may be slow.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms.max(300))
    }

    /// A file's path is meant from the folder in which the configuration lies.
    pub fn resolve_paths(&mut self, folder: &Path) {
        if let Some(url) = &self.url
            && url.scheme() == "sqlite"
            && Path::new(url.rest()).is_relative()
        {
            self.url = Some(Address::new(format!("sqlite:{}", folder.join(url.rest()).display())));
        }
    }
}

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In this file of the data folder, which is one process's at a time.
    Folder(PathBuf),
    /// In this file, which several processes of this machine may share.
    File(PathBuf),
    /// In a Postgres database, which several processes share.
    Postgres(Address),
    /// Nowhere: what happens is gone with the process.
    Memory,
}

impl Keep {
    /// As it is configured.
    ///
    /// # Errors
    /// When the address names no store.
    pub fn of(settings: &Settings) -> Result<Self, CliError> {
        let Some(url) = &settings.store.url else {
            return Ok(Self::Folder(settings.data.value.join(place::SESSIONS)));
        };
        match url.scheme() {
            "memory" => Ok(Self::Memory),
            "sqlite" if !url.rest().is_empty() => Ok(Self::File(PathBuf::from(url.rest()))),
            _ if url.is_postgres() => Ok(Self::Postgres(url.clone())),
            _ => Err(CliError::Usage(format!(
                "`{url}` is not the address of a store: use postgres://..., sqlite:PATH or memory:"
            ))),
        }
    }

    /// Whether other processes may work on the same sessions.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::File(_) | Self::Postgres(_))
    }

    /// How processes tell each other what happens, when nobody says.
    pub fn usual_bus(&self) -> Address {
        match self {
            Self::Postgres(url) => url.clone(),
            Self::File(_) => Address::new("poll:"),
            Self::Folder(_) | Self::Memory => Address::new("memory:"),
        }
    }
}

impl std::fmt::Display for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) | Self::File(path) => path.display().fmt(f),
            Self::Postgres(url) => url.fmt(f),
            Self::Memory => f.write_str("memory only; nothing outlives the process"),
        }
    }
}

/// How a Postgres store is opened.
pub fn postgres(settings: &Settings, url: &Address) -> PostgresOptions {
    PostgresOptions { connections: settings.store.connections, ..PostgresOptions::new(url.whole()) }
}

/// Opens the sessions.
///
/// # Errors
/// When the database cannot be opened.
pub async fn open_store(settings: &Settings) -> Result<Opened, CliError> {
    let keep = Keep::of(settings)?;
    let opened = match &keep {
        Keep::Folder(path) | Keep::File(path) => {
            make_folder_for(settings, path)?;
            SqliteStore::open(path).await.map(Opened::new)
        }
        Keep::Postgres(url) => PostgresStore::with(postgres(settings, url)).await.map(Opened::new),
        Keep::Memory => turnbuckle::store::open("memory:").await,
    };
    opened.map_err(|e| CliError::Failed(format!("the sessions in {keep}: {}", e.report())))
}

/// Opens the sessions that are there. Nothing is made where there are none.
///
/// # Errors
/// When there are none, or the database cannot be opened.
pub async fn open_kept(settings: &Settings) -> Result<Opened, CliError> {
    let keep = Keep::of(settings)?;
    let nothing = |what: &str| {
        CliError::Failed(format!("{keep} {what}: check TURNBUCKLE_STORE, [store] url and --data"))
    };
    let looked = match &keep {
        Keep::Memory => return Err(nothing("and so there is nothing to look at")),
        Keep::Folder(path) | Keep::File(path) if !path.exists() => {
            return Err(nothing("is not there"));
        }
        Keep::Folder(path) | Keep::File(path) => SqliteStore::look(path).await,
        Keep::Postgres(url) => PostgresStore::look(postgres(settings, url)).await,
    };
    match looked {
        Ok(Tables::None) => Err(nothing("holds no sessions")),
        Ok(Tables::Older | Tables::Current) | Err(_) => open_store(settings).await,
    }
}

/// Opens the API keys and the audit log that are there. Nothing is made where there are none.
///
/// # Errors
/// When the database cannot be opened.
pub async fn open_kept_accounts(
    settings: &Settings,
) -> Result<Option<Arc<dyn Accounts>>, CliError> {
    match kept_with(settings)? {
        Beside::File(path) if !path.exists() => Ok(None),
        Beside::File(_) | Beside::Tables(_) => open_accounts(settings).await.map(Some),
    }
}

/// Opens the API keys and the audit log: with the sessions, so that processes that share these share those.
///
/// # Errors
/// When the database cannot be opened.
pub async fn open_accounts(settings: &Settings) -> Result<Arc<dyn Accounts>, CliError> {
    let failed = |e: AccountsError| CliError::Failed(e.to_string());
    Ok(match kept_with(settings)? {
        Beside::Tables(url) => Arc::new(PostgresAccounts::open(url.whole()).await.map_err(failed)?),
        Beside::File(path) => {
            make_folder_for(settings, &path)?;
            Arc::new(SqliteAccounts::open(path).await.map_err(failed)?)
        }
    })
}

/// Where API keys are kept.
enum Beside {
    /// In tables beside those of the sessions.
    Tables(Address),
    /// In a file of their own.
    File(PathBuf),
}

fn kept_with(settings: &Settings) -> Result<Beside, CliError> {
    Ok(match Keep::of(settings)? {
        Keep::Postgres(url) => Beside::Tables(url),
        Keep::File(path) => Beside::File(path.with_file_name(ACCOUNTS)),
        Keep::Folder(_) | Keep::Memory => Beside::File(settings.data.value.join(ACCOUNTS)),
    })
}

/// Makes the data folder when a file is to lie in it.
fn make_folder_for(settings: &Settings, file: &Path) -> Result<(), CliError> {
    if file.starts_with(&settings.data.value) {
        place::open(settings)?;
    }
    Ok(())
}
