//! The tools: typed arguments and results of the [`Desk`](crate::Desk), with what people see of them.
//!
//! Every call runs for the session's member, with the rights they hold at that moment. Writes carry
//! the call's idempotency key, so that a call that was cut off can be made again.

mod approved;
mod digest;
mod directory;
mod forgive;
mod knowledge;
mod mail;
mod mail_writes;
mod notes;
mod orders;
mod plan;
mod replies;
mod tasks;

pub(crate) use directory::{list_groups, list_members};
pub(crate) use knowledge::{get_article, search_knowledge};
pub(crate) use mail::{find_threads, get_thread, list_drafts, list_tags};
pub(crate) use mail_writes::{reply_to_thread, start_conversation, update_thread};
pub(crate) use notes::{create_note, list_notes};
pub(crate) use orders::{find_orders, get_order, refund_order};
pub(crate) use plan::{plan_create, plan_update_step};
pub(crate) use replies::suggest_replies;
pub(crate) use tasks::{complete_task, create_task, list_tasks};
