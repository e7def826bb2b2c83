//! The in-memory store keeps the contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use turnbuckle_store::{MemoryStore, Store};

async fn fresh() -> (Arc<dyn Store>, ()) {
    (Arc::new(MemoryStore::new()), ())
}

turnbuckle_store::store_conformance!(fresh());
