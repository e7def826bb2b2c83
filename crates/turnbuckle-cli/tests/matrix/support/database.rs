//! Stores of a test's own, and servers of a test's own that it may stop.

use super::{HANG, until};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A store that several processes share.
pub enum Database {
    File(TempDir),
    Postgres(Own),
    /// What a data folder holds by itself: one process's at a time.
    Folder,
    /// Somebody else's, by its address.
    At(String),
}

/// A schema of a test's own on the server of the tests; dropped with the test.
pub struct Own {
    pub name: String,
    server: String,
}

/// Says aloud that a test is skipped; in CI none may be.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}; nothing may be skipped in CI");
    eprintln!("SKIPPED: {why}");
}

impl Database {
    pub fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    pub fn folder() -> Self {
        Self::Folder
    }

    /// A new schema, when there is a server.
    pub async fn postgres() -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let server = std::env::var("TURNBUCKLE_TEST_POSTGRES")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
        let options: PgConnectOptions = server.parse().unwrap();
        let mut conn = match options.connect().await {
            Ok(conn) => conn,
            Err(e) => {
                skip(&format!("no Postgres ({e}); set TURNBUCKLE_TEST_POSTGRES"));
                return None;
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("matrix_{now}_{}_{count}", std::process::id());
        run(&mut conn, &format!("CREATE SCHEMA {name}")).await;
        Some(Self::Postgres(Own { name, server }))
    }

    /// What its processes speak on, so that tests do not hear each other.
    pub fn channel(&self) -> &str {
        match self {
            Self::Postgres(own) => &own.name,
            Self::File(_) | Self::Folder | Self::At(_) => "turnbuckle",
        }
    }

    /// Its address; empty where nobody says.
    pub fn url(&self) -> String {
        match self {
            Self::File(folder) => format!("sqlite:{}", file(folder).display()),
            Self::Postgres(own) => own.url(),
            Self::Folder => String::new(),
            Self::At(url) => url.clone(),
        }
    }

    /// Holds back every commit to sessions until it is released.
    pub async fn lock(&self, sessions: &[&str]) -> Lock {
        match self {
            Self::File(folder) => {
                let options = SqliteConnectOptions::new().filename(file(folder)).busy_timeout(HANG);
                let mut conn = options.connect().await.unwrap();
                sqlx::query("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
                Lock::File(conn)
            }
            Self::Folder => panic!("nobody else can lock a data folder's file"),
            Self::Postgres(_) | Self::At(_) => {
                let mut conn =
                    self.url().parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
                sqlx::query("BEGIN").execute(&mut conn).await.unwrap();
                sqlx::query("SELECT FROM sessions WHERE id = ANY($1) FOR UPDATE")
                    .bind(sessions)
                    .execute(&mut conn)
                    .await
                    .unwrap();
                Lock::Postgres(conn)
            }
        }
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("shared.db")
}

impl Own {
    fn url(&self) -> String {
        format!("{}?options[search_path]={1}&application_name={1}", self.server, self.name)
    }
}

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::query(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap();
}

impl Drop for Own {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let drop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let options: PgConnectOptions = server.parse().unwrap();
                let mut conn = options.connect().await.unwrap();
                run(&mut conn, &format!("DROP SCHEMA IF EXISTS {name} CASCADE")).await;
            });
        });
        // A failing test tells more than this would.
        let _left_behind = drop.join();
    }
}

/// What holds commits back.
pub enum Lock {
    File(SqliteConnection),
    Postgres(PgConnection),
}

impl Lock {
    /// Lets commits through again. What dead processes asked for is called off first: Postgres would still carry it out, even
    /// what it has not begun to read.
    pub async fn release(self) {
        match self {
            Self::File(conn) => conn.close().await.unwrap(),
            Self::Postgres(mut conn) => {
                until("the connections of the dead end", async || {
                    // Within a transaction this view stays as it was first seen.
                    run(&mut conn, "SELECT pg_stat_clear_snapshot()").await;
                    let others = sqlx::query(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()",
                    );
                    others.fetch_all(&mut conn).await.unwrap().is_empty().then_some(())
                })
                .await;
                conn.close().await.unwrap();
            }
        }
    }
}

/// A port that nothing listens on.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A Postgres server of a test's own, to be stopped at will.
pub struct Cluster {
    folder: TempDir,
    port: u16,
}

impl Cluster {
    /// Makes and starts one, when Postgres is installed.
    pub async fn start() -> Option<Self> {
        if tool("initdb").is_none() {
            skip("Postgres is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let cluster = Self { folder, port: free_port() };
        std::fs::create_dir(cluster.data()).unwrap();
        if is_root() {
            // Postgres does not run as root.
            let data = cluster.data();
            let done = Command::new("chown").arg("postgres").arg(&data).status().unwrap();
            assert!(done.success());
        }
        let made = ["-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync", "-D"];
        cluster.run("initdb", &made).await;
        cluster.go_on().await;
        Some(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts it.
    pub async fn go_on(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off",
            self.port
        );
        let log = self.data().join("log");
        let log = log.to_str().unwrap();
        self.run("pg_ctl", &["start", "-s", "-w", "-l", log, "-o", &options, "-D"]).await;
    }

    /// Stops it as a crash would: every connection breaks.
    pub async fn crash(&self) {
        self.run("pg_ctl", &["stop", "-s", "-w", "-m", "immediate", "-D"]).await;
    }

    /// Every process of it falls silent; connections stay open and nothing answers.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// It wakes up.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        // The parent first, so that it makes no more children.
        super::process::kill(signal, &pid);
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        for child in children.split_whitespace() {
            super::process::kill(signal, child);
        }
    }

    async fn run(&self, name: &str, arguments: &[&str]) {
        let program = tool(name).unwrap();
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).arg(self.data()).stdout(Stdio::null()).current_dir("/");
        let done = tokio::task::spawn_blocking(move || command.status());
        assert!(super::soon(name, done).await.unwrap().unwrap().success(), "{name} {arguments:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may be stopped already.
        let Ok(pid) = std::fs::read_to_string(self.data().join("postmaster.pid")) else { return };
        let pid = pid.lines().next().unwrap().to_owned();
        super::process::kill("-QUIT", &pid);
        super::process::kill("-CONT", &pid);
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// Where a program of Postgres is.
fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// A Redis server of a test's own.
pub struct Redis {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl Redis {
    /// Starts one, when it is installed.
    pub async fn start() -> Option<Self> {
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        match launch(folder.path(), port).await {
            Some(child) => Some(Self { folder, port, child }),
            None => {
                skip("Redis is not installed");
                None
            }
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// It dies.
    pub fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// It is started again, at the same address.
    pub async fn go_on(&mut self) {
        self.child = launch(self.folder.path(), self.port).await.unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // One that ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn launch(folder: &Path, port: u16) -> Option<Child> {
    let child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    super::until("Redis listens", async || {
        let connect = tokio::net::TcpStream::connect(("127.0.0.1", port));
        tokio::time::timeout(Duration::from_secs(1), connect).await.ok()?.ok()
    })
    .await;
    Some(child)
}
