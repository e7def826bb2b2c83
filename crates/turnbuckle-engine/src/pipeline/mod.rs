//! A tool call, step by step. Each step is a module of its own; the order is fixed.
//!
//! | step | module | [`prepare()`] | [`execute()`] |
//! |---|---|---|---|
//! | parse | `turnbuckle_core::arguments` | before it, in the machine | |
//! | amend | [`amend`] | after an approval | |
//! | transform | [`hooks`] | on the first check | |
//! | bind | [`bind`] | always | |
//! | validate | [`validate`] | always | |
//! | permission | [`permission`], [`policy`], [`allowances`] | the first time; later only what is denied | |
//! | cache | the machine | | before it |
//! | execute, or predict | [`run`], [`mint`] | | always |
//! | cap the output | [`cap`] | | on success |
//! | digest | [`digest`] | | on success |
//! | capture into the context | [`capture`] | | on success |
//! | hooks | [`hooks`] | | on success |
//! | stamp the part | the machine | | after it |
//!
//! A call that ran elsewhere, in the caller's front end or as a nested turn, joins after the step that executes: [`settle()`].
//!
//! What to repeat, to cache, to capture or to ask is the machine's to decide; the pipeline does what a step means for one
//! call. Nothing a tool, a hook or a rule does escapes it: panics, hangs and oversized outputs become results.

pub mod allowances;
pub mod amend;
pub mod bind;
pub mod cap;
pub mod capture;
pub mod digest;
pub mod env;
pub mod execute;
pub mod hooks;
pub mod mint;
pub mod permission;
pub mod policy;
pub mod prepare;
pub mod run;
pub mod validate;

pub use allowances::Allowances;
pub use cap::{Blob, kept_reference};
pub use env::{PipelineEnv, PipelineLimits, Taints};
pub use execute::{Executed, execute, settle};
pub use hooks::{HookCall, Hooks, NoHooks, Transformed};
pub use policy::{Policy, PolicyDecision, Rule};
pub use prepare::prepare;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
