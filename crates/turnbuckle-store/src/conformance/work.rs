//! Data for the suite of jobs.

use crate::jobs::Jobs;
use crate::model::{JobKey, NewJob, TakeJobs};
use std::sync::Arc;
use turnbuckle_core::time::Timestamp;

/// The store under test, as far as it keeps jobs.
pub type JobsSubject = Arc<dyn Jobs>;

/// A job of tenant `acme`.
pub fn key(id: &str) -> JobKey {
    JobKey::new("acme", id)
}

/// A job in queue `q` that is due at once and tried three times.
pub fn job(id: &str, now: Timestamp) -> NewJob {
    NewJob {
        key: key(id),
        queue: "q".to_owned(),
        idempotency_key: None,
        payload: Arc::default(),
        due: now,
        max_attempts: 3,
        tick: None,
        now,
    }
}

/// Takes up to nine jobs of queue `q` for 1,000 ms.
pub fn take(owner: &str, now: Timestamp) -> TakeJobs {
    let queues = vec!["q".to_owned()];
    TakeJobs { queues, owner: owner.to_owned(), lease_ms: 1_000, limit: 9, now }
}
