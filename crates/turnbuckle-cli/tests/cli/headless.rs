//! One turn at a time: output, exit codes, capture, replay.

use crate::support::{Place, Ran, Talk};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use turnbuckle::core::event::Event;
use turnbuckle::core::fold::fold;
use turnbuckle::core::message::Message;

fn stored_messages(place: &Place, session: &str) -> Vec<Message> {
    let ran = place.run(&["sessions", "show", session, "--json"]).expect(0);
    ran.json_lines().into_iter().map(|m| serde_json::from_value(m).unwrap()).collect()
}

fn events(ran: &Ran) -> Vec<Event> {
    ran.json_lines().into_iter().map(|e| serde_json::from_value(e).unwrap()).collect()
}

#[test]
fn events_fold_to_the_stored_messages() {
    let place = Place::rehearsal();
    let ran = place.run(&["run", "--json", "Which threads are open?"]).expect(0);
    let events = events(&ran);
    let seqs: Vec<u64> = events.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    let folded = fold(&events).unwrap();
    let stored = stored_messages(&place, events[0].session.as_str());
    assert_eq!(
        stored,
        [
            Message::User(folded.user.unwrap()),
            Message::Assistant(Box::new(folded.assistant.unwrap())),
        ]
    );
}

#[test]
fn the_answer_goes_to_stdout_and_the_rest_to_stderr() {
    let place = Place::rehearsal();
    let ran = place.run_with(&["run"], "Who works in billing?\n").expect(0);
    let Some(Message::Assistant(message)) = stored_messages(&place, &ran.session()).pop() else {
        panic!("no answer")
    };
    assert_eq!(ran.out, message.text() + "\n");
    assert!(ran.err.contains("REHEARSAL"), "{}", ran.err);
}

#[test]
fn an_approval_without_a_person_pauses_and_says_how_to_go_on() {
    let place = Place::rehearsal();
    let ran = place.run(&["run", "Remind me to call the bank"]).expect(3);
    assert!(ran.err.contains("waits for approval: "), "{}", ran.err);
    assert!(ran.err.contains("Call the bank"), "{}", ran.err);
    assert!(ran.err.contains(&format!("turnbuckle chat --session {}", ran.session())));
    place.run(&["replay", &ran.session(), "--verify"]).expect(0);
}

#[test]
fn captured_actions_are_listed_and_can_be_applied_once() {
    let place = Place::rehearsal();
    let ran = place.run(&["run", "--capture", "Remind me to call the bank"]).expect(0);
    assert!(ran.out.contains("Captured, not carried out:\n"), "{}", ran.out);
    assert!(ran.out.contains("create_task"), "{}", ran.out);
    let session = ran.session();
    let tasks = || {
        place.run(&["tools", "call", "list_tasks", r#"{"search": "Call the bank"}"#]).expect(0).out
    };
    let count = |text: &str| text.matches("\"Call the bank\"").count();
    assert_eq!(count(&tasks()), 0);
    let listed = place.run(&["captured", "list"]).expect(0).out;
    assert!(listed.contains(&session) && listed.contains("pending"), "{listed}");
    let shown = place.run(&["captured", "show", &session, "0"]).expect(0).json();
    assert_eq!(shown["action"]["args"]["title"], "Call the bank");
    let applied = place.run(&["captured", "apply", &session, "--all"]).expect(0).out;
    assert!(applied.contains("applied"), "{applied}");
    assert_eq!(count(&tasks()), 1);
    let again = place.run(&["captured", "apply", &session, "--all"]).expect(0).out;
    assert!(again.contains("Nothing is pending"), "{again}");
    place.run(&["captured", "apply", &session, "0"]).expect(0);
    assert_eq!(count(&tasks()), 1);
    place.run(&["captured", "apply", &session, "7"]).expect(1);
}

#[test]
fn a_session_goes_on_over_several_runs_and_replays_as_it_was() {
    let place = Place::rehearsal();
    let first = place.run(&["run", "Who works in billing?"]).expect(0);
    let id = first.session();
    place.run(&["run", "--session", &id, "--capture", "Remind me to call the bank"]).expect(0);
    let verdict = place.run(&["replay", &id, "--verify"]).expect(0).out;
    assert!(verdict.starts_with("identical: 2 turns, "), "{verdict}");
    let played = place.run(&["replay", &id, "--turn", "2"]).expect(0);
    let all = events(&played);
    assert!(
        matches!(stored_messages(&place, &id).pop(), Some(Message::Assistant(m)) if Some(&*m) == fold(&all).unwrap().assistant.as_ref())
    );
    place.run(&["replay", &id, "--turn", "3"]).expect(1);
    let resumed = place.run(&["run", "--session", &id, "--resume"]).expect(0);
    assert!(resumed.err.contains("nothing was unfinished"), "{}", resumed.err);
}

#[test]
fn a_stored_message_that_was_tampered_with_is_found() {
    let place = Place::rehearsal();
    let id = place.run(&["run", "Who works in billing?"]).expect(0).session();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(place.folder.path().join("turnbuckle.db"));
        let pool = SqlitePoolOptions::new().connect_with(options).await.unwrap();
        let change = "UPDATE messages SET body = replace(body, 'rehearsal, no', 'rehearsal: no') WHERE role = 'assistant'";
        assert_eq!(sqlx::query(change).execute(&pool).await.unwrap().rows_affected(), 1);
        pool.close().await;
    });
    let verdict = place.run(&["replay", &id, "--verify"]).expect(1).out;
    assert!(verdict.contains("different: turn 1"), "{verdict}");
}

#[test]
fn a_limit_of_the_configuration_ends_the_turn_with_its_own_code() {
    let place = Place::rehearsal().config("[limits]\nmax_tokens = 1\n");
    let ran = place.run(&["run", "Which threads are open?"]).expect(4);
    assert!(ran.err.contains("limits.max_tokens"), "{}", ran.err);
}

#[test]
fn a_policy_of_the_configuration_holds() {
    let place = Place::rehearsal().config(
        "[[policy.rules]]\ntool = \"create_task\"\ndecision = \"deny\"\nreason = \"no tasks on Fridays\"\n",
    );
    let ran = place.run(&["run", "Remind me to call the bank"]).expect(0);
    assert!(ran.out.contains("no tasks on Fridays"), "{}", ran.out);
}

#[test]
fn what_is_missing_is_said_before_anything_is_done() {
    let place = Place::rehearsal();
    place.run_with(&["run"], "  \n").expect(2);
    place.run(&["run", "--resume"]).expect(2);
    let ran = place.run(&["run", "--session", "nope", "hello"]).expect(1);
    assert_eq!(
        ran.err.lines().last().unwrap(),
        "turnbuckle: there is no session `nope`: `turnbuckle sessions` lists those there are"
    );
    let ran = place.run(&["run", "--agent", "nobody", "hello"]).expect(1);
    assert!(ran.err.contains("there is no agent `nobody`"), "{}", ran.err);
    let ran = place.run(&["run", "--user", "nobody@example.com", "hello"]).expect(1);
    assert!(
        ran.err.contains("nobody on the desk is `nobody@example.com` (set --user)"),
        "{}",
        ran.err
    );
}

#[test]
fn tools_can_be_tried_by_hand_through_the_same_checks() {
    let place = Place::rehearsal();
    let listed = place.run(&["tools"]).expect(0).out;
    assert!(listed.contains("list_tasks") && listed.contains("reads"), "{listed}");
    let bad = place.run(&["tools", "call", "list_tasks", r#"{"colour": "red"}"#]).expect(1);
    assert!(bad.err.contains("colour"), "{}", bad.err);
    place.run(&["tools", "call", "list_tasks", "{"]).expect(2);
    let args = json!({"title": "By hand", "assignees": ["me"]}).to_string();
    let refused = place.run_with(&["tools", "call", "create_task", &args], "no\n").expect(5);
    assert!(refused.out.contains("Approval needed") && refused.out.contains("Not carried out."));
    let made = place.run_with(&["tools", "call", "create_task", &args, "--yes"], "").expect(0);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(made["title"], "By hand");
}

/// Runs a command whose reader reads nothing; its exit code and what it said beside.
fn unread(place: &Place, args: &[&str]) -> (i32, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = place.command(args).stdout(writer).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let place = Place::rehearsal();
    place.run(&["run", "Who works in billing?"]).expect(0);
    for command in [&["models"][..], &["sessions"], &["openapi"], &["tools"]] {
        assert_eq!(unread(&place, command), (0, String::new()), "{command:?}");
    }
}

#[test]
fn a_turn_whose_reader_is_gone_says_how_to_go_on() {
    let place = Place::rehearsal();
    let (code, err) = unread(&place, &["run", "--json", "Who works in billing?"]);
    assert_eq!(code, 1, "{err}");
    let id = err.lines().find_map(|l| l.strip_prefix("session ")).unwrap();
    assert!(err.contains(&format!("turnbuckle run --session {id} --resume")), "{err}");
    place.run(&["run", "--session", id, "--resume"]).expect(0);
    let Some(Message::Assistant(_)) = stored_messages(&place, id).pop() else {
        panic!("no answer")
    };
}

#[test]
fn a_session_that_another_process_works_on_is_not_called_finished() {
    let place = Place::rehearsal();
    let store = format!("sqlite:{}", place.folder.path().join("shared.db").display());
    let place = place.env("TURNBUCKLE_STORE", &store);
    // The rehearsal says a word and then waits for an hour.
    let mut slow = place.command(&["chat"]);
    let mut talk = Talk::start(slow.env("TURNBUCKLE_REHEARSAL_PACE_MS", "3600000"));
    talk.say("Which threads are open?");
    talk.wait_for("_(rehearsal,");
    let list = place.run(&["sessions"]).expect(0).out;
    let id = list.split_whitespace().nth(1).unwrap();
    let ran = place.run(&["run", "--session", id, "--resume"]).expect(1);
    assert!(ran.err.contains("somebody else works on the session"), "{}", ran.err);
}
