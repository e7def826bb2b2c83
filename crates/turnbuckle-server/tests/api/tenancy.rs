//! Who may do what: every route of the description, tried by everyone who may not use it.

use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnbuckle_core::ids::SessionKey;
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;
use turnbuckle_models::scripted::text;
use turnbuckle_server::dto::Role;
use turnbuckle_store::{Blob, JobKey, NewJob, Tick};

/// Things of ada's in the tenant acme that the routes can be about.
struct Things {
    agent: &'static str,
    session: String,
    turn: String,
    approval: String,
    call: String,
    captured: (String, String),
    key: String,
    trigger: String,
    run: String,
    task: String,
}

struct Cast {
    site: Site,
    things: Things,
    secrets: BTreeMap<&'static str, String>,
}

async fn cast() -> Cast {
    let site = site([
        calling("pay", json!({"amount": 1})),
        calling("pay", json!({"amount": 2})),
        text("Done."),
        calling("start_report", json!({})),
        text("It is being written."),
    ])
    .with_keys()
    .start()
    .await;
    let mut secrets = BTreeMap::new();
    for (name, tenant, user, roles) in [
        ("ada", "acme", "ada", &[Role::User][..]),
        ("bob", "acme", "bob", &[Role::User]),
        ("approver", "acme", "amy", &[Role::Approver]),
        ("operator", "acme", "olga", &[Role::Operator]),
        ("admin", "acme", "root", &[Role::Admin]),
        ("nobody", "acme", "nemo", &[]),
        // The same person's name, with every role, elsewhere.
        ("stranger", "umbrella", "ada", &[Role::User, Role::Approver, Role::Operator, Role::Admin]),
    ] {
        secrets.insert(name, site.key(tenant, user, roles).await);
    }
    let ada = &secrets["ada"];
    let post = async |path: &str, body: Value| {
        let request = site.request(Method::POST, path).bearer_auth(ada).json(&body);
        answer(request).await.1
    };
    let watch = async |session: &str, turn: &str| {
        let path = format!("/v1/sessions/{session}/events?after=0&until={turn}");
        Sse::open(site.request(Method::GET, &path).bearer_auth(ada)).await.rest().await
    };
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let session = id(&post("/v1/sessions", json!({})).await["id"]);
    let turns = format!("/v1/sessions/{session}/turns");
    let turn = id(&post(&turns, json!({"content": "Pay"})).await["turn"]);
    watch(&session, &turn).await;
    let other = id(&post("/v1/sessions", json!({})).await["id"]);
    let turns = format!("/v1/sessions/{other}/turns");
    let captured = id(&post(&turns, json!({"content": "Pay", "mode": "capture"})).await["turn"]);
    watch(&other, &captured).await;
    let cards = answer(site.request(Method::GET, "/v1/approvals").bearer_auth(ada)).await.1;
    let blob = Blob {
        id: "b_1".into(),
        media_type: "application/json".into(),
        content: br#"{"secret": true}"#.to_vec(),
    };
    site.store.put_blob(&SessionKey::new("acme", session.as_str()), blob).await.unwrap();
    let third = id(&post("/v1/sessions", json!({})).await["id"]);
    let turns = format!("/v1/sessions/{third}/turns");
    let started = id(&post(&turns, json!({"content": "Report"})).await["turn"]);
    watch(&third, &started).await;
    let trigger = json!({
        "name": "Daily", "cron": "0 6 * * *", "content": "Look", "state": "paused",
    });
    let trigger = id(&post("/v1/triggers", trigger).await["id"]);
    // A run that is of the trigger and waits for ever.
    let tick = Tick { schedule: trigger.as_str().into(), at: Timestamp::from_millis(0) };
    let job = NewJob {
        key: JobKey::new("acme", format!("{trigger}@0")),
        queue: "elsewhere".into(),
        idempotency_key: None,
        payload: Json::default(),
        due: Timestamp::from_millis(i64::MAX / 2),
        max_attempts: 1,
        tick: Some(tick),
        now: site.api.now(),
    };
    let run = site.jobs.enqueue(job).await.unwrap().job().key.id.to_string();
    let things = Things {
        trigger,
        run,
        task: "r%2F1".into(),
        agent: "main",
        session,
        turn,
        approval: id(&cards["items"][0]["id"]),
        call: id(&cards["items"][0]["call"]),
        captured: (other, captured),
        key: "k_acme_ada_1".into(),
    };
    Cast { site, things, secrets }
}

/// A path of the description with the things it names.
fn fill(path: &str, things: &Things) -> String {
    let (session, turn) = match path.starts_with("/v1/captured/") {
        true => (&things.captured.0, &things.captured.1),
        false => (&things.session, &things.turn),
    };
    path.replace("{session}", session)
        .replace("{agent}", things.agent)
        .replace("{thread}", session)
        .replace("{chat}", session)
        .replace("{turn}", turn)
        .replace("{approval}", &things.approval)
        .replace("{call}", &things.call)
        .replace("{key}", &things.key)
        .replace("{trigger}", &things.trigger)
        .replace("{run}", &things.run)
        .replace("{kind}", "report")
        .replace("{task}", &things.task)
        .replace("{blob}", "b_1")
}

/// A body that the route takes.
fn body(method: &str, path: &str) -> Option<Value> {
    Some(match (method, path) {
        ("post", "/v1/sessions") => json!({}),
        ("patch", "/v1/sessions/{session}") => json!({"title": "Mine now"}),
        ("post", "/v1/sessions/{session}/fork") => json!({}),
        ("post", "/v1/sessions/{session}/turns") => json!({"content": "Hello"}),
        ("post", "/v1/sessions/{session}/turns/{turn}/stop" | "/v1/sessions/{session}/stop") => {
            return None;
        }
        ("post", "/ag-ui/{agent}/{thread}/stop" | "/ai-sdk/{agent}/{chat}/stop") => return None,
        ("post", "/ag-ui/{agent}") => {
            let messages = json!([{"id": "m", "role": "user", "content": "Hello"}]);
            json!({"threadId": "x", "runId": "r", "messages": messages})
        }
        ("post", "/ai-sdk/{agent}") => {
            let parts = json!([{"type": "text", "text": "Hello"}]);
            json!({"id": "x", "messages": [{"id": "m", "role": "user", "parts": parts}]})
        }
        ("post", "/v1/approvals/{approval}") => json!({"decision": "approve"}),
        ("post", "/v1/tool-results/{call}") => json!({"output": 1}),
        ("post", "/v1/captured/{session}/{turn}") => {
            json!({"actions": [{"index": 0, "decision": "approve"}]})
        }
        ("post", "/v1/triggers") => {
            json!({"name": "x", "cron": "0 6 * * *", "content": "x", "state": "paused"})
        }
        ("patch", "/v1/triggers/{trigger}") => json!({"state": "active"}),
        ("post", "/v1/triggers/{trigger}/run") => return None,
        ("post", "/v1/triggers/{trigger}/runs/{run}") => json!({"action": "cancel"}),
        ("post", "/v1/tasks/{kind}/{task}") => json!({"state": "completed"}),
        ("post", "/v1/keys") => json!({"name": "x", "user": "x", "roles": ["admin"]}),
        ("get" | "delete", _) => return None,
        other => panic!("say what {other:?} takes, and who may use it"),
    })
}

/// Of the cast in the tenant acme, who may use a route on ada's things.
fn allowed(method: &str, path: &str) -> &'static [&'static str] {
    match (method, path) {
        ("get", "/v1/whoami" | "/v1/info" | "/v1/agents") => {
            &["ada", "bob", "approver", "operator", "admin", "nobody", "stranger"]
        }
        // These are about one's own things, for some roles about everyone's; what they give is tested apart.
        ("get", "/v1/sessions" | "/v1/usage" | "/v1/triggers") => {
            &["ada", "bob", "operator", "admin", "stranger"]
        }
        ("get", "/v1/approvals" | "/v1/captured") => {
            &["ada", "bob", "approver", "admin", "stranger"]
        }
        ("post", "/v1/sessions" | "/v1/triggers") => &["ada", "bob", "admin", "stranger"],
        ("patch" | "delete", "/v1/triggers/{trigger}")
        | (
            "post",
            "/v1/triggers/{trigger}/run"
            | "/v1/triggers/{trigger}/runs/{run}"
            | "/v1/tasks/{kind}/{task}",
        ) => &["ada", "operator", "admin"],
        ("get", "/v1/keys" | "/v1/audit") | ("post", "/v1/keys") => &["admin", "stranger"],
        ("delete", "/v1/keys/{key}") => &["admin"],
        ("get", "/v1/sessions/{session}/export") | ("delete", "/v1/sessions/{session}") => {
            &["ada", "operator", "admin"]
        }
        ("get", path)
            if ["/v1/sessions/", "/v1/approvals/", "/v1/triggers/", "/v1/tasks/"]
                .iter()
                .any(|of| path.starts_with(of)) =>
        {
            &["ada", "approver", "operator", "admin"]
        }
        ("post", "/v1/sessions/{session}/stop" | "/v1/sessions/{session}/turns/{turn}/stop") => {
            &["ada", "operator", "admin"]
        }
        ("post", "/v1/approvals/{approval}" | "/v1/captured/{session}/{turn}") => {
            &["ada", "approver", "admin"]
        }
        // Conversations that clients name are their own; what is another's is to them as if it were not, see below.
        (_, path) if path.starts_with("/ag-ui/") || path.starts_with("/ai-sdk/") => {
            &["ada", "bob", "admin", "stranger"]
        }
        ("patch" | "post", _) => &["ada"],
        other => panic!("say who may use {other:?}"),
    }
}

/// What an answer tells, apart from what differs with every request.
async fn told(request: reqwest::RequestBuilder) -> (StatusCode, Vec<String>, Vec<u8>) {
    let response = request.send().await.unwrap();
    let mut names: Vec<String> = response
        .headers()
        .iter()
        .filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    names.sort();
    (response.status(), names, response.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn whoever_may_not_use_a_route_is_refused_alike_and_learns_nothing() {
    let Cast { site, things, secrets } = cast().await;
    let document = site.get("/openapi.json").await;
    let nothing = Things {
        agent: "none",
        session: "s_0".into(),
        turn: "t_0".into(),
        approval: "t_0-1-card".into(),
        call: "t_0-1".into(),
        captured: ("s_0".into(), "t_0".into()),
        key: "k_0".into(),
        trigger: "tr_0".into(),
        run: "tr_0@0".into(),
        task: "r_0".into(),
    };
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, _) in item.as_object().unwrap() {
            let send = |things: &Things, secret: Option<&str>| {
                let verb: Method = method.to_uppercase().parse().unwrap();
                let mut request = site.request(verb, &fill(path, things));
                if let Some(body) = body(method, path) {
                    request = request.json(&body);
                }
                if let Some(secret) = secret {
                    request = request.bearer_auth(secret);
                }
                told(request)
            };
            let bare = send(&things, None).await;
            assert_eq!(bare.0, StatusCode::UNAUTHORIZED, "{method} {path}");
            assert_eq!(send(&things, Some("tbk_00")).await, bare, "{method} {path}");
            assert_eq!(send(&nothing, None).await, bare, "{method} {path}");
            let allowed = allowed(method, path);
            for (name, secret) in &secrets {
                if allowed.contains(name) {
                    continue;
                }
                let refused = send(&things, Some(secret)).await;
                assert_eq!(refused.0, StatusCode::NOT_FOUND, "{method} {path} by {name}");
                let absent = send(&nothing, Some(&secrets["ada"])).await;
                if path.contains('{') {
                    assert_eq!(refused, absent, "{method} {path} by {name}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
    // Nothing of it had any effect.
    let ada = |path: &str| site.request(Method::GET, path).bearer_auth(&secrets["ada"]);
    let card = answer(ada(&format!("/v1/approvals/{}", things.approval))).await.1;
    assert_eq!(card["status"], "pending");
    assert_eq!(site.world.all(), ["start_report"]);
    let trigger = answer(ada(&format!("/v1/triggers/{}", things.trigger))).await.1;
    assert_eq!((&trigger["state"], &trigger["user"]), (&json!("paused"), &json!("ada")));
    let runs = answer(ada(&format!("/v1/triggers/{}/runs", things.trigger))).await.1;
    let states: Vec<_> = runs["items"].as_array().unwrap().iter().map(|r| &r["state"]).collect();
    assert_eq!(states, ["waiting"]);
    let task = answer(ada("/v1/tasks/report/r%2F1")).await.1;
    assert_eq!(task["state"], "running");
    let session = answer(ada(&format!("/v1/sessions/{}", things.session))).await.1;
    assert_eq!(session["session"]["id"], things.session.as_str());
    assert_ne!(session["session"]["title"], "Mine now", "nobody named it");
}

#[tokio::test]
async fn what_is_anothers_is_to_a_query_as_if_it_were_not() {
    let Cast { site, things, secrets } = cast().await;
    let document = site.get("/openapi.json").await;
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters = item["get"]["parameters"].as_array().into_iter().flatten();
        let names = parameters.filter(|p| p["in"] == "query").map(|p| p["name"].as_str().unwrap());
        for name in names {
            let (anothers, nobodys) = match name {
                "session" => (things.session.as_str(), "s_0"),
                "user" => ("ada", "zoe"),
                _ => continue,
            };
            for who in ["bob", "nobody", "stranger"] {
                let ask = |value: &str| {
                    let path = format!("{}?{name}={value}", fill(path, &things));
                    told(site.request(Method::GET, &path).bearer_auth(&secrets[who]))
                };
                let (status, _, body) = ask(anothers).await;
                let ours = String::from_utf8_lossy(&body).into_owned();
                // A tenant may have an ada of its own.
                let absent = match (who, name) {
                    ("stranger", "user") => {
                        assert!(!ours.contains(&things.session), "{path} by {who}: {ours}");
                        continue;
                    }
                    _ => ask(nobodys).await,
                };
                let theirs = String::from_utf8_lossy(&absent.2).into_owned();
                assert_eq!((status, &ours), (absent.0, &theirs), "{path}?{name} by {who}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 6, "{tried}");
}

#[tokio::test]
async fn whoever_may_use_a_route_can() {
    let Cast { site, things, secrets } = cast().await;
    let document = site.get("/openapi.json").await;
    // What changes things comes last, and what deletes them after that.
    let mut routes: Vec<(String, String)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        routes.extend(item.as_object().unwrap().keys().map(|m| (m.clone(), path.clone())));
    }
    let still = |path: &str| !path.ends_with("/events") && !path.ends_with("/stream");
    routes.retain(|(method, path)| method == "get" && still(path));
    for (method, path) in routes {
        for name in allowed(&method, &path) {
            let request =
                site.request(Method::GET, &fill(&path, &things)).bearer_auth(&secrets[name]);
            let (status, body) = answer(request).await;
            assert_eq!(status, StatusCode::OK, "{path} by {name}: {body}");
        }
    }
    let as_who =
        |name: &str, verb: Method, path: &str| site.request(verb, path).bearer_auth(&secrets[name]);
    let count = async |name: &str, path: &str| {
        answer(as_who(name, Method::GET, path)).await.1["items"].as_array().unwrap().len()
    };
    for (name, path, expected) in [
        ("ada", "/v1/sessions", 3),
        ("bob", "/v1/sessions", 0),
        ("operator", "/v1/sessions", 3),
        ("operator", "/v1/sessions?user=ada", 3),
        ("stranger", "/v1/sessions", 0),
        ("stranger", "/v1/sessions?user=*", 0),
        ("ada", "/v1/approvals", 1),
        ("bob", "/v1/approvals", 0),
        ("approver", "/v1/approvals", 1),
        ("stranger", "/v1/approvals", 0),
        ("ada", "/v1/captured", 1),
        ("bob", "/v1/captured", 0),
        ("approver", "/v1/captured", 1),
        ("stranger", "/v1/captured", 0),
        ("ada", "/v1/triggers", 1),
        ("bob", "/v1/triggers", 0),
        ("operator", "/v1/triggers", 1),
        ("stranger", "/v1/triggers", 0),
        ("stranger", "/v1/triggers?user=*", 0),
        ("stranger", "/v1/keys", 1),
        ("stranger", "/v1/audit", 0),
    ] {
        assert_eq!(count(name, path).await, expected, "{path} by {name}");
    }
    let calls = async |name: &str, path: &str| {
        answer(as_who(name, Method::GET, path)).await.1["total"]["calls"].as_u64().unwrap()
    };
    assert_eq!(calls("ada", "/v1/usage").await, 5);
    assert_eq!(calls("bob", "/v1/usage").await, 0);
    assert_eq!(calls("operator", "/v1/usage?user=*").await, 5);
    assert_eq!(calls("stranger", "/v1/usage?user=*").await, 0);

    let path = format!("/v1/approvals/{}", things.approval);
    let decide = as_who("approver", Method::POST, &path).json(&json!({"decision": "reject"}));
    assert_eq!(answer(decide).await.0, StatusCode::ACCEPTED);
    let path = format!("/v1/captured/{}/{}", things.captured.0, things.captured.1);
    let review = json!({"actions": [{"index": 0, "decision": "approve"}]});
    let reviewed = answer(as_who("approver", Method::POST, &path).json(&review)).await.1;
    assert_eq!(reviewed["reports"][0]["status"], "applied");
    let path = format!("/v1/sessions/{}", things.captured.0);
    let delete = as_who("operator", Method::DELETE, &path);
    assert_eq!(answer(delete).await.0, StatusCode::NO_CONTENT);
    let audit = answer(as_who("admin", Method::GET, "/v1/audit")).await.1;
    let actions: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["user"].clone(), e["action"].clone()))
        .collect();
    assert_eq!(
        actions,
        [
            (json!("olga"), json!("session.delete")),
            (json!("amy"), json!("captured.review")),
            (json!("amy"), json!("approval.reject")),
        ]
        .into_iter()
        .chain(actions.iter().skip(3).cloned())
        .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_conversation_that_a_client_names_is_nobody_elses() {
    let Cast { site, things, secrets } = cast().await;
    let session = &things.session;
    let as_who =
        |name: &str, verb: Method, path: &str| site.request(verb, path).bearer_auth(&secrets[name]);
    let chat = format!("/ai-sdk/main/{session}");
    let named = "/ai-sdk/main/a%20name";
    let parts = json!([{"type": "text", "text": "Hello"}]);
    let message = json!({"id": "m", "role": "user", "parts": parts});
    let body = json!({"id": "a name", "messages": [message]});
    let ours = as_who("ada", Method::POST, "/ai-sdk/main").json(&body);
    assert_eq!(ours.send().await.unwrap().status(), StatusCode::OK);
    let mut seen = Vec::new();
    for name in ["ada", "bob", "admin", "stranger"] {
        for path in [chat.as_str(), named, "/ai-sdk/main/never%20said"] {
            let loaded = answer(as_who(name, Method::GET, path)).await.1;
            let resumed = as_who(name, Method::GET, &format!("{path}/stream")).send().await;
            let stopped = answer(as_who(name, Method::POST, &format!("{path}/stop"))).await.1;
            seen.push((
                name,
                loaded["messages"].as_array().unwrap().len(),
                resumed.unwrap().status(),
                stopped["state"].clone(),
            ));
        }
    }
    let nothing = |name| (name, 0, StatusCode::NO_CONTENT, json!("ended"));
    for name in ["bob", "admin", "stranger"] {
        assert_eq!(seen.iter().filter(|seen| **seen == nothing(name)).count(), 3, "{seen:?}");
    }
    assert_eq!(seen[0].1, 2, "ada sees her own by its session's id");
    assert!(seen[1].1 >= 1, "and by the name she gave");
    assert_eq!(seen[2], nothing("ada"));
    // Another's conversation, and her cards, are to a protocol as if they were not.
    for name in ["bob", "admin", "stranger"] {
        let tell = async |thread: &str, card: &str| {
            let mut answers = Vec::new();
            let message = json!({
                "id": "a", "role": "assistant", "parts": [{
                    "type": "dynamic-tool", "toolName": "pay", "toolCallId": "t_0-1",
                    "state": "approval-responded", "approval": {"id": card, "approved": true},
                }],
            });
            let resume = json!([
                {"interruptId": card, "status": "resolved", "payload": {"approved": true}},
            ]);
            let run = json!({"threadId": thread, "runId": "r", "messages": []});
            let mut answered = run.clone();
            answered["resume"] = resume;
            for (path, body) in [
                ("/ag-ui/main".to_owned(), run),
                ("/ag-ui/main".to_owned(), answered),
                (format!("/ag-ui/main/{}/stop", thread.replace(' ', "%20")), json!(null)),
                ("/ai-sdk/main".to_owned(), json!({"id": thread, "messages": [message]})),
            ] {
                let (status, _, body) = told(as_who(name, Method::POST, &path).json(&body)).await;
                let body = String::from_utf8(body).unwrap();
                answers.push((status, body.replace(thread, "THREAD").replace(card, "CARD")));
            }
            answers
        };
        let hers = tell(session, &things.approval).await;
        assert_eq!(hers, tell("never said", "t_0-1-card").await, "by {name}");
    }
    // Nor can anybody answer for her, whatever the ids they know.
    for (name, expected) in [("bob", 404), ("stranger", 404)] {
        let approval = json!({"id": things.approval, "approved": true});
        let part = json!({
            "type": "dynamic-tool", "toolName": "pay", "toolCallId": things.call,
            "state": "approval-responded", "approval": approval,
        });
        let message = json!({"id": "a", "role": "assistant", "parts": [part]});
        let body = json!({"id": session, "messages": [message]});
        let (status, _) = answer(as_who(name, Method::POST, "/ai-sdk/main").json(&body)).await;
        assert_eq!(status, StatusCode::from_u16(expected).unwrap());
        let resume = json!([{
            "interruptId": things.approval, "status": "resolved", "payload": {"approved": true},
        }]);
        let messages = json!([{"id": "m", "role": "user", "content": "Hello"}]);
        let body = json!({
            "threadId": session, "runId": "r", "messages": messages, "resume": resume,
        });
        let run = as_who(name, Method::POST, "/ag-ui/main").json(&body);
        let events = run.send().await.unwrap().text().await.unwrap();
        assert!(events.contains("unknown_interrupt"), "{events}");
    }
    let card = format!("/v1/approvals/{}", things.approval);
    let card = answer(as_who("ada", Method::GET, &card)).await.1;
    assert_eq!(card["status"], "cancelled", "only ada stopped it");
    assert_eq!(site.world.all(), ["start_report"], "what the cast did, and nothing else");
}
