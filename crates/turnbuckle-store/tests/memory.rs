//! The in-memory store keeps the contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use futures_util::FutureExt;
use std::sync::Arc;
use turnbuckle_core::ids::TenantId;
use turnbuckle_store::archive::{Annex, AnnexFuture, AnnexItem, Annexed, Counts, export, import};
use turnbuckle_store::conformance::{at, job, job_key, key, new_session, take};
use turnbuckle_store::{
    Allowance, JobKey, Jobs, MemoryStore, MeteredCall, NewJob, Opened, Store, UsageBy, UsageQuery,
    UsageSum,
};

async fn fresh() -> Option<(Arc<dyn Store>, ())> {
    Some((Arc::new(MemoryStore::new()), ()))
}

turnbuckle_store::store_conformance!(fresh());

async fn fresh_jobs() -> Option<(MemoryStore, ())> {
    Some((MemoryStore::new(), ()))
}

mod jobs {
    turnbuckle_store::jobs_conformance!(super::fresh_jobs());
}

/// Nothing beside the sessions.
struct Nothing;

impl Annex for Nothing {
    fn read(
        &self,
        _: Annexed,
        _: Option<String>,
        _: u32,
    ) -> AnnexFuture<'_, (Vec<AnnexItem>, Option<String>)> {
        async { Ok((Vec::new(), None)) }.boxed()
    }

    fn write(&self, _: Annexed, _: AnnexItem) -> AnnexFuture<'_, ()> {
        async { Ok(()) }.boxed()
    }
}

/// A service goes on while its store is written out: what is allowed in a session that came too late stays behind with it.
#[tokio::test]
async fn an_archive_of_a_store_that_goes_on_can_be_read() {
    let store = MemoryStore::new();
    let tenant: TenantId = "acme".into();
    let allowed = |session: &str| Allowance {
        id: session.into(),
        user: "ann".into(),
        session: Some(key(session).id),
        agent: "main".into(),
        tool: "pay".into(),
        args: Vec::new(),
        at: at(1),
    };
    let create = async |session: &str| {
        store.create_session(new_session(&key(session), at(1))).await.unwrap();
        store.allow(&tenant, &allowed(session)).await.unwrap();
    };
    create("early").await;
    let mut written = Vec::new();
    let mut went_on = false;
    let mut progress = |counts: &Counts| {
        if counts.sessions == 1 && !std::mem::replace(&mut went_on, true) {
            create("late").now_or_never().unwrap();
        }
    };
    let out = export(&Opened::new(store.clone()), None, &mut written, &mut progress).await.unwrap();
    assert_eq!((out.sessions, out.allowances), (1, 1));
    let there = MemoryStore::new();
    let opened = Opened::new(there.clone());
    let read = import(&opened, &Nothing, &mut &written[..], at(2), &mut |_| {}).await.unwrap();
    assert_eq!(read, out);
    let kept = there.every_allowance(0, 9).await.unwrap();
    assert_eq!(kept.into_iter().map(|kept| kept.allowance).collect::<Vec<_>>(), [allowed("early")]);
}

/// Who has nothing but work is taken along, and so is what has ended: jobs, and what calls of deleted sessions cost.
#[tokio::test]
async fn an_archive_holds_what_has_no_session() {
    let store = MemoryStore::new();
    let elsewhere = NewJob { key: JobKey::new("other", "later"), ..job("later", at(0)) };
    store.enqueue(elsewhere.clone()).await.unwrap();
    store.enqueue(job("done", at(0))).await.unwrap();
    let taken = store.take_jobs(take("one", at(0))).await.unwrap();
    let done = taken.iter().find(|job| job.key == job_key("done")).unwrap();
    let done = store.finish_job(&done.key, done.fence, None, at(1)).await.unwrap();
    let call = MeteredCall {
        tenant: "acme".into(),
        user: "ann".into(),
        account: Some("k_1".into()),
        session: "deleted".into(),
        turn: "t".into(),
        agent: "main".into(),
        model: "p:m".into(),
        at: at(1),
        sum: UsageSum { calls: 1, input: 7, ..UsageSum::default() },
    };
    store.meter(vec![call; 450]).await.unwrap();
    let mut written = Vec::new();
    let out = export(&Opened::new(store), None, &mut written, &mut |_| {}).await.unwrap();
    assert_eq!((out.sessions, out.jobs, out.usage), (0, 2, 450));
    let there = MemoryStore::new();
    let opened = Opened::new(there.clone());
    let read = import(&opened, &Nothing, &mut &written[..], at(2), &mut |_| {}).await.unwrap();
    assert_eq!(read, out);
    assert_eq!(there.job(&job_key("done")).await.unwrap(), done);
    let due = there.take_jobs(take("two", at(2))).await.unwrap();
    assert_eq!(due.into_iter().map(|job| job.key).collect::<Vec<_>>(), [elsewhere.key]);
    let query = UsageQuery {
        tenant: "acme".into(),
        user: None,
        account: Some("k_1".into()),
        from: at(0),
        to: at(9),
        by: UsageBy::Nothing,
    };
    let usage = there.usage(query).await.unwrap();
    assert_eq!((usage[0].sum.calls, usage[0].sum.input), (450, 3150));
}
