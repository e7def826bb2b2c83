//! Notes on threads, orders, contacts and companies. A note is seen by whoever may see what it is
//! on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use super::args::{Named, count, limit, stamp, text};
use super::resolve;
use super::thread_update::writable;
use crate::caller::Caller;
use crate::db::idempotency;
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{Kind, Reference};

/// The longest note, in characters.
const MOST_NOTE: usize = 50_000;

/// Whose notes to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListNotes {
    /// What the notes are on: an id such as `contact:5`, `thread:12`, `order:10234`.
    pub record: String,
    /// How many at most; 20 unless told, never more than 50.
    #[serde(default)]
    pub limit: Option<i64>,
}

/// A note to write.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateNote {
    /// What it is on: an id such as `contact:5`, `thread:12`, `order:10234`.
    pub record: String,
    /// Its text.
    pub body: String,
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The note's id.
    pub id: String,
    /// What it is on.
    pub record: String,
    /// Who wrote it.
    pub author: Named,
    /// Its text.
    pub body: String,
    /// When it was written.
    pub created_at: String,
}

/// Notes of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteList {
    /// The page, newest first.
    pub items: Vec<Note>,
    /// How many there are in all.
    pub total: u64,
}

impl Desk {
    /// The notes on something the caller may see.
    ///
    /// # Errors
    /// When the record does not exist for the caller.
    pub async fn list_notes(&self, caller: &Caller, args: &ListNotes) -> Result<NoteList> {
        let mut tx = self.read().await?;
        let (kind, target) = target(&mut tx, caller, &args.record).await?;
        let rows: Vec<(i64, i64, String, String, i64, i64)> = sqlx::query_as(
            "SELECT n.id, m.id, m.name, n.body, n.created_at, count(*) OVER () FROM notes n
             JOIN members m ON m.id = n.author_id WHERE n.kind = ? AND n.target_id = ?
             ORDER BY n.created_at DESC, n.id DESC LIMIT ?",
        )
        .bind(kind.slug())
        .bind(target)
        .bind(limit(args.limit, 20, 50))
        .fetch_all(&mut *tx)
        .await?;
        let total = count(rows.first().map_or(0, |row| row.5));
        let items = rows
            .into_iter()
            .map(|(id, member, name, body, at, _)| Note {
                id: format!("note:{id}"),
                record: format!("{}:{target}", kind.slug()),
                author: Named::new(Kind::Member, member, name),
                body,
                created_at: stamp(at, &caller.zone),
            })
            .collect();
        Ok(NoteList { items, total })
    }

    /// Writes a note on something the caller may see; on a thread, one they may write.
    ///
    /// # Errors
    /// When the record does not exist for the caller or the text is empty or too long.
    pub async fn create_note(
        &self,
        caller: &Caller,
        args: &CreateNote,
        idempotency_key: Option<&str>,
    ) -> Result<Note> {
        const ACTION: &str = "create_note";
        let mut tx = self.write().await?;
        if let Some(done) = idempotency::earlier(&mut tx, caller, ACTION, idempotency_key).await? {
            return Ok(done);
        }
        let (kind, target) = target(&mut tx, caller, &args.record).await?;
        if kind == Kind::Thread {
            writable(&mut tx, caller, &format!("thread:{target}")).await?;
        }
        let body = text("body", &args.body, MOST_NOTE)?;
        let now = self.now();
        let id = sqlx::query(
            "INSERT INTO notes (kind, target_id, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)",
        )
        .bind(kind.slug())
        .bind(target)
        .bind(caller.member.0)
        .bind(body)
        .bind(now.as_second())
        .execute(&mut *tx)
        .await?
        .last_insert_rowid();
        let name: String = sqlx::query_scalar("SELECT name FROM members WHERE id = ?")
            .bind(caller.member.0)
            .fetch_one(&mut *tx)
            .await?;
        let note = Note {
            id: format!("note:{id}"),
            record: format!("{}:{target}", kind.slug()),
            author: Named::new(Kind::Member, caller.member.0, name),
            body: body.to_owned(),
            created_at: stamp(now.as_second(), &caller.zone),
        };
        idempotency::remember(&mut tx, caller, ACTION, idempotency_key, &note, now).await?;
        tx.commit().await?;
        Ok(note)
    }
}

async fn target(conn: &mut SqliteConnection, caller: &Caller, given: &str) -> Result<(Kind, i64)> {
    const NOTABLE: [Kind; 4] = [Kind::Thread, Kind::Order, Kind::Contact, Kind::Company];
    let kind = Reference::parse(given).and_then(|reference| reference.kind());
    let Some(kind) = kind.filter(|kind| NOTABLE.contains(kind)) else {
        return Err(DeskError::invalid_of(
            "record",
            format!("{given:?} does not say what it is the id of"),
            NOTABLE.map(|kind| format!("{}:ID", kind.slug())),
        ));
    };
    Ok((kind, resolve::one(conn, caller, kind, "record", given).await?))
}
