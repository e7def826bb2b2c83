//! What stands below fails: the disk is full, the database restarts or is away, Redis is gone. The state is told, what was
//! committed is kept, and all goes on by itself.

use crate::support::{Cluster, Database, Process, Redis, Script, Settings, Site, soon, until};
use reqwest::StatusCode;
use serde_json::json;
use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use turnbuckle::core::outcome::Outcome;
use turnbuckle_testkit::Relay;

/// Waits until a process says that it can serve, or that it cannot, and gives what is wrong.
async fn until_ready(site: &Site, process: &Process, wanted: StatusCode) -> Vec<String> {
    let client = site.client(process);
    until("readiness changes", async || {
        let (status, problems) = client.ready().await;
        (status == wanted).then_some(problems)
    })
    .await
}

/// Waits until a process says that nothing is wrong any more.
async fn until_sound(site: &Site, process: &Process) {
    let client = site.client(process);
    until("all is well again", async || {
        (client.ready().await == (StatusCode::OK, Vec::new())).then_some(())
    })
    .await;
}

/// A turn between two steps and one in its middle, when something happens to the database.
async fn turns_survive(site: Site, happens: impl AsyncFnOnce(&Site, &Process)) {
    let process = site.serve().await;
    let client = site.client(&process);
    let (talk, deed) = (client.session().await, client.session().await);
    let talks = Script::default().call(&[("pay", "bill")]).say_around("half", "Half ", "done.");
    let acts = Script::default().call(&[("pay", "rent"), ("look", "tea")]).say("Paid.");
    site.world.hold("rent");
    client.submit(&talk, &talks).await;
    client.submit(&deed, &acts).await;
    site.model.wait_asked(&talks, 2).await;
    site.world.wait_begun("rent", 1).await;
    let before = client.stored_events(&talk).await;
    // The deed may be done and the answer complete while nothing can be stored.
    happens(&site, &process).await;
    assert_eq!(client.stored_events(&talk).await[..before.len()], before, "committed work is lost");
    let (talk, deed) = (client.at_rest(&talk).await, client.at_rest(&deed).await);
    assert_eq!((talk.outcome(), talk.answer().text()), (Outcome::Completed, "Half done.".into()));
    assert_eq!((deed.outcome(), deed.answer().text()), (Outcome::Completed, "Paid.".into()));
    // Nobody else was there to take over, so the owner stored what it had done: nothing is unknown.
    assert_eq!((talk.ended("bill").1, deed.ended("rent").1), (None, None));
    assert_eq!((site.world.times("bill"), site.world.times("rent")), (1, 1));
}

/// The state is told, and the turns do what they can meanwhile.
async fn turns_go_on_without_it(site: &Site, process: &Process) {
    let problems = until_ready(site, process, StatusCode::SERVICE_UNAVAILABLE).await;
    assert!(problems.iter().any(|p| p.contains("session store")), "{problems:?}");
    site.model.gate("half").open();
    site.world.open("rent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_restarts() {
    let Some(cluster) = Cluster::start().await else { return };
    let site = Site::on(Database::At(cluster.url())).await;
    turns_survive(site, async |site, process| {
        cluster.crash().await;
        turns_go_on_without_it(site, process).await;
        let (status, problem) = site.client(process).post("/v1/sessions", &json!({})).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::SERVICE_UNAVAILABLE, &json!("unavailable"))
        );
        cluster.go_on().await;
        until_sound(site, process).await;
    })
    .await;
}

/// Several times the lease that is usual outside of tests, and longer than any one statement or connection is waited for.
const AWAY: Duration = Duration::from_secs(30);

/// A site with the usual lease.
async fn usual(database: Database) -> Site {
    Site::with(database, Settings { lease_ms: None, ..Settings::default() }).await
}

/// Turns go on in a database that goes away and comes back after long.
async fn turns_wait_for_it(
    site: Site,
    goes: impl AsyncFnOnce(&Site),
    comes_back: impl AsyncFnOnce(),
) {
    turns_survive(site, async |site, process| {
        goes(site).await;
        let begun = Instant::now();
        turns_go_on_without_it(site, process).await;
        until("it is away for long", async || {
            let (status, _) = site.client(process).ready().await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            (begun.elapsed() > AWAY).then_some(())
        })
        .await;
        comes_back().await;
        until_sound(site, process).await;
    })
    .await;
}

/// Connections stay open, and nothing answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_frozen_for_30_s() {
    let Some(cluster) = Cluster::start().await else { return };
    let site = usual(Database::At(cluster.url())).await;
    turns_wait_for_it(site, async |_| cluster.freeze(), async || cluster.thaw()).await;
}

/// Connections break, and no new one can be opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_cannot_be_reached_for_30_s() {
    let Some(database) = Database::postgres().await else { return };
    let relay = Relay::to(&database.url()).await;
    let site = usual(Database::At(relay.url())).await;
    turns_wait_for_it(site, async |_| relay.cut(), async || relay.mend()).await;
    drop(database);
}

/// Another process writes and does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_locked_for_30_s() {
    let site = usual(Database::file()).await;
    let lock = Cell::new(None);
    turns_wait_for_it(
        site,
        async |site| lock.set(Some(site.database.lock(&[]).await)),
        async || lock.take().unwrap().release().await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_gone() {
    let Some(database) = Database::postgres().await else { return };
    let Some(mut redis) = Redis::start().await else { return };
    let settings = Settings { bus: Some(redis.url()), ..Settings::default() };
    let site = Site::with(database, settings).await;
    // The turn runs in one process and is read in another; only Redis and the store are between them.
    let (api, worker) = (site.api().await, site.work().await);
    let client = site.client(&api);
    assert_eq!(client.ready().await, (StatusCode::OK, Vec::new()));
    let session = client.session().await;
    let script = Script::default().call(&[("pay", "bill")]).say_around("half", "Half ", "done.");
    client.submit(&session, &script).await;
    let mut watch = client.watch(&session, "0", None).await;
    watch.until("text-delta").await;
    redis.crash();
    let problem = until("the bus is missed", async || client.ready().await.1.pop()).await;
    assert!(problem.contains("event bus"), "{problem}");
    assert_eq!(client.ready().await.0, StatusCode::OK, "it goes on alone");
    site.model.gate("half").open();
    soon("the end comes from the store", watch.until("turn-end")).await;
    let found = client.at_rest(&session).await;
    assert_eq!((found.answer().text(), site.world.times("bill")), ("Half done.".into(), 1));
    // A wish reaches the worker without it, too.
    let script = Script::default().say("Still here.");
    client.submit(&session, &script).await;
    assert_eq!(client.at_rest(&session).await.answer().text(), "Still here.");
    redis.go_on().await;
    until_sound(&site, &api).await;
    let mut watch = client.watch(&session, "0", None).await;
    client.submit(&session, &Script::default().say_around("more", "And ", "on.")).await;
    // What is not stored yet comes over the bus alone.
    soon("live again", async { while !watch.until("text-delta").await.data.contains("And ") {} })
        .await;
    site.model.gate("more").open();
    client.at_rest(&session).await;
    drop(worker);
}

/// A file system of a few megabytes that only the process sees; the test reaches it through the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_full() {
    let site = Site::on(Database::Folder).await;
    let Some(disk) = Disk::of(&site).await else { return };
    let client = site.client(&disk.process);
    let session = client.session().await;
    client.submit(&session, &Script::default().call(&[("pay", "bill")]).say("Paid.")).await;
    let before = client.at_rest(&session).await;
    // A turn is under way when the disk fills up.
    let script = Script::default().call(&[("pay", "rent")]).say("Paid again.");
    let rent = site.world.hold("rent");
    client.submit(&session, &script).await;
    site.world.wait_begun("rent", 1).await;
    disk.fill();
    rent.open();
    site.world.wait_done("rent", 1).await;
    let (status, problem) = until("nothing can be stored", async || {
        let (status, problem) = client.post("/v1/sessions", &json!({})).await;
        (status != StatusCode::CREATED).then_some((status, problem))
    })
    .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("storage_full"))
    );
    let problems = until_ready(&site, &disk.process, StatusCode::SERVICE_UNAVAILABLE).await;
    assert!(problems.iter().any(|p| p.contains("full")), "{problems:?}");
    // What is stored can be read all the while.
    assert_eq!(client.stored_events(&session).await[..before.lines.len()], before.lines);
    disk.empty();
    until_sound(&site, &disk.process).await;
    let found = client.at_rest(&session).await;
    assert_eq!(
        (found.outcome(), found.answer().text()),
        (Outcome::Completed, "Paid again.".into())
    );
    assert_eq!((site.world.times("bill"), site.world.times("rent")), (1, 1));
}

/// A small file system that is gone with its process.
struct Disk {
    process: Process,
    ballast: PathBuf,
}

impl Disk {
    /// A process whose data folder lies on one, where the system lets us have it.
    async fn of(site: &Site) -> Option<Self> {
        let namespace = ["--mount", "--map-root-user", "--user"];
        let mut able = Command::new("unshare");
        able.args(namespace).args(["mount", "-t", "tmpfs", "x", "/mnt"]);
        if !able.status().is_ok_and(|status| status.success()) {
            crate::support::skip("no file system can be made for a process");
            return None;
        }
        let inner = site.command(&["serve"]);
        let mut command = Command::new("unshare");
        command.args(namespace).args(["sh", "-c"]);
        command.arg("mkdir -p \"$TURNBUCKLE_DATA\" && mount -t tmpfs -o size=6m x \"$TURNBUCKLE_DATA\" && exec \"$0\" \"$@\"");
        command.arg(inner.get_program()).args(inner.get_args());
        command.env_clear();
        for (name, value) in inner.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let data = command.get_envs().find(|(name, _)| *name == "TURNBUCKLE_DATA");
        let data = PathBuf::from(data.unwrap().1.unwrap());
        command.current_dir(data.parent().unwrap());
        let process = Process::start(command).await;
        let root = PathBuf::from(format!("/proc/{}/root", process.pid()));
        let ballast = root.join(data.strip_prefix("/").unwrap()).join("ballast");
        Some(Self { process, ballast })
    }

    /// Takes what room there is.
    fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(&self.ballast).unwrap();
        let block = vec![0; 4096];
        while file.write_all(&block).is_ok() {}
    }

    /// Gives it back.
    fn empty(&self) {
        std::fs::remove_file(&self.ballast).unwrap();
    }
}
