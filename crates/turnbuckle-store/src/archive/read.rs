//! Reading a store in.

use super::{Annex, AnnexError, AnnexItem, Annexed, ArchiveError, Counts, Line, Progress, VERSION};
use crate::model::{Blob, ImportedUsage, NewSchedule, SessionKey};
use crate::open::Opened;
use std::io::BufRead;
use turnbuckle_core::time::Timestamp;

/// From this version on, usage is of its own.
const WITH_USAGE: u32 = 3;

/// Reads an archive into a store, and into what is kept beside it. Nothing that is there already is changed: a session or key
/// whose id is in use stops it, with everything before it stored.
///
/// # Errors
/// The stream's; when it is not an archive, or not whole; when an item cannot be stored.
pub async fn import(
    store: &Opened,
    annex: &dyn Annex,
    input: &mut (dyn BufRead + Send),
    now: Timestamp,
    progress: Progress<'_>,
) -> Result<Counts, ArchiveError> {
    let mut counts = Counts::default();
    let mut usage = ImportedUsage::FromEvents;
    let mut text = String::new();
    let mut number = 0;
    loop {
        text.clear();
        if input.read_line(&mut text)? == 0 {
            return Err(ArchiveError::Broken(number));
        }
        number += 1;
        let wrong = |cause: String| ArchiveError::Line { line: number, cause };
        let line: Line = match serde_json::from_str(text.trim_end()) {
            Ok(line) => line,
            // A last line without its end is one that broke off.
            Err(_) if !text.ends_with('\n') => return Err(ArchiveError::Broken(number - 1)),
            Err(e) => return Err(wrong(e.to_string())),
        };
        match line {
            Line::Turnbuckle { version } if version > VERSION => {
                return Err(ArchiveError::TooNew(version));
            }
            Line::Turnbuckle { version } if number == 1 => {
                if version >= WITH_USAGE {
                    usage = ImportedUsage::Apart;
                }
                continue;
            }
            _ if number == 1 => return Err(wrong("an archive begins with its version".to_owned())),
            Line::Turnbuckle { .. } => return Err(wrong("the version comes first".to_owned())),
            Line::End(told) if told == counts => return Ok(counts),
            Line::End(told) => {
                return Err(wrong(format!("it says {told:?}, and {counts:?} came before")));
            }
            item => {
                counts.add(&item);
                item.store(store, annex, number, usage, now).await?;
            }
        }
        progress(&counts);
    }
}

impl Line {
    async fn store(
        self,
        store: &Opened,
        annex: &dyn Annex,
        line: u64,
        usage: ImportedUsage,
        now: Timestamp,
    ) -> Result<(), ArchiveError> {
        let (what, result) = match self {
            Line::Session(whole) => {
                let what = format!("session {}", whole.session.key.id);
                (what, store.sessions.import_session(*whole, usage).await.map(drop))
            }
            Line::Blob { tenant, session, id, media_type, content } => {
                let what = format!("{id} of session {session}");
                let key = SessionKey::new(tenant, session);
                let blob = Blob { id, media_type, content: content.decode() };
                (what, store.sessions.put_blob(&key, blob).await)
            }
            Line::Schedule(s) => {
                let what = format!("schedule {}", s.key.id);
                let new = NewSchedule {
                    key: s.key,
                    cron: s.cron,
                    queue: s.queue,
                    payload: s.payload,
                    max_attempts: s.max_attempts,
                    missed: s.missed,
                    state: s.state,
                    now,
                };
                (what, store.jobs.put_schedule(new).await.map(drop))
            }
            Line::Job(job) => {
                let what = format!("job {}", job.key.id);
                (what, store.jobs.import_job(*job).await.map(drop))
            }
            Line::Usage { calls } => ("usage".to_owned(), store.sessions.meter(calls).await),
            Line::Allowance { tenant, allowance } => {
                let what = format!("allowance {}", allowance.id);
                (what, store.sessions.allow(&tenant, &allowance).await)
            }
            Line::Key(item) => return beside(annex, Annexed::Key, item, line).await,
            Line::Audit(item) => return beside(annex, Annexed::Audit, item, line).await,
            Line::Turnbuckle { .. } | Line::End(_) => return Ok(()),
        };
        result.map_err(|cause| ArchiveError::Refused { line, what, cause: cause.report() })
    }
}

async fn beside(
    annex: &dyn Annex,
    kind: Annexed,
    item: AnnexItem,
    line: u64,
) -> Result<(), ArchiveError> {
    let what = match kind {
        Annexed::Key => "the API key",
        Annexed::Audit => "the entry of the audit log",
    };
    let refused = |cause: AnnexError| {
        let (what, cause) = (what.to_owned(), cause.to_string());
        ArchiveError::Refused { line, what, cause }
    };
    annex.write(kind, item).await.map_err(refused)
}
