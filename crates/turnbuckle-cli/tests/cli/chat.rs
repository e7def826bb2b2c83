//! Conversations over the rehearsal and the real desk.

use crate::support::{Place, Talk};

const CARD: &str = "Approval needed";
const ASKED: &str = "/quit decides later?\n";

/// The tasks of that name, as the desk has them.
fn tasks(place: &Place, search: &str) -> String {
    let args = format!(r#"{{"search": "{search}"}}"#);
    place.run(&["tools", "call", "list_tasks", &args]).expect(0).out
}

/// Goes up to a card and gives its text.
fn to_card(talk: &mut Talk) -> String {
    talk.wait_for(CARD);
    talk.wait_for(ASKED)
}

#[test]
fn a_question_is_answered_through_real_tools_and_the_rehearsal_says_what_it_is() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.wait_for("REHEARSAL: no model answers");
    talk.wait_for("OPENAI_API_KEY");
    talk.say("Which threads are open?");
    let came = talk.wait_for("  ✓ ");
    assert!(came.contains("> Which threads are open?"), "{came}");
    talk.say("/usage").say("/sessions").say("/nonsense");
    talk.wait_for("rehearsal:desk: ");
    talk.wait_for("Which threads are open?");
    talk.wait_for("/help lists all");
    let (code, rest) = talk.end();
    assert_eq!(code, 0);
    assert!(rest.contains("Everything is stored"), "{rest}");
}

#[test]
fn bytes_that_are_no_text_do_not_end_the_conversation() {
    let place = Place::rehearsal();
    let ran = place.run_with(&["chat"], b"Which \xff threads are open?\r\n/sessions\n");
    let out = ran.expect(0).out;
    assert!(out.contains("> Which \u{fffd} threads are open?\n"), "{out}");
    assert!(out.contains("Everything is stored"), "{out}");
}

#[test]
fn an_approval_is_amended_line_by_line_and_carried_out_as_amended() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to call the carrier tomorrow");
    let card = to_card(&mut talk);
    assert!(card.contains("title*: Call the carrier"), "{card}");
    talk.say("e");
    talk.wait_for("An empty line keeps a value");
    loop {
        let (which, asked) = talk.wait_for_any(&["]: \n", "y carries it out with the changes"]);
        if which == 1 {
            assert!(asked.contains("+ title: Ring the carrier"), "{asked}");
            break;
        }
        talk.say(if asked.contains("title [") { "Ring the carrier" } else { "" });
    }
    talk.say("y");
    let end = talk.wait_for("as you changed it");
    assert!(end.contains("Ring the carrier"), "{end}");
    assert_eq!(talk.end().0, 0);
    assert!(tasks(&place, "Ring the carrier").contains("Ring the carrier"));
    assert!(!tasks(&place, "Call the carrier").contains("\"Call the carrier\""));
}

#[test]
fn an_approval_is_amended_in_the_configured_editor() {
    let place = Place::rehearsal().config("[chat]\neditor = \"sed -i s/Water/Feed/\"\n");
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to water the plants");
    to_card(&mut talk);
    talk.say("e");
    talk.wait_for("+ title: Feed the plants");
    talk.wait_for(ASKED);
    talk.say("y");
    talk.wait_for("as you changed it");
    assert_eq!(talk.end().0, 0);
    assert!(tasks(&place, "Feed the plants").contains("Feed the plants"));
}

#[test]
fn what_a_person_rejects_is_not_done_and_the_agent_hears_why() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to buy a yacht");
    to_card(&mut talk);
    talk.say("n the budget says no");
    let came = talk.wait_for("No task was created");
    assert!(came.contains("– Create task") || came.contains("rejected"), "{came}");
    talk.wait_for("the budget says no");
    assert_eq!(talk.end().0, 0);
    assert!(!tasks(&place, "yacht").contains("yacht\""));
}

#[test]
fn a_card_survives_the_end_of_input_and_a_kill_and_is_the_same_each_time() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to sweep the yard tomorrow");
    let first = to_card(&mut talk);
    assert_eq!(talk.end().0, 3, "a card that waits shows in the exit code");

    let mut again = place.talk(&["chat", "--continue"]);
    assert_eq!(to_card(&mut again), first);
    again.kill();

    let mut last = place.talk(&["chat", "--continue"]);
    assert_eq!(to_card(&mut last), first);
    last.say("y");
    last.wait_for("was created");
    assert_eq!(last.end().0, 0);
    assert_eq!(tasks(&place, "Sweep the yard").matches("\"Sweep the yard\"").count(), 1);
}

#[test]
fn stopping_at_a_card_cancels_it_and_the_next_turn_works() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to paint the fence");
    to_card(&mut talk);
    talk.say("/stop");
    talk.wait_for("Stopped.");
    talk.say("Who works in billing?");
    talk.wait_for("  ✓ ");
    assert_eq!(talk.end().0, 0);
    assert!(!tasks(&place, "paint the fence").contains("fence\""));
}

#[test]
fn a_turn_killed_in_the_middle_is_finished_by_the_next_start() {
    // The rehearsal says a word and then waits for an hour, so that the kill surely hits the middle.
    let place = Place::rehearsal();
    let mut slow = place.command(&["chat"]);
    let mut talk = Talk::start(slow.env("TURNBUCKLE_REHEARSAL_PACE_MS", "3600000"));
    talk.say("Which threads are open?");
    talk.wait_for("_(rehearsal,");
    talk.kill();

    let mut again = place.talk(&["chat", "--continue"]);
    again.wait_for("left in the middle; it goes on");
    again.wait_for("  ✓ ");
    let (code, rest) = again.end();
    assert_eq!(code, 0, "{rest}");
    let list = place.run(&["sessions", "list"]).expect(0).out;
    assert!(list.contains("idle"), "{list}");
    let id = list.split_whitespace().nth(1).unwrap().to_owned();
    place.run(&["replay", &id, "--verify"]).expect(0);
}

#[test]
fn a_data_folder_has_one_owner() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.wait_for("Type a message");
    let second = place.run_with(&["chat"], "hello\n").expect(1);
    assert!(second.err.contains("another turnbuckle (process "), "{}", second.err);
    assert!(second.err.contains("--data"), "{}", second.err);
    // Reading is not owning.
    place.run(&["sessions"]).expect(0);
    assert_eq!(talk.end().0, 0);
    place.run_with(&["chat"], "").expect(0);
}

#[test]
fn sessions_can_be_titled_reopened_and_left_for_new_ones() {
    let place = Place::rehearsal();
    let mut talk = place.talk(&["chat"]);
    talk.say("Who works in billing?").say("/title Billing people");
    talk.wait_for("Done.");
    talk.say("/new").say("What is the refund policy?").say("/sessions");
    talk.wait_for("Billing people");
    talk.say("/open 2");
    let shown = talk.wait_for("> Who works in billing?");
    assert!(shown.contains("Billing people"), "{shown}");
    talk.say("/open nowhere");
    talk.wait_for("there is no session `nowhere`");
    assert_eq!(talk.end().0, 0);
}
