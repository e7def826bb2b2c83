//! The context store: what a session or a workflow run knows besides its messages, and how it is referred to.
//!
//! A [`Reference`] names one value. It is parsed once into a kind, a root and a [`Path`]:
//!
//! | written | kind | means | lives |
//! |---|---|---|---|
//! | `var:cart.total` | [`RefKind::Var`] | scratch; the only kind that can be written | across turns |
//! | `tool:search.items` | [`RefKind::Tool`], [`Calls::Latest`] | in the output of the latest call of `search` | one turn |
//! | `tool:search[]`, `tool:search[*].id` | [`Calls::All`] | the outputs of all its calls, in call order | one turn |
//! | `tool:search[0]`, `tool:search[-2]` | [`Calls::At`] | the output of one of them, counted from either end | one turn |
//! | `call:t1-3.id` | [`RefKind::Call`] | in the output of one call, by its id | one turn |
//! | `sys:userId` | [`RefKind::Sys`] | set by the host; read only | as the host sets it |
//! | `contact.email` | [`RefKind::Field`] | a field of the subject; read only | as the host sets it |
//!
//! A path is a row of steps, and [`walk`] is the only code that follows them:
//!
//! | step | on an array | on an object |
//! |---|---|---|
//! | `.name`, `["any name"]` | nothing | the property |
//! | `.0` | the element | the property `0` |
//! | `[0]`, `[-1]` | the element, counted from either end | nothing |
//! | `[*]` | the rest of the path for each element that has it; the array itself when last | nothing |
//! | `.first`, `.last` | the element at that end | the property of that name |
//!
//! A value that is not there is `None`: never an error, never null.
//!
//! Two stores implement [`ContextStore`] and pass the same tests: [`SessionContext`] and [`WorkflowContext`].
//! A pause keeps everything; a new user message ([`ContextStore::begin_turn`]) drops the outputs and keeps `var:`.
//! Outputs and variables share one budget in bytes. Beyond it the turn's outputs go, and whoever wrote is told ([`Dropped`]).
//! Positions keep their meaning: after a drop `tool:x[0]` is nothing rather than a later call, and `tool:x[]` is nothing
//! rather than a part of the calls, so that whatever restricts by them fails closed.
//!
//! [`bind`] applies the wiring of a tool's arguments to references; [`interpolate`] puts values into text.

mod bind;
mod interpolate;
mod outputs;
mod path;
mod reference;
mod scratch;
mod session;
mod size;
mod store;
#[cfg(test)]
mod store_tests;
mod syntax;
mod workflow;
mod write;

pub use bind::{BindError, BindMode, BindSource, InputBinding, bind, effective, project_schema};
pub use interpolate::interpolate;
pub use path::{Path, Segment, walk};
pub use reference::{Calls, RefKind, Reference};
pub use session::SessionContext;
pub use store::{
    Ambient, ContextError, ContextStore, DEFAULT_CAP, DropCause, Dropped, RestoreError,
    SnapshotScope,
};
pub use syntax::{ReferenceError, ReferenceProblem};
pub use workflow::WorkflowContext;
pub use write::WriteError;
