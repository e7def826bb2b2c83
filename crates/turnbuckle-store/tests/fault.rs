//! A store that fails on purpose fails exactly where it was told to, and a retry mends what was lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use turnbuckle_store::conformance::{
    Effect, FaultStore, Op, Owner, Subject, at, disk_full, everything, gone, key, message,
    new_session,
};
use turnbuckle_store::{MemoryStore, Store, StoreError};

#[tokio::test]
async fn the_chosen_call_fails_before_or_after_it_took_effect() {
    for (effect, messages) in [(Effect::None, 0), (Effect::Done, 1)] {
        let faults = FaultStore::new(MemoryStore::new());
        let store: Subject = Arc::new(faults.clone());
        let mut owner = Owner::of_new(&store, &key("s")).await;
        faults.fail(Op::Commit, 0, 1, effect, gone());
        let open = owner.open("t");
        let error = store.commit(open.clone()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }) && error.retryable());
        assert_eq!(store.load(&key("s")).await.unwrap().messages.len(), messages);
        owner.write(open).await;
        assert_eq!(store.load(&key("s")).await.unwrap().messages.len(), 1);
        let calls = [Op::CreateSession, Op::Claim, Op::Commit, Op::Load, Op::Commit, Op::Load];
        assert_eq!(faults.calls(), calls);
    }
}

/// The same work, with each call of it failing once and tried again, ends in the same place.
#[tokio::test]
async fn work_that_repeats_a_failed_call_ends_the_same() {
    async fn again<T, F: Future<Output = Result<T, StoreError>>>(mut call: impl FnMut() -> F) -> T {
        match call().await {
            Ok(value) => value,
            Err(_) => call().await.unwrap(),
        }
    }
    async fn work(store: &Subject) -> String {
        let key = key("s");
        let mut owner = Owner::of_new(store, &key).await;
        let open = owner.open("t");
        again(|| store.commit(open.clone())).await;
        let receipt = again(|| store.post(message(&key, "next", "Hi", Some("k")))).await;
        let mut finish = owner.finish("t");
        finish.consumed.push(receipt.item().n);
        again(|| store.commit(finish.clone())).await;
        everything(store, &key).await
    }
    let expected = work(&(Arc::new(MemoryStore::new()) as Subject)).await;
    // Calls 0 and 1 create and claim; what follows up to 4 is retried.
    for call in 2..5 {
        for effect in [Effect::None, Effect::Done] {
            let faults = FaultStore::new(MemoryStore::new());
            faults.fail_calls(call, 1, effect, disk_full());
            let store: Subject = Arc::new(faults.clone());
            assert_eq!(work(&store).await, expected, "call {call}, {effect:?}");
        }
    }
}

#[tokio::test]
async fn a_healed_store_works_again() {
    let faults = FaultStore::new(MemoryStore::new());
    faults.fail_calls(0, usize::MAX, Effect::None, disk_full());
    let new = || new_session(&key("s"), at(0));
    let error = faults.create_session(new()).await.unwrap_err();
    assert_eq!(
        error.report(),
        "the store is full: no space left on device (free space on the disk that holds the database; nothing stored is lost)"
    );
    faults.heal();
    faults.create_session(new()).await.unwrap();
    assert_eq!(faults.inner().session(&key("s")).await.unwrap().version, 0);
}
