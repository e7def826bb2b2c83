//! What the tests are made of.
//!
//! | module | holds |
//! |---|---|
//! | `agents` | what runs in the processes: an agent whose tools report to the test |
//! | `world` | the test's end of that: counts, and holds calls back |
//! | `model` | the fake model, which follows the script in the user's message |
//! | `database` | a store of a test's own, in a file or in Postgres; a Postgres and a Redis of a test's own |
//! | `process` | processes: started, signalled, waited for |
//! | `site` | all of these together |
//! | `api` | the HTTP client |

mod agents;
mod api;
mod database;
mod model;
mod process;
mod site;
mod world;

pub use api::{Api, Frame, Session, Sse};
pub use database::{Cluster, Database, Redis, skip};
pub use model::{Model, Script};
pub use process::{Process, Signal, allow_many_files, run};
pub use site::{Settings, Site};
pub use world::World;

use std::future::Future;
use std::time::{Duration, Instant};

/// The lease of sessions in the tests.
pub const LEASE: Duration = Duration::from_millis(1_500);
/// What a takeover may take beside the lease.
pub const TAKEOVER: Duration = Duration::from_secs(1);
/// How long something that must come may take on a busy machine, before it is called a hang.
pub const HANG: Duration = Duration::from_secs(60);

/// Waits for something that must come.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: this did not come within {HANG:?}"),
    }
}

/// Asks again and again until there is an answer. For what nobody tells by itself, such as a probe.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    loop {
        ticks.tick().await;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < HANG, "{what}: this did not come within {HANG:?}");
    }
}

/// A test on a file and on Postgres.
macro_rules! on_both {
    ($name:ident) => {
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(crate::support::Database::file()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(database) = crate::support::Database::postgres().await {
                    super::$name(database).await;
                }
            }
        }
    };
}

pub(crate) use on_both;
