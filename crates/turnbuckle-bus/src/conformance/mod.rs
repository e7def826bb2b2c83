//! What every bus must do, as functions over any [`Bus`](crate::Bus).
//!
//! [`bus_conformance!`](crate::bus_conformance) makes one test of each function. The functions panic where a bus breaks the
//! contract. Each gets two buses: two processes of one service, as it were. For a bus within one process they are the same.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test suite that lives in the library, so that every bus's crate can run it"
)]

mod listening;
mod sample;

pub use listening::*;
pub use sample::*;

/// Makes a test of every function of the suite. The argument is an expression that makes a fresh service: a future of a
/// [`Pair`](crate::conformance::Pair), or of nothing when it cannot be tested here.
#[macro_export]
macro_rules! bus_conformance {
    ($fresh:expr) => {
        $crate::bus_conformance! { @each $fresh;
            what_is_told_is_heard_in_order, every_watcher_hears_and_no_stranger, events_arrive_whole,
            who_stopped_watching_is_forgotten, a_watcher_that_never_reads_lags, commits_are_summed_up,
            every_worker_hears_every_call, a_closed_bus_ends_every_stream, large_events_arrive_or_are_missed,
            a_bus_at_work_says_so, many_sessions_do_not_mix,
        }
    };
    (@each $fresh:expr; $($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let pair: Option<$crate::conformance::Pair> = $fresh.await;
                if let Some(pair) = pair {
                    $crate::conformance::$name(pair).await;
                }
            }
        )*
    };
}
