//! Batching of streamed deltas: 50 characters or 50 ms, text, thinking and arguments apart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use turnbuckle_core::model::{Block, ModelDelta};
use turnbuckle_models::DeltaSink;

/// A batch goes out when it has so many bytes.
const BATCH_BYTES: usize = 50;
/// A batch waits no longer than this since the last one.
pub(crate) const BATCH_TIME: Duration = Duration::from_millis(50);
/// A delta that comes this long after the last batch takes what waits along. In a steady stream the alarm for
/// [`BATCH_TIME`] is then always put off before it rings.
pub(crate) const BATCH_EARLY: Duration = Duration::from_millis(40);

/// What kind of delta a piece is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Text,
    Thinking,
    Start { wire_id: String, name: String },
    Arguments,
}

/// Deltas of one block that become one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) block: usize,
    pub(crate) kind: PieceKind,
    pub(crate) text: String,
}

impl Piece {
    pub(crate) fn as_delta(&self) -> ModelDelta<'_> {
        let (block, text) = (self.block, self.text.as_str());
        match &self.kind {
            PieceKind::Text => ModelDelta::Text { block, text },
            PieceKind::Thinking => ModelDelta::Thinking { block, text },
            PieceKind::Start { wire_id, name } => ModelDelta::CallStart { block, wire_id, name },
            PieceKind::Arguments => ModelDelta::CallArguments { block, text },
        }
    }

    /// Adds the piece to the blocks that arrived so far.
    pub(crate) fn add_to(&self, blocks: &mut Vec<Block>) {
        while blocks.len() <= self.block {
            blocks.push(match &self.kind {
                PieceKind::Text => Block::Text { text: String::new(), native: None },
                PieceKind::Thinking => Block::Thinking { text: String::new(), native: None },
                PieceKind::Start { .. } | PieceKind::Arguments => Block::ToolCall {
                    wire_id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    native: None,
                },
            });
        }
        match (blocks.get_mut(self.block), &self.kind) {
            (
                Some(Block::ToolCall { wire_id, name, .. }),
                PieceKind::Start { wire_id: id, name: n },
            ) => {
                wire_id.clone_from(id);
                name.clone_from(n);
            }
            (Some(Block::ToolCall { arguments, .. }), PieceKind::Arguments) => {
                arguments.push_str(&self.text);
            }
            (Some(Block::Text { text, .. } | Block::Thinking { text, .. }), _) => {
                text.push_str(&self.text);
            }
            _ => {}
        }
    }
}

/// Takes deltas from a model call and gives them out in batches. The call and the driver run in one task, so the lock is never
/// contended.
#[derive(Clone, Default)]
pub(crate) struct DeltaBuffer(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    ready: Vec<Piece>,
    open: Option<Piece>,
    last: Option<Instant>,
    begun: bool,
}

impl DeltaBuffer {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call begins.
    pub(crate) fn begin(&self) {
        self.lock().begun = true;
    }

    /// Whether the call has begun, so that it costs something whatever becomes of it.
    pub(crate) fn has_begun(&self) -> bool {
        self.lock().begun
    }

    /// Moves out what is due. What is not, is due when [`BATCH_TIME`] has passed since the moment returned.
    pub(crate) fn take_due(&self, into: &mut Vec<Piece>) -> Option<Instant> {
        let mut inner = self.lock();
        if inner.open.is_none() && inner.ready.is_empty() {
            return None;
        }
        let now = Instant::now();
        if inner.last.is_none_or(|last| now >= last + BATCH_EARLY) {
            let open = inner.open.take();
            inner.ready.extend(open);
        }
        if !inner.ready.is_empty() {
            inner.last = Some(now);
            if into.is_empty() {
                // The room goes along: what waits for the next piece holds none.
                *into = std::mem::take(&mut inner.ready);
            } else {
                into.append(&mut inner.ready);
            }
        }
        inner.open.as_ref().map(|_| inner.last.unwrap_or(now))
    }

    /// Moves out everything: the answer is complete.
    pub(crate) fn take_all(&self, into: &mut Vec<Piece>) {
        let mut inner = self.lock();
        into.append(&mut inner.ready);
        into.extend(inner.open.take());
    }
}

impl DeltaSink for DeltaBuffer {
    fn delta(&mut self, delta: ModelDelta<'_>) {
        let mut inner = self.lock();
        let (block, kind, text) = match delta {
            ModelDelta::Text { block, text } => (block, PieceKind::Text, text),
            ModelDelta::Thinking { block, text } => (block, PieceKind::Thinking, text),
            ModelDelta::CallArguments { block, text } => (block, PieceKind::Arguments, text),
            ModelDelta::CallStart { block, wire_id, name } => {
                let open = inner.open.take();
                inner.ready.extend(open);
                let kind = PieceKind::Start { wire_id: wire_id.to_owned(), name: name.to_owned() };
                inner.ready.push(Piece { block, kind, text: String::new() });
                return;
            }
        };
        if text.is_empty() {
            return;
        }
        let full = match &mut inner.open {
            Some(open) if open.block == block && open.kind == kind => {
                open.text.push_str(text);
                open.text.len() >= BATCH_BYTES
            }
            open => {
                let mut piece =
                    Piece { block, kind, text: String::with_capacity(BATCH_BYTES + text.len()) };
                piece.text.push_str(text);
                let full = piece.text.len() >= BATCH_BYTES;
                let before = open.replace(piece);
                inner.ready.extend(before);
                full
            }
        };
        if full {
            let open = inner.open.take();
            inner.ready.extend(open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_delta_goes_out_at_once_and_the_next_ones_wait_for_fifty_bytes() {
        let mut buffer = DeltaBuffer::default();
        buffer.delta(ModelDelta::Text { block: 0, text: "Hello" });
        let mut out = Vec::new();
        assert!(buffer.take_due(&mut out).is_none());
        assert_eq!(out.len(), 1);
        for _ in 0..9 {
            buffer.delta(ModelDelta::Text { block: 0, text: " there" });
        }
        out.clear();
        buffer.take_due(&mut out);
        assert_eq!(out.iter().map(|p| p.text.len()).collect::<Vec<_>>(), [54]);
    }

    #[test]
    fn kinds_and_blocks_are_never_mixed_and_the_last_one_is_not_held_back() {
        let mut buffer = DeltaBuffer::default();
        buffer.delta(ModelDelta::Thinking { block: 0, text: "a" });
        buffer.delta(ModelDelta::Text { block: 1, text: "b" });
        buffer.delta(ModelDelta::CallStart { block: 2, wire_id: "w", name: "n" });
        buffer.delta(ModelDelta::CallArguments { block: 2, text: "{" });
        buffer.delta(ModelDelta::CallArguments { block: 2, text: "}" });
        let mut out = Vec::new();
        buffer.take_all(&mut out);
        let seen: Vec<_> = out.iter().map(|p| (p.block, p.text.as_str())).collect();
        assert_eq!(seen, [(0, "a"), (1, "b"), (2, ""), (2, "{}")]);
    }
}
