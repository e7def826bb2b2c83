//! What every context store can do, and how it refuses.

use super::reference::Reference;
use super::size::MAX_DEPTH;
use super::write::WriteError;
use crate::ids::{CallId, ToolName};
use crate::json::Json;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of variables and outputs a store keeps when nothing else is configured.
pub const DEFAULT_CAP: usize = 256 * 1024;

/// Values kept apart from messages and named by [`Reference`]s.
///
/// | method | `var:` | `tool:`, `call:` | `sys:`, fields |
/// |---|---|---|---|
/// | [`set`](Self::set) | written | | |
/// | [`capture`](Self::capture) | | added | |
/// | [`begin_turn`](Self::begin_turn) | kept | dropped | kept |
/// | [`set_ambient`](Self::set_ambient) | | | replaced |
pub trait ContextStore: Send + Sync {
    /// The value, or `None` when there is none.
    fn get(&self, reference: &Reference) -> Option<Cow<'_, Value>>;

    /// Writes a variable, making objects on the way. A refused write changes nothing.
    /// Says when the turn's outputs had to make room for it.
    ///
    /// # Errors
    /// When the reference is read only or does not name one place, or the variables would become too large.
    fn set(&mut self, reference: &Reference, value: Value)
    -> Result<Option<Dropped>, ContextError>;

    /// Keeps the output of a finished call; calls are captured in call order. A call captured again replaces its output.
    /// Says when outputs had to be dropped.
    #[must_use = "the session should be told when outputs were dropped"]
    fn capture(&mut self, call: &CallId, tool: &ToolName, output: Json) -> Option<Dropped>;

    /// Drops the outputs of the turn; positions of later ones go on from theirs.
    fn drop_outputs(&mut self);

    /// What had to be dropped since this was last asked, by whatever write.
    fn take_dropped(&mut self) -> Option<Dropped>;

    /// A new user message begins: drops the outputs of the turn before.
    fn begin_turn(&mut self);

    /// Replaces what the host provides. Never part of a snapshot, since another person may resume the turn.
    fn set_ambient(&mut self, ambient: Ambient);

    /// The variables by name.
    fn vars(&self) -> &BTreeMap<String, Json>;
}

/// What the host knows of the turn: `sys:` values and the subject that field references look into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ambient {
    /// Values of `sys:`, for instance `userId`.
    pub sys: BTreeMap<String, Json>,
    /// The record, ticket or person the turn is about.
    pub subject: Option<Json>,
}

/// The turn's outputs were dropped; variables stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Outputs that went.
    pub outputs: usize,
    /// Why.
    pub cause: DropCause,
}

/// Why outputs were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// Variables and outputs took more bytes than may be kept.
    Size {
        /// Bytes they would have taken.
        bytes: usize,
        /// Bytes that may be kept.
        cap: usize,
    },
    /// An output was nested too deep to be stored.
    Depth,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outputs, cause } = self;
        write!(f, "{outputs} tool outputs can no longer be referred to in this turn: ")?;
        match cause {
            DropCause::Size { bytes, cap } => {
                write!(f, "the context took {bytes} bytes and may take {cap}")
            }
            DropCause::Depth => write!(f, "one was nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

/// A refused write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// Only variables can be written.
    #[error("`{0}` is read only; write to a variable, for instance `var:name`")]
    ReadOnly(Reference),
    /// The path does not lead to one place.
    #[error("`{reference}` cannot be written: {problem}")]
    Path {
        /// The reference.
        reference: Reference,
        /// The problem.
        problem: WriteError,
    },
    /// The variables would take too much room.
    #[error(
        "`{reference}` was not written: the variables would take {bytes} bytes of at most {cap}; store less, or overwrite large ones with null"
    )]
    TooLarge {
        /// The reference.
        reference: Reference,
        /// Bytes the variables would take.
        bytes: usize,
        /// Bytes they may take.
        cap: usize,
    },
    /// The value is nested too deep.
    #[error(
        "`{0}` was not stored: it would be nested deeper than {MAX_DEPTH} levels; flatten the value"
    )]
    TooDeep(String),
}

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotScope {
    /// The variables: what lives between turns.
    Vars,
    /// The outputs of the turn too: what a pause keeps.
    Turn,
}

/// A snapshot that was ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is not a snapshot of a context store.
    #[error("the stored context was ignored, since it is not a context snapshot: {0}")]
    Malformed(String),
    /// A newer program wrote it.
    #[error("the stored context was ignored: it has version {0}, and this program reads up to {max}; update the program", max = super::scratch::VERSION)]
    Version(u32),
}
