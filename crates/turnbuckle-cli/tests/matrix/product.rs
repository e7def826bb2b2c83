//! The binary as it is shipped, with its desk, on a shared database.

use crate::support::{Api, Database, LEASE, Process, Site, TAKEOVER, run};
use reqwest::StatusCode;
use std::process::Command;
use std::time::Instant;
use turnbuckle::core::outcome::Outcome;

/// The binary with the site's configuration and the desk's agent.
fn binary(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnbuckle"));
    site.surround(&mut command);
    command
        .env("TURNBUCKLE_AGENT", "desk")
        .env("TURNBUCKLE_USER", "priya.raman@bramling.example")
        .args(arguments);
    command
}

async fn ran(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let output = run(binary(site, arguments)).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_on_postgres() {
    let Some(database) = Database::postgres().await else { return };
    let site = Site::on(database).await;
    let (_, out, _) = ran(&site, &["doctor"]).await;
    assert!(out.contains("answers; the first start makes its tables"), "{out}");
    let script = crate::support::Script::default().say("Good morning.");
    let (code, out, err) = ran(&site, &["run", &script.message()]).await;
    assert_eq!((code, out.as_str()), (0, "Good morning.\n"), "{err}");
    let session = err.lines().find_map(|line| line.strip_prefix("session ")).unwrap().to_owned();
    let (code, out, _) = ran(&site, &["sessions"]).await;
    assert!(code == 0 && out.contains(&session), "{out}");
    let (code, out, _) = ran(&site, &["sessions", "show", &session]).await;
    assert!(code == 0 && out.contains("Good morning."), "{out}");
    assert_eq!(ran(&site, &["replay", &session, "--verify"]).await.0, 0);
    let (_, out, _) = ran(&site, &["doctor"]).await;
    assert!(out.contains("sessions") && out.contains("answers\n"), "{out}");
    // A key that one process makes is asked for by the next.
    let (code, key, _) = ran(&site, &["keys", "create", "ci", "--roles", "admin"]).await;
    assert_eq!(code, 0);
    let process = Process::start(binary(&site, &["serve"])).await;
    let client = Api::at(&process.base);
    assert_eq!(client.get("/v1/sessions").await.0, StatusCode::UNAUTHORIZED);
    let request = client.request(reqwest::Method::GET, "/v1/sessions").bearer_auth(key.trim());
    let found: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(found["items"][0]["id"], session.as_str());
    assert_eq!(ran(&site, &["sessions", "delete", &session]).await.0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_and_workers_apart_and_a_worker_dies() {
    let Some(database) = Database::postgres().await else { return };
    let site = Site::on(database).await;
    let server = Process::start(binary(&site, &["serve", "--no-worker"])).await;
    let worker = Process::start(binary(&site, &["work"])).await;
    let client = Api::at(&server.base);
    let session = client.session().await;
    let script = crate::support::Script::default().say_around("half", "It is half ", "done.");
    client.submit(&session, &script).await;
    let mut watch = client.watch(&session, "0", None).await;
    watch.until("text-delta").await;
    let _heir = Process::start(binary(&site, &["work"])).await;
    let killed = Instant::now();
    worker.die().await;
    site.model.wait_asked(&script, 2).await;
    assert!(killed.elapsed() < LEASE + TAKEOVER, "taken over after {:?}", killed.elapsed());
    site.model.gate("half").open();
    let found = client.at_rest(&session).await;
    assert_eq!(
        (found.outcome(), found.answer().text()),
        (Outcome::Completed, "It is half done.".into())
    );
}

/// A password never gets out, whatever goes wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_of_a_database_is_not_told() {
    let site =
        Site::on(Database::At("postgres://u:geheim@127.0.0.1:1/db?password=geheim".into())).await;
    for arguments in
        [&["doctor"][..], &["serve"], &["work"], &["sessions"], &["run", "x"], &["keys", "list"]]
    {
        let (code, out, err) = ran(&site, arguments).await;
        assert_eq!(code, 1, "{arguments:?}: {out}{err}");
        assert!(!out.contains("geheim") && !err.contains("geheim"), "{arguments:?}: {out}{err}");
    }
    let site = Site::on(Database::At("mysql://u:geheim@127.0.0.1:1/db".into())).await;
    let (code, _, err) = ran(&site, &["sessions"]).await;
    assert!(
        code == 2 && err.contains("`mysql://***@127.0.0.1:1/db` is not the address of a store"),
        "{err}"
    );
}

/// API and worker apart without anything between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_share_nothing_are_refused() {
    let site = Site::on(Database::Folder).await;
    for arguments in [&["work"][..], &["serve", "--no-worker"]] {
        let (code, _, err) = ran(&site, arguments).await;
        assert!(code == 2 && err.contains("TURNBUCKLE_STORE"), "{code} {err}");
    }
}
