//! What a person types while a turn runs, and what they say once and for all.

use crate::provider::{answer, beside};
use crate::support::{Place, Talk};
use serde_json::{Value, json};
use turnbuckle_testkit::{FakeModelServer, Gate, Reply};

/// An answer whose first words come at once and whose rest waits.
fn held(first: &str, rest: &str, gate: &Gate) -> Reply {
    let mut frames = answer().text(first).text(rest).frames().into_iter();
    let head = Reply::sse(frames.by_ref().take(1)).gate(gate);
    frames.fold(head, Reply::send)
}

/// What the person said in a request.
fn said(request: &turnbuckle_testkit::CapturedRequest) -> Vec<String> {
    let body = request.json();
    let all = body["messages"].as_array().unwrap().iter();
    let users = all.filter(|m| m["role"] == "user");
    users.map(|m| m["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_while_a_turn_runs_is_queued_and_shown_and_sent_next() {
    let server = FakeModelServer::start().await;
    let gate = Gate::new();
    server.enqueue(held("Once", " upon a time.", &gate));
    server.enqueue(answer().text("A shorter one.").stream());
    let place = Place::server(&server.base_url());
    let open = gate.clone();
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.say("Tell me a story");
        talk.wait_for("Once");
        talk.say("A shorter one, please");
        talk.wait_for("  queued: A shorter one, please\n");
        talk.say("/usage");
        talk.wait_for("  later: /usage\n");
        open.open();
        let came = talk.wait_for("> A shorter one, please\n");
        assert!(came.contains("upon a time."), "{came}");
        talk.wait_for("A shorter one.");
        talk.wait_for("openai:test-model: 2 calls");
        let (code, rest) = talk.end();
        assert_eq!(code, 0, "{rest}");
    })
    .await;
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(said(&requests[1]), ["Tell me a story", "A shorter one, please"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_enters_at_the_next_step_of_the_turn_that_runs() {
    let server = FakeModelServer::start().await;
    let gate = Gate::new();
    let calls = answer().text("I look.").call("a", "list_tasks", r#"{"limit": 1}"#);
    let mut frames = calls.frames().into_iter();
    let head = Reply::sse(frames.by_ref().take(1)).gate(&gate);
    server.enqueue(frames.fold(head, Reply::send));
    server.enqueue(answer().text("Only urgent ones, then.").stream());
    let place = Place::server(&server.base_url());
    let open = gate.clone();
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.say("What is to do?");
        talk.wait_for("I look.");
        talk.say("/steer only urgent ones");
        talk.wait_for("  steering: only urgent ones\n");
        open.open();
        talk.wait_for("> only urgent ones\n");
        talk.wait_for("Only urgent ones, then.");
        assert_eq!(talk.end().0, 0);
        let list = place.run(&["sessions"]).expect(0).out;
        let id = list.split_whitespace().nth(1).unwrap();
        place.run(&["replay", id, "--verify"]).expect(0);
    })
    .await;
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(said(&requests[1]), ["What is to do?", "only urgent ones"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_message_waits_for_the_card_and_survives_a_kill() {
    let server = FakeModelServer::start().await;
    let gate = Gate::new();
    let task = json!({"title": "Ring the carrier", "assignees": ["me"]}).to_string();
    let calls = answer().text("A task.").call("t", "create_task", &task);
    let mut frames = calls.frames().into_iter();
    let head = Reply::sse(frames.by_ref().take(1)).gate(&gate);
    server.enqueue(frames.fold(head, Reply::send));
    server.enqueue(answer().text("Made.").stream());
    server.enqueue(answer().text("Two more.").stream());
    let place = Place::server(&server.base_url());
    let open = gate.clone();
    beside(move || {
        let mut talk = place.talk(&["chat"]);
        talk.say("Make a task");
        talk.wait_for("A task.");
        talk.say("What else is there?");
        talk.wait_for("  queued: What else is there?\n");
        open.open();
        talk.wait_for("/quit decides later?\n");
        talk.kill();
        let mut again = place.talk(&["chat", "--continue"]);
        again.wait_for("/quit decides later?\n");
        again.say("y");
        again.wait_for("Made.");
        // It opens its turn, though another process than this one took it.
        again.wait_for("Two more.");
        assert_eq!(again.end().0, 0);
    })
    .await;
    let requests = server.requests();
    assert_eq!(said(&requests[2]), ["Make a task", "What else is there?"]);
}

#[test]
fn a_script_may_write_its_answers_ahead() {
    let place = Place::rehearsal();
    let ran = place.run_with(&["chat"], "Remind me to ring the bank\ny\n").expect(0);
    assert!(ran.out.contains("was created"), "{}", ran.out);
    let args = r#"{"search": "Ring the bank"}"#;
    let tasks = place.run(&["tools", "call", "list_tasks", args]).expect(0).out;
    assert_eq!(tasks.matches("\"Ring the bank\"").count(), 1);
}

#[test]
fn always_is_said_once_and_can_be_taken_back() {
    const ASKED: &str = "/quit decides later?\n";
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to buy stamps");
    talk.wait_for("a allows it always in this session (a me: in all of yours)");
    talk.wait_for(ASKED);
    talk.say("a");
    talk.wait_for("was created");
    talk.say("/allowed");
    talk.wait_for("1  create_task by desk in this session");
    assert_eq!(talk.end().0, 0);

    // In another process it still holds, and asks nobody.
    let mut again = place.talk(&["chat", "--continue"]);
    again.wait_for("from now on");
    again.say("Remind me to buy envelopes");
    let (which, came) = again.wait_for_any(&["was created", "Approval needed"]);
    assert_eq!(which, 0, "{came}");
    again.say("/disallow 1");
    again.wait_for("/allowed lists them");
    again.say("/allowed").say("/disallow 1");
    again.wait_for("You are asked again before create_task acts.");
    again.say("Remind me to buy glue");
    again.wait_for("Approval needed");
    again.wait_for(ASKED);
    again.say("n");
    again.wait_for("No task was created");
    assert_eq!(again.end().0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_keeps_its_model_until_another_is_chosen() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| answer().text("Hello.").stream());
    let place = Place::server(&server.base_url());
    beside(move || {
        let id = place.run(&["run", "Hi"]).expect(0).session();
        // The default is another now, but the session is not.
        let place = place.env("TURNBUCKLE_MODEL", "openai:newer-model");
        place.run(&["run", "--session", &id, "Again"]).expect(0);
        place.run(&["run", "--session", &id, "--model", "openai:asked", "Once"]).expect(0);
        let mut talk = place.talk(&["chat", "--session", &id]);
        talk.wait_for("It goes on with openai:test-model; /model chooses another.");
        talk.say("/model");
        talk.wait_for("openai:test-model answers (this session keeps it)");
        talk.say("/model chosen-model");
        talk.wait_for("openai:chosen-model answers (this session keeps it)");
        talk.say("And you?");
        talk.wait_for("Hello.");
        assert_eq!(talk.end().0, 0);
        place.run(&["run", "--session", &id, "Still?"]).expect(0);
        place.run(&["run", "Somebody else"]).expect(0);
    })
    .await;
    let models: Vec<Value> = server.requests().iter().map(|r| r.json()["model"].clone()).collect();
    let expected =
        ["test-model", "test-model", "asked", "chosen-model", "chosen-model", "newer-model"];
    assert_eq!(models, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_whose_provider_is_gone_is_replaced_and_the_person_is_told() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| answer().text("Hello.").stream());
    let url = server.base_url();
    let mine = format!("[providers.mine]\nbase_url = \"{url}\"\n");
    let place = Place::server(&url).env("TURNBUCKLE_MODEL", "mine:m").config(&mine);
    beside(move || {
        let id = place.run(&["run", "Hi"]).expect(0).session();
        let place = place.config("").env("TURNBUCKLE_MODEL", "openai:test-model");
        let ran = place.run(&["run", "--json", "--session", &id, "Still there?"]).expect(0);
        let events = ran.json_lines();
        let told = events.iter().find(|e| e["type"] == "model-replaced").unwrap();
        assert_eq!((&told["from"], &told["to"]), (&json!("mine:m"), &json!("openai:test-model")));
        let mut talk = place.talk(&["chat", "--session", &id]);
        talk.say("/model");
        talk.wait_for("openai:test-model answers");
        assert_eq!(talk.end().0, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_model_may_write_titles_and_the_rehearsal_asks_none() {
    let server = FakeModelServer::start().await;
    server.otherwise(|request| match request.json()["model"].as_str() {
        Some("small") => answer().text("Lost parcel").stream(),
        _ => answer().text("Here it is.").stream(),
    });
    let titled = "titles = \"openai:small\"\n";
    let place = Place::server(&server.base_url()).config(titled);
    beside(move || {
        place.run(&["run", "Where is my parcel?"]).expect(0);
        assert!(place.run(&["sessions"]).expect(0).out.contains("Lost parcel"));
        let place =
            place.env("TURNBUCKLE_MODEL", "rehearsal").env("TURNBUCKLE_REHEARSAL_PACE_MS", "0");
        place.run(&["run", "Who works in billing?"]).expect(0);
        assert!(place.run(&["sessions"]).expect(0).out.contains("Who works in billing?"));
    })
    .await;
    assert_eq!(server.requests().len(), 2);
}

/// A session whose first turn did not complete is found by what was asked all the same.
#[test]
fn a_session_without_a_title_is_listed_by_its_first_message() {
    let place = Place::rehearsal();
    place.run(&["run", "Remind me to water the plants"]).expect(3);
    let list = place.run(&["sessions"]).expect(0).out;
    assert!(list.contains("Remind me to water the plants"), "{list}");
}

/// At a terminal, the same by typing.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_at_a_terminal_types_into_a_running_turn() {
    let server = FakeModelServer::start().await;
    let gate = Gate::new();
    server.enqueue(held("Once", " upon a time.", &gate));
    server.enqueue(answer().text("Shorter.").stream());
    server.enqueue(answer().text("By hand.").stream());
    let place = Place::server(&server.base_url());
    let open = gate.clone();
    beside(move || {
        let mut talk = Talk::at_terminal(&mut place.command(&["chat"]));
        talk.wait_for("> ");
        talk.say("Tell me a story");
        talk.wait_for("Once");
        talk.say("A shorter one");
        talk.wait_for("  queued: A shorter one");
        open.open();
        talk.wait_for("upon a time.");
        talk.wait_for("> A shorter one");
        talk.wait_for("Shorter.");
        // The prompt is there again and takes lines as before.
        talk.wait_for("> ");
        talk.say("Thanks");
        talk.wait_for("By hand.");
        talk.wait_for("> ");
        talk.say("/quit");
        let (code, rest) = talk.exit();
        assert_eq!(code, 0, "{rest}");
    })
    .await;
    let requests = server.requests();
    assert_eq!(said(&requests[2]), ["Tell me a story", "A shorter one", "Thanks"]);
}

/// What was promised when the turn stopped still holds when it has stopped.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_the_turn_and_a_second_one_quits() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| {
        Reply::sse(answer().text("Once upon a time").frames().into_iter().take(1)).hang()
    });
    let place = Place::server(&server.base_url());
    beside(move || {
        let mut talk = Talk::at_terminal(&mut place.command(&["chat"]));
        talk.wait_for("> ");
        talk.say("Tell me a story");
        talk.wait_for("Once");
        talk.interrupt();
        talk.wait_for("Ctrl-C again quits");
        talk.wait_for("Stopped.");
        talk.wait_for("> ");
        // A line in between takes the promise back.
        talk.say("/usage");
        talk.wait_for("openai:test-model");
        talk.wait_for("> ");
        talk.interrupt();
        talk.wait_for("Ctrl-C again, or /quit, leaves.");
        talk.say("Another one");
        talk.wait_for("Once");
        talk.interrupt();
        talk.wait_for("Stopped.");
        talk.wait_for("> ");
        talk.interrupt();
        let (which, came) = talk.wait_for_any(&["Everything is stored", "leaves."]);
        assert_eq!(which, 0, "{came}");
        assert_eq!(talk.exit().0, 0);
    })
    .await;
}

/// A terminal that does not mark what is pasted gives all of it at once.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_come_at_once_are_a_message_each() {
    let server = FakeModelServer::start().await;
    for reply in ["One.", "Two.", "Three.", "Four."] {
        server.enqueue(answer().text(reply).stream());
    }
    let place = Place::server(&server.base_url());
    beside(move || {
        // One that lets lines be edited, unlike the others here.
        let mut talk = Talk::at_terminal(place.command(&["chat"]).env("TERM", "xterm"));
        talk.wait_for("> ");
        talk.press("a\rb\rc\rd\r");
        talk.wait_for("One.");
        talk.wait_for("Two.");
        talk.wait_for("Three.");
        talk.wait_for("Four.");
        talk.wait_for("> ");
        talk.say("/quit");
        assert_eq!(talk.exit().0, 0);
    })
    .await;
    assert_eq!(said(&server.requests()[3]), ["a", "b", "c", "d"]);
}
