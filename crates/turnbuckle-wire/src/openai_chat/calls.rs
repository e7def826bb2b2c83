//! Which tool call a streamed piece belongs to.
//!
//! Servers disagree about how calls are told apart, so position alone decides nothing:
//! - A piece with an id belongs to the call of that id (and index, when both give one). A new id with a name opens a new
//!   call, even under an index that was used before. An id that comes late, without a name, joins the call of its index.
//! - A piece without an id belongs to the latest call of its index; without an index too, to the latest call.
//! - A piece with a name opens a new call when the call it would continue is finished: its arguments are a complete
//!   object, or it was given whole, or the same frame already spoke of it.
//! - A name in pieces is joined; a name given again is not. Nothing is ever dropped: a piece that fits no call opens one.

use super::chunk::CallDelta;
use crate::answer::{Answer, Sink};
use crate::scan::Scan;
use turnbuckle_core::model::Block;

#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<OpenCall>,
    /// Calls up to this one have been announced.
    announced: usize,
    frame: u64,
}

/// Whether an entry is a piece of a call or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Piece,
    Whole,
}

#[derive(Debug)]
struct OpenCall {
    block: usize,
    index: Option<u64>,
    /// Whether its first piece had arguments, even empty ones.
    began_with_arguments: bool,
    scan: Scan,
    frame: u64,
    extra: Option<serde_json::Value>,
}

impl Calls {
    /// Marks the beginning of a frame.
    pub fn begin_frame(&mut self) {
        self.frame += 1;
    }

    /// Announces calls whose name is complete because something else follows.
    #[inline]
    pub fn settle(&mut self, answer: &Answer, sink: &mut Sink<'_>) {
        while let Some(call) = self.open.get(self.announced) {
            self.announced += 1;
            answer.announce(call.block, sink);
        }
    }

    /// The payloads of calls, by block.
    pub fn extras(&self) -> impl Iterator<Item = (usize, &serde_json::Value)> {
        self.open.iter().filter_map(|c| c.extra.as_ref().map(|e| (c.block, e)))
    }

    /// Takes one piece.
    pub fn piece(
        &mut self,
        piece: &CallDelta<'_>,
        shape: Shape,
        answer: &mut Answer,
        sink: &mut Sink<'_>,
    ) {
        let id = piece.id.filled();
        let (name, arguments) = match &piece.function {
            Some(f) => (f.name.filled(), f.arguments.0.as_deref()),
            None => (None, None),
        };
        let bare = id.is_none() && name.is_none() && piece.extra_content.is_none();
        if let (true, true, Some(arguments), Some(last)) =
            (bare, self.announced == self.open.len(), arguments, self.open.last_mut())
            && last.index == piece.index.0
            && shape == Shape::Piece
        {
            // Nearly every piece is more of the latest call.
            last.frame = self.frame;
            answer.append_arguments(last.block, arguments, sink);
            return;
        }
        if id.is_none() && name.is_none() && arguments.is_none_or(str::is_empty) {
            // A bare piece, as the closing frames of some servers hold, says nothing.
            if let (Some(extra), Some(last)) = (piece.extra_content, self.open.last_mut()) {
                last.extra = serde_json::from_str(extra.get()).ok();
            }
            return;
        }
        let at = match shape {
            Shape::Whole => None,
            Shape::Piece => self
                .find(id, piece.index.0, name.is_some(), answer)
                .filter(|at| !self.begins_anew(*at, piece, name, arguments, answer)),
        };
        let at = match at {
            Some(at) => at,
            None => {
                self.settle(answer, sink);
                let block = answer.open(Block::ToolCall {
                    wire_id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    native: None,
                });
                self.open.push(OpenCall {
                    block,
                    index: piece.index.0,
                    began_with_arguments: arguments.is_some(),
                    scan: Scan::default(),
                    frame: 0,
                    extra: None,
                });
                self.open.len() - 1
            }
        };
        self.extend(at, piece, (id, name, arguments), answer, sink);
    }

    fn extend(
        &mut self,
        at: usize,
        piece: &CallDelta<'_>,
        (id, name, arguments): (Option<&str>, Option<&str>, Option<&str>),
        answer: &mut Answer,
        sink: &mut Sink<'_>,
    ) {
        let announced = at < self.announced;
        let Some(call) = self.open.get_mut(at) else { return };
        call.frame = self.frame;
        call.index = call.index.or(piece.index.0);
        if let Some(extra) = piece.extra_content {
            call.extra = serde_json::from_str(extra.get()).ok().or(call.extra.take());
        }
        let block = call.block;
        if let Some(Block::ToolCall { wire_id, name: known, .. }) = answer.blocks.get_mut(block) {
            if let (true, Some(id)) = (wire_id.is_empty(), id) {
                wire_id.push_str(id);
            }
            match name {
                Some(name) if !announced && known != name => known.push_str(name),
                _ => {}
            }
        }
        if let Some(arguments) = arguments.filter(|a| !a.is_empty()) {
            self.settle(answer, sink);
            answer.append_arguments(block, arguments, sink);
        }
    }

    fn find(
        &self,
        id: Option<&str>,
        index: Option<u64>,
        named: bool,
        answer: &Answer,
    ) -> Option<usize> {
        let last = || self.open.len().checked_sub(1);
        let latest = |fits: &dyn Fn(&OpenCall, &str) -> bool| {
            self.open.iter().rposition(|c| match answer.blocks.get(c.block) {
                Some(Block::ToolCall { wire_id, .. }) => fits(c, wire_id),
                _ => false,
            })
        };
        match (id, index) {
            (Some(id), Some(index)) => {
                let exact = latest(&|c, known| known == id && c.index.is_none_or(|i| i == index));
                if named {
                    return exact;
                }
                exact.or_else(|| latest(&|c, known| known == id || c.index == Some(index)))
            }
            (Some(id), None) => {
                let exact = latest(&|_, known| known == id);
                if named { exact } else { exact.or_else(last) }
            }
            (None, Some(index)) => {
                let exact = latest(&|c, _| c.index == Some(index));
                if named { exact } else { exact.or_else(last) }
            }
            (None, None) => last(),
        }
    }

    /// Whether a piece with a name begins a call of its own instead of continuing the call `at`.
    fn begins_anew(
        &mut self,
        at: usize,
        piece: &CallDelta<'_>,
        name: Option<&str>,
        arguments: Option<&str>,
        answer: &Answer,
    ) -> bool {
        let (Some(name), Some(call)) = (name, self.open.get_mut(at)) else { return false };
        let Some(Block::ToolCall { name: known, arguments: so_far, .. }) =
            answer.blocks.get(call.block)
        else {
            return false;
        };
        let has_id = piece.id.filled().is_some();
        let brings = arguments.is_some_and(|a| !a.trim_ascii().is_empty());
        if so_far.is_empty() {
            let spoken_of = call.frame == self.frame;
            return !has_id && (spoken_of || (known != name && call.began_with_arguments));
        }
        let complete = call.scan.is_complete(so_far.as_bytes());
        if has_id {
            return complete && brings;
        }
        // The same name once more is a repetition where an index says so, and a second call where nothing does.
        known != name || (complete && (brings || piece.index.0.is_none()))
    }
}
