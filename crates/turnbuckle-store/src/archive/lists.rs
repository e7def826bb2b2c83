//! Everything of each list of a store, page by page.

use super::{Annex, AnnexError, AnnexItem, Annexed};
use crate::error::StoreError;
use crate::jobs::Jobs;
use crate::model::{
    CapturedIn, CapturedQuery, Card, CardQuery, Cursor, Job, JobQuery, KeptAllowance, MeteredCall,
    Page, Schedule, ScheduleQuery, Session, SessionQuery, Task, TaskQuery,
};
use crate::open::Opened;
use crate::store::Store;
use futures_util::stream::{iter, try_unfold};
use futures_util::{Stream, TryFutureExt, TryStreamExt};
use std::collections::BTreeSet;
use turnbuckle_core::ids::TenantId;

/// Items read at once.
const PAGE: u32 = 200;

/// All items of a list. `read` gives those behind a place, and the place to go on from, as long as there may be more.
fn every<T, P, E, F>(mut read: impl FnMut(Option<P>) -> F) -> impl Stream<Item = Result<T, E>>
where
    F: Future<Output = Result<(Vec<T>, Option<P>), E>>,
{
    // Where the next page begins; nothing once the last was read.
    try_unfold(Some(None), move |begins| {
        let page = begins.map(&mut read);
        async move {
            let Some(page) = page else { return Ok(None) };
            let (items, next) = page.await?;
            Ok(Some((iter(items.into_iter().map(Ok)), next.map(Some))))
        }
    })
    .try_flatten()
}

/// All items of a list with pages.
fn pages<T, E, F>(mut read: impl FnMut(Option<Cursor>) -> F) -> impl Stream<Item = Result<T, E>>
where
    F: Future<Output = Result<Page<T>, E>>,
{
    every(move |after| read(after).map_ok(|page| (page.items, page.next)))
}

/// A list that goes on behind the last item, until there is none.
fn behind<T, P>(items: Vec<T>, place: impl FnOnce(&T) -> P) -> (Vec<T>, Option<P>) {
    let next = items.last().map(place);
    (items, next)
}

/// Every tenant that has sessions, jobs or schedules.
pub(super) async fn tenants(store: &Opened) -> Result<BTreeSet<TenantId>, StoreError> {
    let read = |after: Option<TenantId>| async move {
        let items = store.sessions.tenants(after.as_ref(), PAGE).await?;
        Ok::<_, StoreError>(behind(items, TenantId::clone))
    };
    let mut all: BTreeSet<TenantId> = every(read).try_collect().await?;
    let read = |after: Option<TenantId>| async move {
        let items = store.jobs.job_tenants(after.as_ref(), PAGE).await?;
        Ok::<_, StoreError>(behind(items, TenantId::clone))
    };
    let more: BTreeSet<TenantId> = every(read).try_collect().await?;
    all.extend(more);
    Ok(all)
}

/// Every session of a tenant, as it is at the moment it comes by.
pub(super) async fn sessions(
    store: &dyn Store,
    tenant: &TenantId,
) -> Result<Vec<Session>, StoreError> {
    let query = |after| SessionQuery { after, limit: PAGE, ..SessionQuery::of(tenant.clone()) };
    let mut all: Vec<Session> =
        pages(|after| store.list_sessions(query(after))).try_collect().await?;
    // One that was used meanwhile has moved to the top.
    let mut seen = BTreeSet::new();
    all.retain(|session| seen.insert(session.key.id.clone()));
    Ok(all)
}

/// Every schedule of a tenant.
pub(super) fn schedules<'a>(
    store: &'a dyn Jobs,
    tenant: &'a TenantId,
) -> impl Stream<Item = Result<Schedule, StoreError>> + 'a {
    let query = |after| ScheduleQuery { tenant: tenant.clone(), after, limit: PAGE };
    pages(move |after| store.schedules(query(after)))
}

/// Every job of a tenant, however it stands.
pub(super) fn jobs<'a>(
    store: &'a dyn Jobs,
    tenant: &'a TenantId,
) -> impl Stream<Item = Result<Job, StoreError>> + 'a {
    let query = |after| JobQuery { after, limit: PAGE, ..JobQuery::of(tenant.clone()) };
    pages(move |after| store.jobs(query(after)))
}

/// Every card of a tenant.
pub(super) fn cards<'a>(
    store: &'a dyn Store,
    tenant: &'a TenantId,
) -> impl Stream<Item = Result<Card, StoreError>> + 'a {
    let query = |after| CardQuery { after, limit: PAGE, ..CardQuery::of(tenant.clone()) };
    pages(move |after| store.cards(query(after)))
}

/// Every captured action of a tenant.
pub(super) fn captured<'a>(
    store: &'a dyn Store,
    tenant: &'a TenantId,
) -> impl Stream<Item = Result<CapturedIn, StoreError>> + 'a {
    let query = |after| CapturedQuery { after, limit: PAGE, ..CapturedQuery::of(tenant.clone()) };
    pages(move |after| store.list_captured(query(after)))
}

/// Every background task of a tenant.
pub(super) fn tasks<'a>(
    store: &'a dyn Jobs,
    tenant: &'a TenantId,
) -> impl Stream<Item = Result<Task, StoreError>> + 'a {
    let query = |after| TaskQuery { after, limit: PAGE, ..TaskQuery::of(tenant.clone()) };
    pages(move |after| store.tasks(query(after)))
}

/// What every model call cost, page by page.
pub(super) fn usage(store: &dyn Store) -> impl Stream<Item = Result<Vec<MeteredCall>, StoreError>> {
    every(move |after| {
        let read = store.every_usage(after.unwrap_or(0), PAGE);
        read.map_ok(|kept| {
            let next = kept.last().map(|last| last.n);
            let calls: Vec<MeteredCall> = kept.into_iter().map(|kept| kept.call).collect();
            (if calls.is_empty() { Vec::new() } else { vec![calls] }, next)
        })
    })
}

/// What everyone allowed for good.
pub(super) fn allowances(
    store: &dyn Store,
) -> impl Stream<Item = Result<KeptAllowance, StoreError>> {
    every(move |after| {
        let read = store.every_allowance(after.unwrap_or(0), PAGE);
        read.map_ok(|items| behind(items, |kept| kept.n))
    })
}

/// Everything of a kind that is kept beside the sessions.
pub(super) fn annexed(
    annex: &dyn Annex,
    kind: Annexed,
) -> impl Stream<Item = Result<AnnexItem, AnnexError>> {
    every(move |after| annex.read(kind, after, PAGE))
}
