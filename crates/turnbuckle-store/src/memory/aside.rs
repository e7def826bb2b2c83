//! What lies beside the conversation: captured actions, large outputs, usage, what people allowed for good.

use super::Inner;
use crate::error::{Conflict, StoreError};
use crate::model::{
    Allowance, BlobPart, Captured, CapturedIn, CapturedPlace, CapturedQuery, CapturedUpdate,
    KeptAllowance, KeptUsage, MeteredCall, Page, SessionKey, UsageBy, UsageGroup, UsageQuery,
    UsageSum, page,
};
use std::collections::BTreeMap;
use std::ops::Range;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, UserId};

impl Inner {
    pub(super) fn list_captured(&self, query: &CapturedQuery) -> Page<CapturedIn> {
        let after = query.after.as_ref().map(CapturedPlace::read);
        let sessions = self.sessions.values().filter(|held| {
            held.row.key.tenant == query.tenant
                && query.session.as_ref().is_none_or(|id| *id == held.row.key.id)
                && query.user.as_ref().is_none_or(|user| *user == held.row.user)
        });
        let mut found: Vec<CapturedIn> = sessions
            .flat_map(|held| {
                held.captured.iter().map(|(at, captured)| CapturedIn {
                    session: held.row.key.clone(),
                    at: *at,
                    captured: captured.clone(),
                })
            })
            .filter(|one| {
                query.turn.as_ref().is_none_or(|turn| *turn == one.captured.turn)
                    && query.status.is_none_or(|status| status == one.captured.status)
                    && after.as_ref().is_none_or(|after| CapturedPlace::of(one) > *after)
            })
            .collect();
        found.sort_by_cached_key(CapturedPlace::of);
        found.truncate(query.limit as usize + 1);
        page(found, query.limit, |one| CapturedPlace::of(one).cursor())
    }

    pub(super) fn update_captured(
        &mut self,
        update: CapturedUpdate,
    ) -> Result<Captured, StoreError> {
        let missing = StoreError::NotFound { what: "captured action" };
        let held = self.get_mut(&update.key).map_err(|_| missing.clone())?;
        let mut actions = held.captured.iter_mut().map(|(_, captured)| captured);
        let found =
            actions.find(|a| a.turn == update.turn && a.index == update.index).ok_or(missing)?;
        if found.revision != update.expected {
            let (current, expected) = (found.revision, update.expected);
            return Err(Conflict::Stale { current, expected }.into());
        }
        found.revision += 1;
        found.status = update.status;
        if let Some(action) = update.action {
            found.action = action;
        }
        if update.result.is_some() {
            found.result = update.result;
        }
        Ok(found.clone())
    }

    pub(super) fn get_blob(
        &self,
        key: &SessionKey,
        id: &str,
        range: Range<u64>,
    ) -> Result<BlobPart, StoreError> {
        let missing = StoreError::NotFound { what: "blob" };
        let held = self.get(key).map_err(|_| missing.clone())?;
        let blob = held.blobs.get(id).ok_or(missing)?;
        let size = blob.content.len() as u64;
        let end = range.end.min(size);
        let start = range.start.min(end);
        let bytes = blob.content.get(start as usize..end as usize).unwrap_or_default();
        Ok(BlobPart {
            media_type: blob.media_type.clone(),
            size,
            range: start..end,
            content: bytes.to_vec(),
        })
    }

    pub(super) fn allow(&mut self, tenant: &TenantId, new: &Allowance) {
        let known = |(t, a): &(TenantId, Allowance)| t == tenant && a.says_the_same(new);
        if !self.allowances.iter().any(known) {
            self.allowances.push((tenant.clone(), new.clone()));
        }
    }

    pub(super) fn allow_outside(
        &mut self,
        tenant: &TenantId,
        new: &Allowance,
    ) -> Result<(), StoreError> {
        if let Some(id) = &new.session {
            self.get(&SessionKey { tenant: tenant.clone(), id: id.clone() })?;
        }
        self.allow(tenant, new);
        Ok(())
    }

    pub(super) fn every_allowance(&self, after: u64, limit: u32) -> Vec<KeptAllowance> {
        let kept = |(n, (tenant, allowance)): (u64, &(TenantId, Allowance))| KeptAllowance {
            n,
            tenant: tenant.clone(),
            allowance: allowance.clone(),
        };
        let all = (1..).zip(&self.allowances).skip_while(|(n, _)| *n <= after);
        all.take(limit as usize).map(kept).collect()
    }

    pub(super) fn allowances(
        &self,
        tenant: &TenantId,
        user: &UserId,
        session: Option<&SessionId>,
    ) -> Vec<Allowance> {
        let all = self.allowances.iter();
        let theirs = all.filter(|(t, a)| t == tenant && a.user == *user).map(|(_, a)| a);
        let in_force = |a: &&Allowance| {
            session.is_none() || a.session.is_none() || a.session.as_ref() == session
        };
        theirs.filter(in_force).cloned().collect()
    }

    pub(super) fn take_back(
        &mut self,
        tenant: &TenantId,
        user: &UserId,
        allowance: &MessageId,
    ) -> Result<(), StoreError> {
        let before = self.allowances.len();
        let meant =
            |(t, a): &(TenantId, Allowance)| t == tenant && a.user == *user && a.id == *allowance;
        self.allowances.retain(|entry| !meant(entry));
        match self.allowances.len() == before {
            true => Err(StoreError::NotFound { what: "allowance" }),
            false => Ok(()),
        }
    }

    pub(super) fn every_usage(&self, after: u64, limit: u32) -> Vec<KeptUsage> {
        let numbered = (1..).zip(&self.usage).filter(|(n, _)| *n > after);
        let kept = |(n, call): (u64, &MeteredCall)| KeptUsage { n, call: call.clone() };
        numbered.take(limit as usize).map(kept).collect()
    }

    pub(super) fn usage(&self, query: &UsageQuery) -> Vec<UsageGroup> {
        let mut groups: BTreeMap<String, UsageSum> = BTreeMap::new();
        for call in &self.usage {
            let counts = call.tenant == query.tenant
                && query.user.as_ref().is_none_or(|user| *user == call.user)
                && query.account.as_ref().is_none_or(|a| call.account.as_deref() == Some(a))
                && (query.from..query.to).contains(&call.at);
            if !counts {
                continue;
            }
            let key = match query.by {
                UsageBy::Nothing => String::new(),
                UsageBy::Day => call.at.to_string().chars().take(10).collect(),
                UsageBy::Model => call.model.clone(),
                UsageBy::Agent => call.agent.to_string(),
                UsageBy::User => call.user.to_string(),
                UsageBy::Account => call.account.as_deref().unwrap_or_default().to_owned(),
            };
            groups.entry(key).or_default().add(&call.sum);
        }
        groups.into_iter().map(|(key, sum)| UsageGroup { key, sum }).collect()
    }
}
