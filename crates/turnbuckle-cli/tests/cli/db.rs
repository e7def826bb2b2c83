//! The store as a whole: checked, taken elsewhere, and what is wrong with one that is not whole.

use crate::support::{Place, Ran};
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection};
use std::path::Path;

/// A place where something happened: an answer with tools, a pause at a card, a captured action.
fn lived_in() -> Place {
    let place = Place::rehearsal();
    place.run(&["run", "Who works in billing?"]).expect(0);
    place.run(&["run", "Reply to the newest thread"]);
    place.run(&["run", "--capture", "Reply to the newest thread"]);
    place
}

fn sessions(place: &Place) -> Vec<Value> {
    let ran = place.run(&["db", "export"]).expect(0);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of an archive by what must be the same in every store: who held a session is not taken along.
fn essence(mut lines: Vec<Value>) -> Vec<Value> {
    for line in &mut lines {
        if line["kind"] == "session" {
            line["session"]["fence"].take();
            line["session"]["lease"].take();
            line["session"]["version"].take();
        }
    }
    lines.sort_by_key(|line| format!("{} {}", line["kind"], line["session"]["id"]));
    lines
}

fn sql(place: &Path, statement: &str) {
    sql_in(&place.join("turnbuckle.db"), statement);
}

fn sql_in(file: &Path, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(file).foreign_keys(false);
        let mut link = SqliteConnection::connect_with(&options).await.unwrap();
        let done =
            sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut link).await.unwrap();
        assert!(done.rows_affected() > 0, "{statement}");
        link.close().await.unwrap();
    });
}

fn whole(ran: Ran) -> String {
    let ran = ran.expect(0);
    assert!(ran.out.starts_with("The store is whole: "), "{}", ran.out);
    ran.out
}

#[test]
fn a_store_is_taken_to_another_place_as_it_is() {
    let place = lived_in();
    place.run(&["db", "migrate"]).expect(0);
    assert!(place.folder.path().join("accounts.db").exists());
    let seen = whole(place.run(&["db", "check"]));
    assert!(seen.contains("3 sessions, 3 turns"), "{seen}");
    let before = sessions(&place);
    assert_eq!(before[0], serde_json::json!({"kind": "turnbuckle", "version": 3}));
    assert_eq!(before.last().unwrap()["sessions"], 3);

    let file = place.folder.path().join("all.jsonl");
    let name = file.to_str().unwrap();
    let ran = place.run(&["db", "export", name]).expect(0);
    assert!(ran.err.contains("Written: 3 sessions"), "{}", ran.err);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let ran = place.run(&["db", "export", name]).expect(1);
    assert!(ran.err.contains("is there already"), "{}", ran.err);

    let other = Place::rehearsal();
    let ran = other.run(&["db", "import", name]).expect(0);
    assert!(ran.err.contains("Stored: 3 sessions"), "{}", ran.err);
    assert_eq!(whole(other.run(&["db", "check"])), seen);
    assert_eq!(essence(sessions(&other)), essence(before));
    // Life goes on there.
    other.run(&["run", "Who works in billing?"]).expect(0);
    whole(other.run(&["db", "check"]));
    // What is there already is not overwritten.
    let ran = other.run(&["db", "import", name]).expect(1);
    assert!(ran.err.contains("line 2: session"), "{}", ran.err);
}

/// A mistyped place is not taken for an empty one, and nothing is made there.
#[test]
fn what_is_not_there_is_not_looked_at() {
    let place = Place::rehearsal();
    let at = |path: &str| Place::rehearsal().env("TURNBUCKLE_STORE", path);
    let missing = place.folder.path().join("no.db");
    let foreign = place.folder.path().join("desk.db");
    let before = std::fs::read(&foreign).unwrap();
    for what in [&["db", "check"][..], &["db", "export"]] {
        let ran = place.run(what).expect(1);
        assert!(ran.err.contains("turnbuckle.db is not there"), "{}", ran.err);
        let ran = at(&format!("sqlite:{}", missing.display())).run(what).expect(1);
        assert!(ran.err.contains("no.db is not there"), "{}", ran.err);
        let ran = at(&format!("sqlite:{}", foreign.display())).run(what).expect(1);
        assert!(ran.err.contains("desk.db holds no sessions"), "{}", ran.err);
        let ran = at("memory:").run(what).expect(1);
        assert!(ran.err.contains("nothing to look at"), "{}", ran.err);
        assert_eq!(ran.out, "");
    }
    assert!(!missing.exists() && !place.folder.path().join("turnbuckle.db").exists());
    assert!(!place.folder.path().join("accounts.db").exists());
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
}

#[test]
fn the_doctor_changes_no_store() {
    let place = lived_in();
    let out = place.run(&["doctor"]).expect(0).out;
    assert!(out.contains("turnbuckle.db answers, 3 sessions"), "{out}");
    // As an older version left it.
    sql(
        place.folder.path(),
        "DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
    );
    for _ in 0..2 {
        let out = place.run(&["doctor"]).expect(0).out;
        assert!(out.contains("turnbuckle.db is of an older version; the next start"), "{out}");
    }
    sql(place.folder.path(), "UPDATE _sqlx_migrations SET version = 99 WHERE version = 5");
    let out = place.run(&["doctor"]).expect(1).out;
    assert!(out.contains("newer version"), "{out}");
}

#[test]
fn the_doctor_changes_no_desk() {
    let place = Place::rehearsal();
    place.run(&["run", "Who works in billing?"]).expect(0);
    let out = place.run(&["doctor"]).expect(0).out;
    assert!(out.contains("desk.db opens"), "{out}");
    let file = place.folder.path().join("desk.db");
    sql_in(&file, "DELETE FROM _sqlx_migrations WHERE version = 3");
    let before = std::fs::read(&file).unwrap();
    for _ in 0..2 {
        let out = place.run(&["doctor"]).expect(0).out;
        assert!(out.contains("desk.db is of an older version; the next start"), "{out}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    sql_in(&file, "UPDATE _sqlx_migrations SET version = 99 WHERE version = 2");
    let out = place.run(&["doctor"]).expect(1).out;
    assert!(out.contains("desk.db: "), "{out}");
}

#[test]
fn an_archive_that_is_not_whole_says_so() {
    let place = lived_in();
    let text = place.run(&["db", "export"]).expect(0).out;
    let lines: Vec<&str> = text.lines().collect();
    // Older versions counted less.
    let older = "{\"kind\":\"turnbuckle\",\"version\":1}\n{\"kind\":\"end\",\"sessions\":0,\"messages\":0,\"events\":0,\"blobs\":0,\"schedules\":0,\"jobs\":0}\n";
    Place::rehearsal().run_with(&["db", "import"], older).expect(0);
    for (archive, expected) in [
        (String::new(), "breaks off after line 0"),
        (lines[..2].join("\n") + "\n", "breaks off after line 2"),
        (lines[0].to_owned() + "\n" + &lines[1][..lines[1].len() / 2], "breaks off after line 1"),
        (lines[1..].join("\n") + "\n", "line 1 is not what it should be"),
        ("{\"kind\":\"turnbuckle\",\"version\":99}\n".into(), "of version 99"),
        ("hello\n".into(), "line 1 is not what it should be"),
        (
            lines[0].to_owned() + "\n" + lines.last().unwrap() + "\n",
            "line 2 is not what it should be",
        ),
    ] {
        let ran = Place::rehearsal().run_with(&["db", "import"], &archive).expect(1);
        assert!(ran.err.contains(expected), "{expected}: {}", ran.err);
    }
}

#[test]
fn what_is_wrong_with_a_store_is_told_by_session() {
    for (damage, expected) in [
        (
            "UPDATE messages SET body = replace(body, 'billing', 'shipping') WHERE body LIKE '%billing%' AND body LIKE '%\"role\":\"user\"%'",
            "is not what its events say",
        ),
        (
            "DELETE FROM messages WHERE body LIKE '%\"role\":\"assistant\"%'",
            "is in the events and not stored",
        ),
        ("UPDATE sessions SET next_seq = next_seq + 1", "its events do not lead from 1"),
        (
            "DELETE FROM sessions WHERE id IN (SELECT session FROM captured)",
            "is of a session that is not there",
        ),
    ] {
        let place = lived_in();
        sql(place.folder.path(), damage);
        let ran = place.run(&["db", "check"]).expect(1);
        assert!(ran.out.contains(expected), "{expected}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with("session s_"), "{}", ran.out);
        assert!(ran.err.contains("the store is not whole"), "{}", ran.err);
    }
}
