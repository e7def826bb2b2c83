//! Keys and the audit log: one suite for every database they are kept in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::time::Timestamp;
use turnbuckle_server::accounts::{Accounts, Audit, PostgresAccounts, SqliteAccounts};
use turnbuckle_server::auth::keys::{Key, hash};
use turnbuckle_server::dto::Role;
use turnbuckle_store::{PostgresOptions, PostgresStore, migrate_postgres};

fn key(tenant: &str, id: &str, created: i64) -> Key {
    Key {
        id: id.to_owned(),
        tenant: tenant.into(),
        user: "ada".into(),
        name: "ci".into(),
        roles: [Role::User, Role::Approver].into(),
        created: Timestamp::from_millis(created),
        expires_at: Some(Timestamp::from_millis(9_000)),
        revoked_at: None,
    }
}

fn audit(tenant: &str, subject: &str, session: Option<&str>) -> Audit {
    Audit {
        tenant: tenant.into(),
        at: Timestamp::from_millis(5),
        user: "ada".into(),
        key: Some("k_1".into()),
        action: "approval.approve".into(),
        subject: subject.to_owned(),
        session: session.map(Into::into),
        detail: json!({"amended": true, "text": "a\u{0}b"}),
        request: "r1".into(),
    }
}

async fn keys_are_found_by_their_hash_and_stay_with_their_tenant(accounts: &dyn Accounts) {
    accounts.check().await.unwrap();
    assert!(!accounts.has_keys().await.unwrap());
    let (late, early, foreign) =
        (key("acme", "k_2", 2), key("acme", "k_1", 1), key("other", "k_3", 0));
    for key in [&late, &early, &foreign] {
        accounts.add_key(key, hash(&key.id)).await.unwrap();
    }
    assert!(accounts.has_keys().await.unwrap());
    assert_eq!(accounts.key_by_hash(hash("k_1")).await.unwrap(), Some(early.clone()));
    assert_eq!(accounts.key_by_hash(hash("k_9")).await.unwrap(), None);
    assert_eq!(accounts.keys(&"acme".into()).await.unwrap(), [early, late]);
    // A hash and an id are taken once.
    assert!(accounts.add_key(&key("acme", "k_4", 4), hash("k_1")).await.is_err());
    assert!(accounts.add_key(&key("acme", "k_1", 4), hash("k_4")).await.is_err());
}

async fn a_key_is_revoked_once_and_by_its_own_tenant(accounts: &dyn Accounts) {
    accounts.add_key(&key("acme", "k_1", 1), hash("k_1")).await.unwrap();
    let (acme, at) = (TenantId::from("acme"), Timestamp::from_millis);
    assert!(!accounts.revoke_key(&"other".into(), "k_1", at(7)).await.unwrap());
    assert!(!accounts.revoke_key(&acme, "k_9", at(7)).await.unwrap());
    assert!(!accounts.revoke_key(&acme, "k_1\0", at(7)).await.unwrap());
    assert!(accounts.revoke_key(&acme, "k_1", at(7)).await.unwrap());
    assert!(accounts.revoke_key(&acme, "k_1", at(8)).await.unwrap());
    let kept = accounts.key_by_hash(hash("k_1")).await.unwrap().unwrap();
    assert_eq!(kept.revoked_at, Some(at(7)));
}

async fn what_no_database_can_hold_is_left_out(accounts: &dyn Accounts) {
    let named = Key { name: "c\0i".into(), ..key("acme", "k_1", 1) };
    accounts.add_key(&named, hash("k_1")).await.unwrap();
    assert_eq!(accounts.key_by_hash(hash("k_1")).await.unwrap().unwrap().name, "ci");
    accounts.audit(audit("acme", "card\0", Some("s\0"))).await.unwrap();
    let log = accounts.audit_log(&"acme".into(), Some("s"), None, 9).await.unwrap();
    assert_eq!((log[0].subject.as_str(), &log[0].detail["text"]), ("card", &json!("a\u{0}b")));
    assert_eq!(accounts.audit_log(&"acme".into(), Some("s\0"), None, 9).await.unwrap(), []);
}

async fn the_log_is_read_backwards_by_tenant_and_session(accounts: &dyn Accounts) {
    let entries = [("acme", "a", Some("s1")), ("acme", "b", None), ("other", "x", Some("s1"))];
    for (tenant, subject, session) in entries {
        accounts.audit(audit(tenant, subject, session)).await.unwrap();
    }
    accounts.audit(audit("acme", "c", Some("s1"))).await.unwrap();
    let acme = TenantId::from("acme");
    let read = async |session: Option<&str>, before: Option<u64>, limit: u32| {
        let log = accounts.audit_log(&acme, session, before, limit).await.unwrap();
        log.into_iter().map(|entry| (entry.n, entry.subject)).collect::<Vec<_>>()
    };
    let entry = |n: u64, subject: &str| (n, subject.to_owned());
    assert_eq!(read(None, None, 9).await, [entry(3, "c"), entry(2, "b"), entry(1, "a")]);
    assert_eq!(read(None, Some(3), 1).await, [entry(2, "b")]);
    assert_eq!(read(Some("s1"), None, 9).await, [entry(3, "c"), entry(1, "a")]);
    assert_eq!(read(Some("s1"), Some(u64::MAX), 9).await.len(), 2);
    let whole = &accounts.audit_log(&acme, Some("s1"), Some(2), 9).await.unwrap()[0];
    assert_eq!(
        (
            whole.user.as_str(),
            whole.key.as_deref(),
            whole.action.as_str(),
            &whole.detail["amended"]
        ),
        ("ada", Some("k_1"), "approval.approve", &json!(true))
    );
}

/// Every entry has a number of its own, and there is no gap.
async fn many_write_at_once(accounts: Arc<dyn Accounts>) {
    let writers: Vec<_> = (0..24)
        .map(|i| {
            let accounts = accounts.clone();
            let tenant = ["acme", "other"][i % 2];
            tokio::spawn(async move { accounts.audit(audit(tenant, "x", None)).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    for tenant in ["acme", "other"] {
        let log = accounts.audit_log(&tenant.into(), None, None, 99).await.unwrap();
        let numbers: Vec<u64> = log.iter().map(|entry| entry.n).collect();
        assert_eq!(numbers, (1..=12).rev().collect::<Vec<_>>());
    }
}

/// Each test of the suite on a database of its own.
macro_rules! suite {
    ($fresh:path) => {
        #[tokio::test]
        async fn keys_are_found_by_their_hash_and_stay_with_their_tenant() {
            let Some((accounts, _place)) = $fresh().await else { return };
            super::keys_are_found_by_their_hash_and_stay_with_their_tenant(&*accounts).await;
        }

        #[tokio::test]
        async fn a_key_is_revoked_once_and_by_its_own_tenant() {
            let Some((accounts, _place)) = $fresh().await else { return };
            super::a_key_is_revoked_once_and_by_its_own_tenant(&*accounts).await;
        }

        #[tokio::test]
        async fn what_no_database_can_hold_is_left_out() {
            let Some((accounts, _place)) = $fresh().await else { return };
            super::what_no_database_can_hold_is_left_out(&*accounts).await;
        }

        #[tokio::test]
        async fn the_log_is_read_backwards_by_tenant_and_session() {
            let Some((accounts, _place)) = $fresh().await else { return };
            super::the_log_is_read_backwards_by_tenant_and_session(&*accounts).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn many_write_at_once() {
            let Some((accounts, _place)) = $fresh().await else { return };
            super::many_write_at_once(accounts).await;
        }
    };
}

async fn in_a_file() -> Option<(Arc<dyn Accounts>, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let accounts = SqliteAccounts::open(folder.path().join("accounts.db")).await.unwrap();
    Some((Arc::new(accounts), folder))
}

async fn in_postgres() -> Option<(Arc<dyn Accounts>, Schema)> {
    let schema = Schema::new().await?;
    Some((Arc::new(PostgresAccounts::open(&schema.url).await.unwrap()), schema))
}

mod sqlite {
    suite!(super::in_a_file);
}

mod postgres {
    suite!(super::in_postgres);
}

/// Processes that start at the same moment on a new database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_open_a_new_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    // The moment in which they meet is short.
    for round in 0..20 {
        let path = folder.path().join(format!("accounts-{round}.db"));
        let openers: Vec<_> =
            (0..6).map(|_| tokio::spawn(SqliteAccounts::open(path.clone()))).collect();
        for opener in openers {
            opener.await.unwrap().unwrap().check().await.unwrap();
        }
    }
    let Some(schema) = Schema::new().await else { return };
    let openers: Vec<_> = (0..6)
        .map(|_| {
            let url = schema.url.clone();
            tokio::spawn(async move { PostgresAccounts::open(&url).await })
        })
        .collect();
    for opener in openers {
        opener.await.unwrap().unwrap().check().await.unwrap();
    }
}

/// Beside the sessions' tables, in one database.
#[tokio::test]
async fn keys_and_sessions_share_a_database() {
    let Some(schema) = Schema::new().await else { return };
    for _again in 0..2 {
        turnbuckle_store::open(&schema.url).await.unwrap();
        PostgresAccounts::open(&schema.url).await.unwrap().check().await.unwrap();
    }
}

/// What the database says that is not an answer goes to the log. That tables are there already is not worth a word at every start;
/// the rest is.
#[tokio::test]
async fn a_start_on_a_database_that_is_up_to_date_is_silent() {
    let Some(schema) = Schema::new().await else { return };
    let open = async || {
        let inside = PostgresOptions {
            schema: Some(schema.name.clone()),
            ..PostgresOptions::new(&schema.base)
        };
        PostgresStore::with(inside).await.unwrap();
        PostgresAccounts::open(&schema.url).await.unwrap();
    };
    open().await;
    let ear = Ear::default();
    let _listening = tracing::subscriber::set_default(ear.clone());
    open().await;
    let mut conn = schema.url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
    // Whatever becomes of migrations, the connection says again what there is to say.
    migrate_postgres(&mut conn, &Migrator::DEFAULT).await.unwrap_err();
    conn.execute("DO $$ BEGIN RAISE NOTICE 'heard'; END $$").await.unwrap();
    assert_eq!(*ear.heard.lock().unwrap(), ["heard"]);
}

/// Hears what the database says.
#[derive(Clone, Default)]
struct Ear {
    heard: Arc<Mutex<Vec<String>>>,
}

impl tracing::Subscriber for Ear {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "sqlx::postgres::notice"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Words<'a>(&'a mut Vec<String>);
        impl tracing::field::Visit for Words<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0.push(format!("{value:?}").trim_matches('"').to_owned());
                }
            }
        }
        event.record(&mut Words(&mut self.heard.lock().unwrap()));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// A schema of a test's own, dropped with all it holds.
struct Schema {
    name: String,
    base: String,
    url: String,
}

impl Schema {
    /// A new one, when there is a database. What is not there is skipped aloud; in CI nothing may be.
    async fn new() -> Option<Self> {
        let base = std::env::var("TURNBUCKLE_TEST_POSTGRES")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
        let options: PgConnectOptions = base.parse().unwrap();
        let mut conn = match options.connect().await {
            Ok(conn) => conn,
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "Postgres is not there: {error}");
                eprintln!("SKIPPED: Postgres is not there ({error}); set TURNBUCKLE_TEST_POSTGRES");
                return None;
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("accounts_{now}_{}", std::process::id());
        let sql = format!("CREATE SCHEMA \"{name}\"");
        sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        let url = format!("{base}?options[search_path]={name}");
        Some(Self { name, base, url })
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (url, name) = (self.base.clone(), self.name.clone());
        let drop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let mut conn = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
                let sql = format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE");
                sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
            });
        });
        // A failing test tells more than this would.
        let _left_behind = drop.join();
    }
}
