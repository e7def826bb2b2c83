//! Whether a store is whole: everything that says the same twice is compared.

use super::lists::{allowances, annexed, captured, cards, sessions, tasks, tenants};
use super::write::content;
use super::{Annex, Annexed, ArchiveError};
use crate::error::StoreError;
use crate::export::flaw;
use crate::model::{Export, SessionKey, TurnStatus};
use crate::open::Opened;
use crate::store::Store;
use futures_util::{Stream, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{SessionId, TenantId, TurnId};
use turnbuckle_core::message::{Message, SystemBody};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Whose.
    pub tenant: TenantId,
    /// Where.
    pub session: SessionId,
    /// What.
    pub what: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} of {}: {}", self.session, self.tenant, self.what)
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Sessions.
    pub sessions: u64,
    /// Turns whose events were folded and compared with the messages.
    pub turns: u64,
    /// Events.
    pub events: u64,
    /// Large outputs and attachments that were read.
    pub blobs: u64,
    /// Allowances.
    pub allowances: u64,
    /// API keys.
    pub keys: u64,
    /// Entries of the audit log.
    pub audit: u64,
    /// Flaws.
    pub flaws: u64,
}

/// Looks at all of a store, and of what is kept beside it, and tells of each flaw. Reads only; a service may go on meanwhile.
///
/// # Errors
/// The stores', apart from what cannot be read of a single session, which is a flaw.
pub async fn check(
    store: &Opened,
    annex: Option<&dyn Annex>,
    told: &mut (dyn FnMut(&Checked, Option<&Flaw>) + Send),
) -> Result<Checked, ArchiveError> {
    let mut checked = Checked::default();
    for tenant in tenants(store).await? {
        let mut known = BTreeSet::new();
        for session in sessions(&*store.sessions, &tenant).await? {
            let key = session.key;
            known.insert(key.id.clone());
            let found = match store.sessions.export_session(&key).await {
                Ok(whole) => {
                    checked.events += whole.events.len() as u64;
                    look_at(&*store.sessions, &whole, &mut checked).await?
                }
                Err(StoreError::NotFound { .. }) => continue,
                Err(e @ StoreError::Corrupt { .. }) => vec![e.report()],
                Err(e) => return Err(e.into()),
            };
            checked.sessions += 1;
            tell(&mut checked, told, &key, found);
        }
        for (id, what) in orphans(store, &tenant, &known).await? {
            // It may have been made since the sessions were listed.
            let key = SessionKey { tenant: tenant.clone(), id };
            if matches!(store.sessions.session(&key).await, Err(StoreError::NotFound { .. })) {
                tell(&mut checked, told, &key, vec![what]);
            }
        }
    }
    checked.allowances = counted(allowances(&*store.sessions)).await?;
    if let Some(annex) = annex {
        let read = async |kind| counted(annexed(annex, kind)).await.map_err(ArchiveError::Annex);
        checked.keys = read(Annexed::Key).await?;
        checked.audit = read(Annexed::Audit).await?;
    }
    Ok(checked)
}

/// How much there is, all of it read.
async fn counted<T, E>(items: impl Stream<Item = Result<T, E>>) -> Result<u64, E> {
    items.try_fold(0, |n, _| async move { Ok(n + 1) }).await
}

fn tell(
    checked: &mut Checked,
    told: &mut (dyn FnMut(&Checked, Option<&Flaw>) + Send),
    key: &SessionKey,
    found: Vec<String>,
) {
    let none = found.is_empty();
    for what in found {
        checked.flaws += 1;
        let flaw = Flaw { tenant: key.tenant.clone(), session: key.id.clone(), what };
        told(checked, Some(&flaw));
    }
    if none {
        told(checked, None);
    }
}

async fn look_at(
    store: &dyn Store,
    whole: &Export,
    checked: &mut Checked,
) -> Result<Vec<String>, StoreError> {
    let mut found: Vec<String> = flaw(whole).into_iter().collect();
    found.extend(folded(whole, checked));
    let key = &whole.session.key;
    for blob in &whole.blobs {
        checked.blobs += 1;
        let read = match content(store, key, &blob.id, blob.size).await {
            Ok(content) => content.len() as u64,
            Err(StoreError::NotFound { .. }) => 0,
            Err(e) => return Err(e),
        };
        if read != blob.size {
            found.push(format!("{} has {read} bytes, not {}", blob.id, blob.size));
        }
    }
    for message in &whole.messages {
        let Message::System(card) = message else { continue };
        let own = whole.turns.iter().any(|log| log.turn.id == card.turn);
        let copied = !whole.events.iter().any(|event| event.turn == card.turn);
        if !matches!(card.body, SystemBody::Approval(_)) || !own || copied {
            continue;
        }
        match store.card(&key.tenant, &card.id).await {
            Ok(found_card) if found_card.session == *key => {}
            Ok(other) => {
                found.push(format!("card {} is found in session {}", card.id, other.session.id));
            }
            Err(StoreError::NotFound { .. }) => {
                found.push(format!("card {} cannot be found by its id", card.id));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// Folds the events of each turn and compares them with its messages.
fn folded(whole: &Export, checked: &mut Checked) -> Vec<String> {
    let mut found = Vec::new();
    let mut folds: BTreeMap<&TurnId, Result<TurnFold, String>> = BTreeMap::new();
    for event in &whole.events {
        let fold = folds.entry(&event.turn).or_insert_with(|| Ok(TurnFold::default()));
        if let Ok(state) = fold
            && let Err(e) = state.apply(event.at, &event.kind)
        {
            *fold = Err(format!("event {} does not fit: {e}", event.seq));
        }
    }
    for (turn, fold) in folds {
        checked.turns += 1;
        let fold = match fold {
            Ok(fold) => fold,
            Err(why) => {
                found.push(format!("turn {turn}: {why}"));
                continue;
            }
        };
        let record = whole.turns.iter().find(|log| log.turn.id == *turn);
        let Some(record) = record else {
            found.push(format!("turn {turn} has events and no record"));
            continue;
        };
        let stored = |message: &Message| whole.messages.iter().find(|m| m.id() == message.id());
        let mut expected: Vec<Message> = fold.cards.into_iter().map(Message::System).collect();
        expected.extend(fold.user.map(Message::User));
        // What a turn says is stored when it pauses or ends.
        if record.turn.status != TurnStatus::Running {
            expected.extend(fold.assistant.map(|m| Message::Assistant(Box::new(m))));
        }
        for message in &expected {
            match stored(message) {
                Some(stored) if stored == message => {}
                Some(_) => found.push(format!(
                    "turn {turn}: message {} is not what its events say",
                    message.id()
                )),
                None => found.push(format!(
                    "turn {turn}: message {} is in the events and not stored",
                    message.id()
                )),
            }
        }
    }
    found
}

/// What is of a session that is not there.
async fn orphans(
    store: &Opened,
    tenant: &TenantId,
    known: &BTreeSet<SessionId>,
) -> Result<BTreeMap<SessionId, String>, StoreError> {
    let mut found = BTreeMap::new();
    let mut told = |session: &SessionId, what: String| {
        if !known.contains(session) {
            found.insert(session.clone(), what);
        }
    };
    let mut all = pin!(cards(&*store.sessions, tenant));
    while let Some(card) = all.try_next().await? {
        let what = format!("card {} is of a session that is not there", card.message.id);
        told(&card.session.id, what);
    }
    let mut all = pin!(captured(&*store.sessions, tenant));
    while let Some(one) = all.try_next().await? {
        let what = "a captured action is of a session that is not there".to_owned();
        told(&one.session.id, what);
    }
    let mut all = pin!(tasks(&*store.jobs, tenant));
    while let Some(task) = all.try_next().await? {
        let what = format!("task {} is of a session that is not there", task.key.reference);
        told(&task.session, what);
    }
    Ok(found)
}
