//! Small projections for people. They are pure and best effort: one that panics or grows is left out.

use super::cap::fits;
use crate::tool::Tool;
use crate::tool::eventual::guarded;
use serde_json::Value;
use turnbuckle_core::json::Json;

/// Bytes a projection may take.
const MAX: usize = 16 * 1024;

/// The projection of the arguments for a card.
pub(super) fn digest_args(tool: &dyn Tool, args: &Value) -> Option<Json> {
    small(guarded(|| tool.digest_args(args)).ok().flatten())
}

/// The projection of an output: the one the execution gave, else the tool's.
pub(super) fn digest(tool: &dyn Tool, given: Option<Value>, output: &Value) -> Option<Json> {
    small(given.or_else(|| guarded(|| tool.digest(output)).ok().flatten()))
}

/// What stays of an output on later turns: what the execution gave, else what the tool says.
pub(super) fn summary(tool: &dyn Tool, given: Option<String>, output: &Value) -> Option<String> {
    given.or_else(|| guarded(|| tool.summary(output)).ok().flatten())
}

fn small(digest: Option<Value>) -> Option<Json> {
    digest.filter(|d| fits(d, MAX)).map(Json::from)
}
