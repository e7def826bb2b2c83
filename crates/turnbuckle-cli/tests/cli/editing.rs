//! A card in the person's editor, which has the terminal and Ctrl-C to itself.
#![cfg(unix)]

use crate::support::{Place, Talk};
use std::path::PathBuf;

const ASKED: &str = "/quit decides later?\n";

/// A desk whose editor is this script; it runs in the data folder and gets the file as `$1`.
fn with_editor(script: &str) -> Place {
    let place = Place::rehearsal();
    let path = at(&place, "editor.sh");
    std::fs::write(&path, script).unwrap();
    place.config(&format!("[chat]\neditor = \"sh {}\"\n", path.display()))
}

fn at(place: &Place, name: &str) -> PathBuf {
    place.folder.path().join(name)
}

/// Goes up to a card about the plants.
fn to_card(place: &Place) -> Talk {
    let mut talk = place.talk(&["chat"]);
    talk.say("Remind me to water the plants");
    talk.wait_for(ASKED);
    talk
}

/// Carries the card out and checks that it was done as edited.
fn carried_out(mut talk: Talk, place: &Place, title: &str) {
    talk.say("y");
    talk.wait_for("as you changed it");
    assert_eq!(talk.end().0, 0);
    let args = format!(r#"{{"search": "{title}"}}"#);
    let tasks = place.run(&["tools", "call", "list_tasks", &args]).expect(0).out;
    assert!(tasks.contains(title), "{tasks}");
}

#[test]
fn ctrl_c_is_the_editors_while_it_runs() {
    // It waits at a pipe, so that the interrupt surely comes while it runs.
    let place = with_editor(
        "mkfifo gate; echo The editor is open.; cat gate; sed -i s/Water/Feed/ \"$1\"\n",
    );
    let mut talk = to_card(&place);
    talk.say("e");
    talk.wait_for("The editor is open.");
    talk.interrupt();
    std::fs::write(at(&place, "gate"), "").unwrap();
    talk.wait_for("+ title: Feed the plants");
    talk.wait_for(ASKED);
    carried_out(talk, &place, "Feed the plants");
}

#[test]
fn what_is_no_toml_is_opened_again_with_the_reason() {
    let place = with_editor(concat!(
        "if [ -e left ]; then cp \"$1\" seen; sed -i 's/^title = .*/title = \"Feed the plants\"/' \"$1\";\n",
        "else touch left; sed -i 's/^title = .*/title = \"My long edit/' \"$1\"; fi\n",
    ));
    let mut talk = to_card(&place);
    talk.say("e");
    let told = talk.wait_for(ASKED);
    assert!(told.contains("What the editor left is no TOML: "), "{told}");
    assert!(told.contains("e opens it again"), "{told}");
    talk.say("e");
    let told = talk.wait_for(ASKED);
    assert!(told.contains("+ title: Feed the plants"), "{told}");
    let seen = std::fs::read_to_string(at(&place, "seen")).unwrap();
    assert!(seen.contains("title = \"My long edit\n"), "{seen}");
    assert!(seen.starts_with("#! What the editor left is no TOML: "), "{seen}");
    carried_out(talk, &place, "Feed the plants");
}

#[test]
fn what_does_not_fit_is_opened_again_with_the_reason() {
    let place = with_editor(concat!(
        "if [ -e left ]; then cp \"$1\" seen; sed -i '/^nonsense/d' \"$1\";\n",
        "else touch left; sed -i 's/Water/Feed/' \"$1\"; echo 'nonsense = 1' >> \"$1\"; fi\n",
    ));
    let mut talk = to_card(&place);
    talk.say("e");
    let told = talk.wait_for(ASKED);
    assert!(told.contains("That does not fit: Additional properties"), "{told}");
    talk.say("e");
    let told = talk.wait_for(ASKED);
    assert!(told.contains("+ title: Feed the plants"), "{told}");
    let seen = std::fs::read_to_string(at(&place, "seen")).unwrap();
    assert!(seen.starts_with("#! That does not fit: "), "{seen}");
    assert!(seen.contains("Feed the plants"), "{seen}");
    carried_out(talk, &place, "Feed the plants");
}
