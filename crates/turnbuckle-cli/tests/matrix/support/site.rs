//! A site: processes on one store, with the model and the world they work with.

use super::agents::{ARGUMENTS, WORLD};
use super::{Api, Database, LEASE, Model, Process, World};
use std::process::Command;
use tempfile::TempDir;

/// Processes on one store, with the model and the world they work with.
pub struct Site {
    pub world: World,
    pub model: Model,
    pub database: Database,
    folder: TempDir,
    settings: Settings,
}

/// What differs from test to test.
pub struct Settings {
    /// How long turns may go on when a process ends.
    pub grace_ms: u64,
    /// How long tools may take after that.
    pub tool_grace_ms: u64,
    /// How long a session stays with a process that has fallen silent; as usual outside of tests, when nobody says.
    pub lease_ms: Option<u64>,
    pub bus: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let lease_ms = Some(LEASE.as_millis() as u64);
        Self { grace_ms: 300, tool_grace_ms: 10_000, lease_ms, bus: None }
    }
}

impl Site {
    pub async fn on(database: Database) -> Self {
        Self::with(database, Settings::default()).await
    }

    pub async fn with(database: Database, settings: Settings) -> Self {
        let site = Self {
            world: World::start().await,
            model: Model::start().await,
            database,
            folder: tempfile::tempdir().unwrap(),
            settings,
        };
        site.configure();
        site
    }

    /// The same site on another database. None of its processes may run.
    pub fn moved(mut self, database: Database) -> Self {
        self.database = database;
        self.configure();
        self
    }

    fn configure(&self) {
        std::fs::write(self.folder.path().join("turnbuckle.toml"), self.config()).unwrap();
    }

    /// Where a file of that name lies, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn config(&self) -> String {
        let Settings { grace_ms, tool_grace_ms, lease_ms, bus } = &self.settings;
        let lease = lease_ms.map(|ms| format!("lease_ms = {ms}")).unwrap_or_default();
        let bus = bus.as_ref().map(|bus| format!("bus = \"{bus}\"")).unwrap_or_default();
        format!(
            "model = \"openai:test-model\"\nagent = \"main\"\nuser = \"ada\"\nlog = \"warn\"\n\
             local_servers = false\ntitles = \"off\"\n\
             [store]\n{lease}\n\
             [providers.openai]\nbase_url = \"{}\"\nmax_concurrency = 1000\n\
             [server]\nlisten = \"127.0.0.1:0\"\nbus_channel = \"{}\"\n{bus}\n\
             [server.limits]\nrequests_per_second = 0\nstreams_per_user = 5000\n\
             [server.worker]\npoll_ms = 100\ngrace_ms = {grace_ms}\ntool_grace_ms = {tool_grace_ms}\n",
            self.model.base_url(),
            self.database.channel()
        )
    }

    /// A process with API and worker.
    pub async fn serve(&self) -> Process {
        Process::start(self.command(&["serve"])).await
    }

    /// Two processes with API and worker, and a client of each.
    pub async fn replicas(&self) -> ([Process; 2], [Api; 2]) {
        let replicas = [self.serve().await, self.serve().await];
        let clients = replicas.each_ref().map(|process| self.client(process));
        (replicas, clients)
    }

    /// A process with the API alone.
    pub async fn api(&self) -> Process {
        Process::start(self.command(&["serve", "--no-worker"])).await
    }

    /// A process with the worker alone.
    pub async fn work(&self) -> Process {
        Process::start(self.command(&["work"])).await
    }

    /// How a process of the site is started: this executable once more, as the binary.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["support::agents::process", "--exact", "--ignored", "--nocapture"]);
        self.surround(&mut command);
        let all: Vec<&str> =
            std::iter::once("turnbuckle").chain(arguments.iter().copied()).collect();
        command.env(ARGUMENTS, serde_json::to_string(&all).unwrap());
        command.env(WORLD, self.world.address.to_string());
        command
    }

    /// The environment of a process of the site.
    pub fn surround(&self, command: &mut Command) {
        let folder = self.folder.path();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("OPENAI_API_KEY", "sk-test")
            .env("TURNBUCKLE_CONFIG", folder.join("turnbuckle.toml"))
            .env("TURNBUCKLE_DATA", folder.join("data"))
            .env("TURNBUCKLE_STORE", self.database.url())
            .current_dir(folder);
    }

    /// The API of a process.
    pub fn client(&self, process: &Process) -> Api {
        Api::at(&process.base)
    }
}
