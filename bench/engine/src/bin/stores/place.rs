//! Where the measured stores are.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::path::PathBuf;
use std::sync::Arc;
use turnbuckle::store::{
    Durability, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store,
};
use turnbuckle_bench::Error;

/// A kind of store, with room for two of it.
pub enum Place {
    Folder(PathBuf),
    Database(String),
}

/// Two stores of a kind.
pub struct Pair {
    pub empty: Arc<dyn Store>,
    pub full: Arc<dyn Store>,
}

const EMPTY: &str = "bench_empty";
const FULL: &str = "bench_full";

impl Place {
    pub fn at(address: &str) -> Result<Self, Error> {
        match address.split_once(':') {
            Some(("sqlite", folder)) => Ok(Self::Folder(folder.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Database(address.to_owned())),
            _ => Err(format!("{address} is not sqlite:FOLDER or postgres://...").into()),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Folder(_) => "sqlite",
            Self::Database(_) => "postgres",
        }
    }

    pub async fn open(&self) -> Result<Pair, Error> {
        let (empty, full) = (self.one(EMPTY, Care::Usual), self.one(FULL, Care::Usual));
        Ok(Pair { empty: empty.await?, full: full.await? })
    }

    /// The full one, for writing much: nothing is lost when it has to be filled again.
    pub async fn to_fill(&self) -> Result<Arc<dyn Store>, Error> {
        self.one(FULL, Care::Little).await
    }

    async fn one(&self, name: &str, care: Care) -> Result<Arc<dyn Store>, Error> {
        match self {
            Self::Folder(folder) => {
                let usual = SqliteOptions::new(folder.join(name).with_extension("db"));
                let durability = match care {
                    Care::Usual => usual.durability,
                    Care::Little => Durability::ProcessCrash,
                };
                Ok(Arc::new(SqliteStore::with(SqliteOptions { durability, ..usual }).await?))
            }
            Self::Database(url) => {
                let mut url = url.clone();
                if let Care::Little = care {
                    url.push_str(if url.contains('?') { "&" } else { "?" });
                    url.push_str("options=-c%20synchronous_commit%3Doff");
                }
                let schema = Some(name.to_owned());
                let options = PostgresOptions { schema, ..PostgresOptions::new(url) };
                Ok(Arc::new(PostgresStore::with(options).await?))
            }
        }
    }

    /// Removes both.
    pub async fn clear(&self) -> Result<(), Error> {
        match self {
            Self::Folder(folder) => {
                std::fs::create_dir_all(folder)?;
                for name in [EMPTY, FULL] {
                    for ending in ["db", "db-wal", "db-shm"] {
                        // What is not there need not go.
                        let _ = std::fs::remove_file(folder.join(name).with_extension(ending));
                    }
                }
            }
            Self::Database(url) => {
                let options: PgConnectOptions = url.parse()?;
                let mut conn = options.connect().await?;
                for name in [EMPTY, FULL] {
                    let sql = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
                    sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await?;
                }
                conn.close().await?;
            }
        }
        Ok(())
    }
}

/// What a commit has to survive.
enum Care {
    Usual,
    Little,
}
