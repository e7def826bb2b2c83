//! A schema of its own in a real database.
#![allow(dead_code, reason = "each test file uses its share")]

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use turnbuckle_store::{PostgresOptions, PostgresStore};

const VARIABLE: &str = "TURNBUCKLE_TEST_POSTGRES";
const DEFAULT: &str = "postgres://postgres@127.0.0.1:5432/test";

/// A schema that is dropped with all it holds.
pub struct Schema {
    pub name: String,
    pub url: String,
}

impl Schema {
    /// A new one, when there is a database. What is not there is skipped aloud; in CI nothing may be.
    pub async fn new() -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let url = std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT.to_owned());
        let options: PgConnectOptions = url.parse().unwrap();
        if let Err(error) = options.connect().await {
            assert!(
                std::env::var_os("CI").is_none(),
                "Postgres is not there ({error}); nothing may be skipped in CI"
            );
            eprintln!("SKIPPED: Postgres is not there ({error}); set {VARIABLE}");
            return None;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Some(Self { name: format!("test_{now}_{}_{count}", std::process::id()), url })
    }

    /// How to open a store in it.
    pub fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: Some(self.name.clone()),
            connections: 8,
            ..PostgresOptions::new(self.url.clone())
        }
    }

    /// A store in it.
    pub async fn open(&self) -> PostgresStore {
        PostgresStore::with(self.options()).await.unwrap()
    }

    /// Runs a statement in it.
    pub async fn run(&self, sql: &str) {
        let mut conn = self.connect().await;
        sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    pub async fn connect(&self) -> PgConnection {
        let options: PgConnectOptions = self.url.parse().unwrap();
        options.options([("search_path", &self.name)]).connect().await.unwrap()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (url, name) = (self.url.clone(), self.name.clone());
        let drop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let options: PgConnectOptions = url.parse().unwrap();
                let mut conn = options.connect().await.unwrap();
                let sql = format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE");
                sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            });
        });
        // A failing test tells more than this would.
        let _left_behind = drop.join();
    }
}
