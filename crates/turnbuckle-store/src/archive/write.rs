//! Writing a store out.

use super::lists::{allowances, annexed, jobs, schedules, sessions, tenants, usage};
use super::{Annex, Annexed, ArchiveError, Counts, Line, Progress, VERSION};
use crate::error::StoreError;
use crate::model::{Export, SessionKey};
use crate::open::Opened;
use crate::store::Store;
use futures_util::TryStreamExt;
use std::collections::BTreeSet;
use std::io::Write;
use std::pin::pin;
use turnbuckle_core::content::Base64;

/// Bytes of a blob read at once.
const PIECE: u64 = 4 * 1024 * 1024;

/// Writes all of a store, and of what is kept beside it. Each session is of one moment; a service may go on meanwhile, but then
/// what it writes behind the place that was read is missing.
///
/// # Errors
/// The stores' and the stream's.
pub async fn export(
    store: &Opened,
    annex: Option<&dyn Annex>,
    out: &mut (dyn Write + Send),
    progress: Progress<'_>,
) -> Result<Counts, ArchiveError> {
    let mut out = Out { stream: out, counts: Counts::default(), progress };
    out.put(&Line::Turnbuckle { version: VERSION })?;
    let mut written = BTreeSet::new();
    for tenant in tenants(store).await? {
        for session in sessions(&*store.sessions, &tenant).await? {
            let whole = match store.sessions.export_session(&session.key).await {
                Ok(whole) => whole,
                // Deleted since it was listed.
                Err(StoreError::NotFound { .. }) => continue,
                Err(e) => return Err(e.into()),
            };
            out.put_session(&*store.sessions, whole).await?;
            written.insert(session.key);
        }
        let mut all = pin!(schedules(&*store.jobs, &tenant));
        while let Some(schedule) = all.try_next().await? {
            out.put(&Line::Schedule(Box::new(schedule)))?;
        }
        let mut all = pin!(jobs(&*store.jobs, &tenant));
        while let Some(job) = all.try_next().await? {
            out.put(&Line::Job(Box::new(job)))?;
        }
    }
    let mut all = pin!(usage(&*store.sessions));
    while let Some(calls) = all.try_next().await? {
        out.put(&Line::Usage { calls })?;
    }
    let mut all = pin!(allowances(&*store.sessions));
    while let Some(kept) = all.try_next().await? {
        let (tenant, allowance) = (kept.tenant, Box::new(kept.allowance));
        // Where the session came too late to be written, what holds in it alone would be refused.
        if let Some(id) = &allowance.session
            && !written.contains(&SessionKey::new(tenant.clone(), id.clone()))
        {
            continue;
        }
        out.put(&Line::Allowance { tenant, allowance })?;
    }
    if let Some(annex) = annex {
        for kind in [Annexed::Key, Annexed::Audit] {
            let mut all = pin!(annexed(annex, kind));
            while let Some(item) = all.try_next().await.map_err(ArchiveError::Annex)? {
                out.put(&match kind {
                    Annexed::Key => Line::Key(item),
                    Annexed::Audit => Line::Audit(item),
                })?;
            }
        }
    }
    out.put(&Line::End(out.counts))?;
    out.stream.flush()?;
    Ok(out.counts)
}

/// Where lines are written and counted.
struct Out<'a> {
    stream: &'a mut (dyn Write + Send),
    counts: Counts,
    progress: Progress<'a>,
}

impl Out<'_> {
    fn put(&mut self, line: &Line) -> Result<(), ArchiveError> {
        serde_json::to_writer(&mut *self.stream, line).map_err(std::io::Error::from)?;
        self.stream.write_all(b"\n")?;
        self.counts.add(line);
        (self.progress)(&self.counts);
        Ok(())
    }

    async fn put_session(&mut self, store: &dyn Store, whole: Export) -> Result<(), ArchiveError> {
        let (key, blobs) = (whole.session.key.clone(), whole.blobs.clone());
        self.put(&Line::Session(Box::new(whole)))?;
        for blob in blobs {
            let content = content(store, &key, &blob.id, blob.size).await?;
            let (tenant, session) = (key.tenant.clone(), key.id.clone());
            let content = Base64::encode(&content);
            let (id, media_type) = (blob.id, blob.media_type);
            self.put(&Line::Blob { tenant, session, id, media_type, content })?;
        }
        Ok(())
    }
}

/// All of a blob.
pub(super) async fn content(
    store: &dyn Store,
    key: &SessionKey,
    id: &str,
    size: u64,
) -> Result<Vec<u8>, StoreError> {
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    while (content.len() as u64) < size {
        let from = content.len() as u64;
        let part = store.get_blob(key, id, from..size.min(from + PIECE)).await?;
        if part.content.is_empty() {
            break;
        }
        content.extend(part.content);
    }
    Ok(content)
}
