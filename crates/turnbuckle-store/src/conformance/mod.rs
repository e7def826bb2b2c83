//! What every store must do, as functions over any [`Store`](crate::Store), and a store that fails on purpose.
//!
//! [`store_conformance!`](crate::store_conformance) makes one test of each function. The functions panic where a store
//! breaks the contract.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test suite that lives in the library, so that every store's crate can run it"
)]

mod commits;
mod fault;
mod inbox;
mod leases;
mod sample;
mod sessions;

pub use commits::*;
pub use fault::{Effect, FaultStore, Op, disk_full, gone};
pub use inbox::*;
pub use leases::*;
pub use sample::*;
pub use sessions::*;

/// Makes a test of every function of the suite. The argument is an expression that makes a fresh store: a future of a pair of
/// `Arc<dyn Store>` and whatever must live as long as it (such as a temporary directory).
#[macro_export]
macro_rules! store_conformance {
    ($fresh:expr) => {
        $crate::store_conformance! { @each $fresh;
            everything_committed_is_loaded_again, every_kind_of_event_and_input_survives, a_known_message_is_replaced_in_place,
            events_are_read_without_gaps, a_gap_or_overlap_is_refused_and_nothing_written,
            a_commit_about_another_turn_is_refused, a_repeated_commit_gives_the_same_answer, journals_are_kept_per_turn,
            captured_actions_change_under_compare_and_set, blobs_are_read_by_range, a_long_session_loads_whole,
            a_claim_excludes_others_until_it_runs_out, a_fenced_owner_writes_nothing, renewing_needs_the_fence,
            releasing_waits_for_the_inbox, no_wake_up_is_lost_between_post_and_release, claimable_lists_what_needs_an_owner,
            forfeiting_frees_what_an_earlier_run_held,
            posted_inputs_wait_until_consumed, one_key_adds_one_input, a_key_cannot_stand_for_two_requests,
            a_key_raced_by_many_adds_one_input, of_two_decisions_one_wins, a_settled_card_takes_no_decision,
            an_answer_must_fit_its_card, cards_are_found_by_tenant_and_status, expired_cards_are_listed_until_answered,
            a_session_id_is_used_once, sessions_are_listed_last_updated_first, pages_neither_repeat_nor_skip,
            deleting_takes_everything, a_held_session_is_not_deleted, a_fork_copies_finished_turns,
            a_fork_ends_at_its_place, a_foreign_tenant_sees_nothing,
        }
    };
    (@each $fresh:expr; $($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (store, _alive) = $fresh.await;
                $crate::conformance::$name(store).await;
            }
        )*
    };
}
