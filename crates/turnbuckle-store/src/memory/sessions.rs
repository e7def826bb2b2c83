//! Sessions as a whole: create, list, delete, fork, export, import.

use super::Inner;
use super::held::{Held, Lines};
use crate::check::check;
use crate::error::{Conflict, StoreError};
use crate::export::coherent;
use crate::model::{
    Commit, Committed, Cursor, Export, Fork, ImportedUsage, Lease, MeteredCall, NewSession, Page,
    Session, SessionKey, SessionQuery, SessionStatus, metered, metered_calls, page,
};
use crate::words::Search;
use std::collections::BTreeSet;
use std::sync::Arc;
use turnbuckle_core::ids::{SessionId, TenantId};
use turnbuckle_core::message::SystemBody;
use turnbuckle_core::pack::Whole;
use turnbuckle_core::time::Timestamp;

impl Inner {
    fn free(&self, id: &SessionId) -> Result<(), Conflict> {
        if self.deleted.contains(id) || self.sessions.contains_key(id) {
            return Err(Conflict::SessionExists(id.clone()));
        }
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        new: NewSession,
        forked_from: Option<SessionId>,
    ) -> Result<&mut Held, StoreError> {
        let id = new.key.id.clone();
        self.free(&id)?;
        let row = Session {
            key: new.key,
            user: new.user,
            agent: new.agent,
            title: new.title,
            model: new.model,
            created: new.now,
            updated: new.now,
            version: 0,
            fence: 0,
            lease: None,
            next_seq: 1,
            status: SessionStatus::Idle,
            turn: None,
            pending: 0,
            kept_below: 0,
            forked_from,
            parked: None,
        };
        Ok(self.sessions.entry(id).or_insert_with(|| Box::new(Held::new(row, new.state))))
    }

    pub(super) fn list(&self, query: &SessionQuery) -> Page<Session> {
        let title = query.title_contains.as_ref().map(|text| text.to_lowercase());
        let search = query.search.as_deref().map(Search::of);
        let titled = |row: &Session, text: &str| {
            row.title.as_ref().is_some_and(|title| title.to_lowercase().contains(text))
        };
        let found = |held: &Held| {
            let row = &held.row;
            let place = (row.updated, row.key.id.as_str());
            row.key.tenant == query.tenant
                && query.user.as_ref().is_none_or(|user| *user == row.user)
                && query.agent.as_ref().is_none_or(|agent| *agent == row.agent)
                && query.status.is_none_or(|status| status == row.status)
                && title.as_ref().is_none_or(|text| titled(row, text))
                && search.as_ref().is_none_or(|search| {
                    titled(row, &search.title) || held.messages.iter().any(|m| search.finds(m))
                })
                && query.after.as_ref().is_none_or(|after| place < (after.at, after.id.as_str()))
        };
        let held = self.sessions.values().filter(|held| found(held));
        let mut items: Vec<Session> = held.map(|held| held.row.clone()).collect();
        items.sort_by(|a, b| (b.updated, &b.key.id).cmp(&(a.updated, &a.key.id)));
        items.truncate(query.limit as usize + 1);
        page(items, query.limit, |s| Cursor { at: s.updated, id: s.key.id.to_string() })
    }

    pub(super) fn delete(&mut self, key: &SessionKey, now: Timestamp) -> Result<(), StoreError> {
        if let Some(Lease { owner, until }) = self.get(key)?.row.lease.clone()
            && until > now
        {
            return Err(StoreError::Busy { owner, until });
        }
        self.sessions.remove(&key.id);
        self.cards.retain(|_, session| *session != key.id);
        self.allowances.retain(|(_, a)| a.session.as_ref() != Some(&key.id));
        self.work.tasks.retain(|_, task| task.session != key.id);
        self.deleted.insert(key.id.clone());
        Ok(())
    }

    pub(super) fn fork(&mut self, fork: Fork) -> Result<Session, StoreError> {
        let source = self.get(&fork.from)?;
        let copy = source.copy(&fork.at, fork.now)?;
        let new = NewSession {
            key: SessionKey { tenant: fork.from.tenant, id: fork.id },
            user: fork.user,
            agent: source.row.agent.clone(),
            title: fork.title.or_else(|| source.row.title.clone()),
            model: source.row.model.clone(),
            state: fork.state.or_else(|| source.state.clone()),
            now: fork.now,
        };
        let made = self.create(new, Some(fork.from.id))?;
        made.fill(copy);
        Ok(made.row.clone())
    }

    pub(super) fn commit(&mut self, commit: Commit) -> Result<Committed, StoreError> {
        let checked = check(&commit)?;
        let elsewhere = commit
            .cards
            .iter()
            .any(|card| self.cards.get(&card.id).is_some_and(|session| *session != commit.key.id));
        let held = self.get(&commit.key)?;
        if commit.gave_back(held.row.fence) && held.repeats(&commit) {
            return Ok(Committed { released: true, ..held.committed() });
        }
        let held = self.owned(&commit.key, commit.fence)?;
        if held.repeats(&commit) {
            return Ok(held.committed());
        }
        checked.against(&commit, &held.standing())?;
        held.check(&commit)?;
        if elsewhere {
            return Err(foreign_card());
        }
        let journal = Lines::of(&commit.journal)?;
        let calls = metering(&held.row, commit.events.wholes(), &commit.account);
        for card in &commit.cards {
            if matches!(card.body, SystemBody::Approval(_)) {
                self.cards.insert(card.id.clone(), commit.key.id.clone());
            }
        }
        self.usage.extend(calls);
        self.work.start(&commit.key, &commit.events);
        for new in &commit.allowances {
            self.allow(&commit.key.tenant, new);
        }
        let held = self.get_mut(&commit.key)?;
        held.apply(commit, journal);
        Ok(held.committed())
    }

    pub(super) fn tenants(&self, after: Option<&TenantId>, limit: u32) -> Vec<TenantId> {
        let all: BTreeSet<_> = self.sessions.values().map(|held| &held.row.key.tenant).collect();
        let later = all.into_iter().filter(|tenant| after.is_none_or(|after| *tenant > after));
        later.take(limit as usize).cloned().collect()
    }

    pub(super) fn import(
        &mut self,
        export: Export,
        usage: ImportedUsage,
    ) -> Result<Session, StoreError> {
        coherent(&export)?;
        let id = export.session.key.id.clone();
        self.free(&id)?;
        let cards: Vec<_> = export.own_cards().into_iter().cloned().collect();
        if cards.iter().any(|card| self.cards.contains_key(card)) {
            return Err(foreign_card());
        }
        let journals = export.turns.iter().map(|log| Lines::of(&log.journal));
        let journals = journals.collect::<Result<Vec<_>, _>>()?;
        if usage == ImportedUsage::FromEvents {
            self.usage.extend(metering(
                &export.session,
                export.events.iter().map(Whole::from),
                &None,
            ));
        }
        self.cards.extend(cards.into_iter().map(|card| (card, id.clone())));
        for task in &export.tasks {
            self.work.tasks.entry(task.key.clone()).or_insert_with(|| task.clone());
        }
        let held = Held::import(export, journals);
        let row = held.row.clone();
        self.sessions.insert(id, Box::new(held));
        Ok(row)
    }
}

fn foreign_card() -> StoreError {
    let cause = std::io::Error::other("a card of that id belongs to another session");
    StoreError::Other { cause: Arc::new(cause) }
}

/// The model calls that events record.
fn metering<'a>(
    row: &Session,
    events: impl Iterator<Item = Whole<'a>>,
    account: &Option<Arc<str>>,
) -> Vec<MeteredCall> {
    metered_calls(events)
        .map(|(event, call)| {
            let (model, sum) = metered(call);
            MeteredCall {
                tenant: row.key.tenant.clone(),
                user: row.user.clone(),
                account: account.clone(),
                session: row.key.id.clone(),
                turn: event.turn.clone(),
                agent: call.agent.clone(),
                model,
                at: event.at,
                sum,
            }
        })
        .collect()
}
