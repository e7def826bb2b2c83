//! A whole site is taken to another database with `db export` and `db import`, and goes on there.

use crate::support::{Api, Database, Script, Site, run};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle::core::outcome::Outcome;
use turnbuckle::core::part::ToolCallStatus;

/// Runs a command of the binary to its good end, and gives what it says.
async fn does(site: &Site, arguments: &[&str]) -> String {
    let output = run(site.command(arguments)).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    out.into_owned()
}

/// All of a site as an archive, and how that says what is in it.
async fn archive(site: &Site, name: &str) -> (String, Vec<Value>) {
    let file = site.path(name);
    does(site, &["db", "export", &file]).await;
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (file, essence(lines))
}

/// The lines by what is the same in every place: who held a session or job does not go along, and a schedule is due anew.
fn essence(mut lines: Vec<Value>) -> Vec<Value> {
    let strip = |value: &mut Value, names: &[&str]| {
        for name in names {
            value.as_object_mut().unwrap().remove(*name);
        }
    };
    for line in &mut lines {
        match line["kind"].as_str().unwrap() {
            "session" => strip(&mut line["session"], &["fence", "lease", "version"]),
            "schedule" => strip(line, &["created", "updated", "revision", "next"]),
            "job" => strip(line, &["created", "fence", "attempts", "lease"]),
            _ => {}
        }
    }
    lines.sort_by_cached_key(Value::to_string);
    lines
}

/// How many lines there are of each kind.
fn count(lines: &[Value], kind: &str) -> usize {
    lines.iter().filter(|line| line["kind"] == kind).count()
}

/// What the API tells of everything that is not in a session.
async fn told(client: &Api) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/v1/usage?by=model",
        "/v1/usage?by=day",
        "/v1/keys",
        "/v1/audit",
        "/v1/captured",
        "/v1/approvals",
    ] {
        let (status, mut answer) = client.get(path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        // Usage is counted up to the moment at which somebody asks.
        answer.as_object_mut().unwrap().remove("to");
        all.push(answer);
    }
    all
}

/// Something of every kind; the sessions with a card that waits and with a turn at work, and a key.
struct Filled {
    parked: String,
    card: String,
    running: String,
    key: String,
}

async fn fill(site: &Site) -> Filled {
    let process = site.serve().await;
    let client = site.client(&process);
    let done = client.session().await;
    client
        .submit(&done, &Script::default().call(&[("pay", "tea"), ("hire", "mower")]).say("Done."))
        .await;
    client.at_rest(&done).await;
    let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let content = json!([
        {"type": "text", "text": Script::default().say("A dot.").message()},
        {"type": "image", "mime": "image/png", "source": {"data": image}},
    ]);
    let (status, answer) =
        client.post(&format!("/v1/sessions/{done}/turns"), &json!({"content": content})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    client.at_rest(&done).await;
    for (thing, scope) in [("lamp", "session"), ("rug", "user")] {
        let asked = client.session().await;
        client.submit(&asked, &Script::default().call(&[("ask", thing)]).say("Paid.")).await;
        let card = client.card(&asked).await;
        let approval = json!({
            "decision": "approve",
            "remember": {"for": scope, "args": [{"path": "id", "equals": thing}]},
        });
        let (status, answer) = client.post(&format!("/v1/approvals/{card}"), &approval).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        client.at_rest(&asked).await;
    }
    let captured = client.session().await;
    let script = Script::default().call(&[("ask", "car")]).say("It is noted.").message();
    let (status, answer) = client
        .post(
            &format!("/v1/sessions/{captured}/turns"),
            &json!({"content": script, "mode": "capture"}),
        )
        .await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    client.at_rest(&captured).await;
    let parked = client.session().await;
    client.submit(&parked, &Script::default().call(&[("ask", "rent")]).say("Paid the rent.")).await;
    let card = client.card(&parked).await;
    // It is killed in the middle of a turn.
    let running = client.session().await;
    let script =
        Script::default().call(&[("pay", "bill")]).say_around("half", "It is half ", "done.");
    client.submit(&running, &script).await;
    site.model.wait_asked(&script, 2).await;
    process.die().await;
    // Nobody takes up what a trigger wants.
    let api = site.api().await;
    let client = site.client(&api);
    let trigger = json!({"name": "morning", "cron": "0 7 * * 1", "time_zone": "Europe/Oslo", "content": "Good morning."});
    let (status, made) = client.post("/v1/triggers", &trigger).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let path = format!("/v1/triggers/{}/run", made["id"].as_str().unwrap());
    let (status, answer) = client.post(&path, &json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    api.die().await;
    let key = does(site, &["keys", "create", "ci", "--roles", "admin"]).await;
    let key = key.split_whitespace().find(|word| word.starts_with("tbk_")).unwrap().to_owned();
    Filled { parked, card, running, key }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_moves_to_postgres_and_back_and_goes_on() {
    let Some(postgres) = Database::postgres().await else { return };
    let site = Site::on(Database::file()).await;
    let filled = fill(&site).await;
    let (file, before) = archive(&site, "before.jsonl").await;
    for (kind, least) in [
        ("session", 6),
        ("blob", 1),
        ("schedule", 1),
        ("job", 1),
        ("allowance", 2),
        ("key", 1),
        ("audit", 3),
    ] {
        assert!(count(&before, kind) >= least, "{} of {kind}", count(&before, kind));
    }
    let of_sessions = |name: &str| {
        before.iter().filter_map(|line| line[name].as_array()).map(Vec::len).sum::<usize>()
    };
    assert!(of_sessions("tasks") == 1 && of_sessions("captured") == 1);
    let checked = does(&site, &["db", "check"]).await;
    let api = site.api().await;
    let told_before = told(&Api::with_key(&api.base, &filled.key)).await;
    api.die().await;

    let site = site.moved(postgres);
    does(&site, &["db", "import", &file]).await;
    assert_eq!(does(&site, &["db", "check"]).await, checked);
    let (_, there) = archive(&site, "there.jsonl").await;
    assert_eq!(there, before);

    let process = site.serve().await;
    assert_eq!(site.client(&process).get("/v1/sessions").await.0, StatusCode::UNAUTHORIZED);
    let client = Api::with_key(&process.base, &filled.key);
    site.model.gate("half").open();
    let found = client.at_rest(&filled.running).await;
    assert_eq!(
        (found.outcome(), found.answer().text()),
        (Outcome::Completed, "It is half done.".into())
    );
    assert_eq!(site.world.times("bill"), 1, "what was paid there is not paid again");
    assert_eq!(site.world.times("rent"), 0);
    assert_eq!(client.approve(&filled.card).await.0, StatusCode::ACCEPTED);
    let found = client.at_rest(&filled.parked).await;
    assert_eq!(found.ended("rent"), (ToolCallStatus::Completed, None));
    assert_eq!(found.answer().text(), "Paid the rent.");
    assert_eq!(site.world.times("rent"), 1);
    // What was allowed for good there holds here.
    let session = client.session().await;
    client.submit(&session, &Script::default().call(&[("ask", "rug")]).say("Paid.")).await;
    assert_eq!(client.at_rest(&session).await.ended("rug").0, ToolCallStatus::Completed);
    // What was set aside can be applied.
    let (_, captured) = client.get("/v1/captured").await;
    let one = &captured["items"][0];
    assert_eq!(one["status"], "pending", "{captured}");
    process.die().await;

    let (file, before) = archive(&site, "on.jsonl").await;
    let api = site.api().await;
    let told_there = told(&Api::with_key(&api.base, &filled.key)).await;
    api.die().await;
    assert_ne!(told_there, told_before, "it went on there");
    let site = site.moved(Database::file());
    does(&site, &["db", "import", &file]).await;
    let (_, back) = archive(&site, "back.jsonl").await;
    assert_eq!(back, before);
    let api = site.api().await;
    assert_eq!(told(&Api::with_key(&api.base, &filled.key)).await, told_there);
    let wrong = Api::with_key(&api.base, "tbk_wrong").request(Method::GET, "/v1/sessions");
    assert_eq!(wrong.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
}
