//! Any OpenAI-compatible server by its base URL, and what a person does while it answers.

use crate::support::Place;
use serde_json::{Value, json};
use turnbuckle_testkit::chat::{ChatAnswer, error};
use turnbuckle_testkit::{FakeModelServer, Reply};

/// Runs what blocks beside the server's tasks.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

pub fn answer() -> ChatAnswer {
    ChatAnswer::new("test-model")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_url_is_all_it_takes() {
    let server = FakeModelServer::start().await;
    let calls = answer()
        .reasoning("Two things to look up.")
        .call("a", "list_tasks", r#"{"limit": 2}"#)
        .call_in_pieces("b", "find_threads", &["{\"status\":", " \"open\", \"limit\": 2}"])
        .usage(100, 40, 20);
    server.enqueue(calls.stream());
    server.enqueue(answer().text("Nothing ").text("burns.").usage(200, 100, 5).stream());
    let place = Place::empty()
        .env("OPENAI_BASE_URL", &server.base_url())
        .env("TURNBUCKLE_MODEL", "test-model");
    let (ran, shown) = beside(move || {
        let ran = place.run(&["run", "How are we doing?"]).expect(0);
        let shown = place.run(&["sessions", "show", &ran.session()]).expect(0);
        place.run(&["replay", &ran.session(), "--verify"]).expect(0);
        (ran, shown)
    })
    .await;
    assert_eq!(ran.out, "Nothing burns.\n");
    assert!(!ran.err.contains("REHEARSAL"), "{}", ran.err);
    assert!(shown.out.contains("openai:test-model: 2 calls"), "{}", shown.out);
    assert!(shown.out.contains("140 from cache"), "{}", shown.out);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let second = requests[1].json();
    let results: Vec<&Value> =
        second["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").collect();
    let ids: Vec<&str> = results.iter().map(|m| m["tool_call_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_the_turn_and_the_next_one_works() {
    let server = FakeModelServer::start().await;
    server
        .enqueue(Reply::sse(answer().text("Once upon a time").frames().into_iter().take(1)).hang());
    server.enqueue(answer().text("Here again.").stream());
    let place = Place::server(&server.base_url());
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.wait_for("Model openai:test-model (TURNBUCKLE_MODEL says openai:test-model)");
        talk.say("Tell me a story");
        talk.wait_for("Once upon a time");
        talk.interrupt();
        talk.wait_for("Stopped.");
        talk.say("Are you there?");
        talk.wait_for("Here again.");
        assert_eq!(talk.end().0, 0);
    })
    .await;
    server.wait_for_abandoned(1).await;
    // What the person saw before the stop is in the history, and no call is left open.
    let last = server.requests().pop().unwrap().json();
    let said: Vec<(&str, &str)> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] != "system" && m["role"] != "developer")
        .map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            ("user", "Tell me a story"),
            ("assistant", "Once upon a time"),
            ("user", "Are you there?")
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_tools_and_answer_repeats_no_tool() {
    let server = FakeModelServer::start().await;
    let task = json!({"title": "Exactly once", "assignees": ["me"]}).to_string();
    server.enqueue(answer().call("t", "create_task", &task).stream());
    server.enqueue(Reply::sse(answer().text("Almost").frames().into_iter().take(1)).hang());
    server.enqueue(answer().text("Done now.").stream());
    // No person is asked, so that the write happens at once.
    let place = Place::server(&server.base_url())
        .config("[[policy.rules]]\ntool = \"create_task\"\ndecision = \"allow\"\n");
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.say("Make a task");
        talk.wait_for("Almost");
        talk.kill();
        let mut again = place.talk(&["chat", "--continue"]);
        again.wait_for("it goes on");
        again.wait_for("Done now.");
        assert_eq!(again.end().0, 0);
        let found = place.run(&["tools", "call", "list_tasks", r#"{"search": "Exactly once"}"#]);
        assert_eq!(found.expect(0).out.matches("\"Exactly once\"").count(), 1);
        let list = place.run(&["sessions"]).expect(0).out;
        let id = list.split_whitespace().nth(1).unwrap();
        place.run(&["replay", id, "--verify"]).expect(0);
    })
    .await;
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[1].json()["messages"], requests[2].json()["messages"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_at_a_card_stops_the_turn_and_the_next_one_leaves() {
    let server = FakeModelServer::start().await;
    let task = json!({"title": "Slow leave", "assignees": ["me"]}).to_string();
    server.enqueue(answer().call("t", "create_task", &task).stream());
    let place = Place::server(&server.base_url());
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.say("Make a task");
        talk.wait_for("/quit decides later?\n");
        // At a card the first one stops the turn; then nothing runs, and the next one leaves.
        talk.interrupt();
        talk.wait_for("Stopped.");
        talk.interrupt();
        let (code, rest) = talk.exit();
        assert_eq!(code, 0, "{rest}");
        assert!(rest.contains("Everything is stored"), "{rest}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_key_is_told_in_the_providers_own_words() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| error(401, "invalid_api_key", "Incorrect API key provided: nope"));
    let place = Place::server(&server.base_url()).env("OPENAI_API_KEY", "sk-very-secret");
    beside(move || {
        let ran = place.run(&["run", "hello"]).expect(1);
        assert!(ran.err.contains("Incorrect API key provided: nope"), "{}", ran.err);
        assert!(ran.err.contains("check the API key"), "{}", ran.err);
        let doctor = place.run(&["doctor"]).expect(1);
        assert!(doctor.out.contains("✗ openai"), "{}", doctor.out);
        assert!(doctor.out.contains("Incorrect API key provided: nope"), "{}", doctor.out);
        for text in [&ran.out, &ran.err, &doctor.out, &doctor.err] {
            assert!(!text.contains("sk-very-secret"), "{text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_says_what_is_well() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| Reply::json(200, &json!({"data": [{"id": "served-model"}]})));
    let place = Place::empty().env("OPENAI_BASE_URL", &server.base_url());
    beside(move || {
        let doctor = place.run(&["doctor"]).expect(0).out;
        assert!(
            doctor.contains("✓ model          openai:served-model (OPENAI_BASE_URL is set)"),
            "{doctor}"
        );
        assert!(doctor.contains("✓ openai         answers, 1 model"), "{doctor}");
        assert!(doctor.contains("✓ desk"), "{doctor}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_can_be_tried_alone() {
    let server = FakeModelServer::start().await;
    server.enqueue(answer().text("Four.").usage(7, 0, 2).stream());
    let place = Place::empty().config(&format!(
        "[providers.mine]\nbase_url = \"{}\"\n[providers.mine.models.small]\ncontext_window = 9000\nprices = {{ input = 1.0, output = 2.0 }}\n",
        server.base_url()
    ));
    beside(move || {
        let ran = place.run(&["models", "try", "mine:small", "Two and two?"]).expect(0).out;
        assert!(ran.starts_with("Four.\n"), "{ran}");
        assert!(ran.contains("7 in") && ran.contains("2 out") && ran.contains("$0.0000"), "{ran}");
        let shown = place.run(&["models", "show", "mine:small"]).expect(0).out;
        assert!(shown.contains("9000 tokens (configuration)"), "{shown}");
        let listed = place.run(&["models", "list", "mine:"]).expect(0).out;
        assert!(listed.contains("mine:small"), "{listed}");
        place.run(&["models", "try", "nobody:x", "?"]).expect(1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_asks_to_wait_is_quoted() {
    let server = FakeModelServer::start().await;
    // Longer than a turn may take, so that nobody waits for it.
    server.otherwise(|_| {
        error(429, "rate_limit_exceeded", "Slow down").header("retry-after", "86400")
    });
    let place = Place::server(&server.base_url());
    beside(move || {
        let ran = place.run(&["run", "hello"]).expect(1);
        assert!(ran.err.contains("Slow down"), "{}", ran.err);
        assert!(ran.err.contains("it asks to wait 1440 min"), "{}", ran.err);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rehearsal_can_be_chosen_by_its_name_alone() {
    let server = FakeModelServer::start().await;
    let place = Place::server(&server.base_url()).env("TURNBUCKLE_REHEARSAL_PACE_MS", "0");
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.say("/model rehearsal");
        talk.wait_for("rehearsal:desk plays: REHEARSAL, no model");
        talk.say("Who works in billing?");
        talk.wait_for("  ✓ ");
        assert_eq!(talk.end().0, 0);
    })
    .await;
}
