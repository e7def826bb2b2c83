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
mod finding;
mod inbox;
mod jobs;
mod kept;
mod leases;
mod sample;
mod schedules;
mod sessions;
mod tasks;
mod whole;
mod work;

pub use commits::*;
pub use fault::{Effect, FaultStore, Op, disk_full, gone};
pub use finding::*;
pub use inbox::*;
pub use jobs::*;
pub use kept::*;
pub use leases::*;
pub use sample::*;
pub use schedules::*;
pub use sessions::*;
pub use tasks::*;
pub use whole::*;
pub use work::{JobsSubject, job, key as job_key, take};

/// Makes a test of every function of the suite. The argument is an expression that makes a fresh store: a future of a pair of
/// `Arc<dyn Store>` and whatever must live as long as it (such as a temporary directory), or of nothing when the store cannot be
/// tested here.
#[macro_export]
macro_rules! store_conformance {
    ($fresh:expr) => {
        $crate::store_conformance! { @each $fresh;
            everything_committed_is_loaded_again, every_kind_of_event_and_input_survives, a_known_message_is_replaced_in_place,
            events_are_read_without_gaps, a_gap_or_overlap_is_refused_and_nothing_written,
            a_commit_about_another_turn_is_refused, a_repeated_commit_gives_the_same_answer, journals_are_kept_per_turn,
            captured_actions_change_under_compare_and_set, blobs_are_read_by_range, a_long_session_loads_whole,
            a_claim_excludes_others_until_it_runs_out, a_fenced_owner_writes_nothing, renewing_needs_the_fence,
            releasing_waits_for_the_inbox, what_waits_for_the_end_of_a_pause_wakes_nobody, no_wake_up_is_lost_between_post_and_release, claimable_lists_what_needs_an_owner,
            forfeiting_frees_what_an_earlier_run_held,
            posted_inputs_wait_until_consumed, one_key_adds_one_input, a_key_cannot_stand_for_two_requests,
            a_key_raced_by_many_adds_one_input, of_two_decisions_one_wins, a_settled_card_takes_no_decision,
            an_answer_must_fit_its_card, cards_are_found_by_tenant_and_status, expired_cards_are_listed_until_answered,
            a_session_id_is_used_once, sessions_are_listed_last_updated_first, pages_neither_repeat_nor_skip,
            deleting_takes_everything, a_held_session_is_not_deleted, a_fork_copies_finished_turns,
            a_fork_ends_at_its_place, a_fork_ends_behind_a_step, a_foreign_tenant_sees_nothing,
            a_title_given_by_a_person_stays, a_model_chosen_meanwhile_stays, allowances_belong_to_a_person,
            sessions_are_found_by_what_was_said, sessions_are_narrowed_by_agent_and_status,
            captured_actions_are_listed_over_sessions, usage_counts_every_call_once, usage_is_the_same_elsewhere, tenants_are_listed,
            a_fork_and_what_it_came_from_are_taken_along,
            a_parked_session_waits_for_somebody, a_view_shows_what_a_reader_needs,
            an_exported_session_is_the_same_elsewhere, an_incoherent_export_is_refused,
        }
    };
    (@each $fresh:expr; $($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some((store, _alive)) = $fresh.await {
                    $crate::conformance::$name(store).await;
                }
            }
        )*
    };
}

/// Makes a test of every function of the suite of [`Jobs`](crate::Jobs). The argument is as for
/// [`store_conformance!`](crate::store_conformance), but with a store of its own type, which keeps both contracts.
#[macro_export]
macro_rules! jobs_conformance {
    ($fresh:expr) => {
        $crate::jobs_conformance! { @each $fresh; alone:
            a_job_is_done_once, a_job_of_a_schedule_is_made_by_hand, jobs_come_when_they_are_due, a_failing_job_becomes_a_dead_letter,
            a_lost_worker_is_fenced_off, one_key_adds_one_job, no_job_is_taken_twice,
            jobs_are_called_off_and_deleted, jobs_are_listed_and_counted, a_foreign_tenant_sees_no_job,
            a_job_is_the_same_elsewhere, tenants_with_work_are_listed,
            a_schedule_is_kept, a_due_schedule_makes_its_job, a_moment_makes_one_job_over_all_replicas,
            a_changed_schedule_is_planned_anew, schedules_are_listed,
            ; beside sessions:
            a_started_task_is_recorded, an_idle_session_is_told_once, of_many_who_tell_one_does,
            tasks_go_with_their_session,
        }
    };
    (@each $fresh:expr; alone: $($alone:ident),* $(,)?; beside sessions: $($beside:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $alone() {
                if let Some((store, _alive)) = $fresh.await {
                    $crate::conformance::$alone(std::sync::Arc::new(store)).await;
                }
            }
        )*
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $beside() {
                if let Some((store, _alive)) = $fresh.await {
                    let sessions = std::sync::Arc::new(store.clone());
                    $crate::conformance::$beside(sessions, std::sync::Arc::new(store)).await;
                }
            }
        )*
    };
}
