//! Batching of streamed deltas: 50 characters or 50 ms, text, thinking and arguments apart.
//!
//! A model that speaks at its usual pace fills a batch with two to ten pieces of the network, and each of them would wake the
//! turn, which costs more than everything else that is done with a piece. So once an answer has shown a steady pace, the
//! network is read when the next batch is due and not before: what nobody would be shown yet is left in the kernel. The end
//! of such an answer is noticed up to one batch later; short answers, calls, and answers that come faster than they are
//! batched are read as they come.

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

/// Batches of several pieces each that make a steady pace.
const STEADY: u8 = 4;
/// A pace at which batches are full sooner than this is not waited for: it leaves no time for several pieces.
const SHORTEST: Duration = Duration::from_millis(25);

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
    pace: Pace,
}

/// How the pieces of an answer come.
#[derive(Default)]
struct Pace {
    /// Rises with each batch of several pieces; from [`STEADY`] on the network is read once per batch.
    steady: u8,
    /// Reads that brought something since the last batch.
    reads: u8,
    /// Of the network.
    state: Reading,
    /// From when on the next batch is due, as time since the last one; absent for [`BATCH_EARLY`]. Where batches are full
    /// before that, it is so long before they will be.
    early: Option<Duration>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Reading {
    /// Between two reads.
    #[default]
    No,
    /// It is being read, and has brought nothing so far.
    Waits,
    /// It is left alone until the next batch is due.
    Held,
}

impl Pace {
    fn is_steady(&self) -> bool {
        self.steady >= STEADY
    }

    /// Whether the network is to be read. At a steady pace that is when the next batch is due, and what was read is handed
    /// out first.
    fn reads(&mut self, last: Option<Instant>) -> bool {
        if self.is_steady() {
            if self.reads > 0 || !self.is_due(last) {
                self.state = Reading::Held;
                return false;
            }
            if self.state == Reading::Waits {
                // It was read in vain: leaving it alone has saved nothing.
                self.slower();
            }
        }
        self.state = Reading::Waits;
        true
    }

    fn early(&self) -> Duration {
        self.early.unwrap_or(BATCH_EARLY)
    }

    fn is_due(&self, last: Option<Instant>) -> bool {
        last.is_none_or(|last| Instant::now() >= last + self.early())
    }

    fn came(&mut self) {
        if std::mem::take(&mut self.state) == Reading::Waits {
            self.reads = self.reads.saturating_add(1);
        }
    }

    /// A batch goes out: because it was time, or because it was full.
    fn batch(&mut self, batch: &Batch) {
        let reads = std::mem::take(&mut self.reads);
        let several = reads > 1 || self.is_steady();
        let full = batch.until_full();
        self.early = full
            .filter(|full| *full < BATCH_TIME)
            .map(|full| full.saturating_sub(BATCH_TIME - BATCH_EARLY));
        if full.is_some_and(|full| full < SHORTEST || !several) {
            self.steady = 0;
        } else if several {
            self.steady = self.steady.saturating_add(1).min(2 * STEADY);
        } else {
            self.slower();
        }
    }

    fn slower(&mut self) {
        self.steady = self.steady.saturating_sub(2);
    }
}

/// What went out together.
struct Batch {
    /// Whether a piece of it was full.
    is_full: bool,
    bytes: usize,
    /// Since the last one.
    took: Duration,
}

impl Batch {
    /// How long a batch takes to be full at this pace, when it was. A little more, since pieces come whole: a look a moment too
    /// soon would be one in vain.
    fn until_full(&self) -> Option<Duration> {
        let bytes = u32::try_from(self.bytes).ok().filter(|bytes| self.is_full && *bytes > 0)?;
        Some(self.took * (BATCH_BYTES + BATCH_BYTES / 8) as u32 / bytes)
    }
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

    /// Whether the network is left alone until the next batch is due.
    pub(crate) fn is_held(&self) -> bool {
        let inner = self.lock();
        inner.pace.state == Reading::Held && !inner.pace.is_due(inner.last)
    }

    /// Moves out what is due. The next look is due when [`BATCH_TIME`] has passed since the moment returned.
    pub(crate) fn take_due(&self, into: &mut Vec<Piece>) -> Option<Instant> {
        let mut inner = self.lock();
        if inner.open.is_none() && inner.ready.is_empty() {
            // So that the look is due when the batch is.
            let sooner = BATCH_EARLY - inner.pace.early().min(BATCH_EARLY);
            let held = inner.last.filter(|_| inner.pace.state == Reading::Held);
            return held.map(|last| last.checked_sub(sooner).unwrap_or(last));
        }
        let now = Instant::now();
        let is_full = !inner.ready.is_empty();
        let texts = inner.ready.iter().chain(&inner.open);
        let bytes = texts.map(|piece| piece.text.len()).sum();
        if inner.last.is_none_or(|last| now >= last + BATCH_EARLY)
            && let Some(open) = inner.open.take()
        {
            // Mostly it is the only one.
            inner.ready.reserve_exact(1);
            inner.ready.push(open);
        }
        if !inner.ready.is_empty() {
            let took = inner.last.map_or(Duration::ZERO, |last| now - last);
            inner.last = Some(now);
            inner.pace.batch(&Batch { is_full, bytes, took });
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
    fn is_ready(&mut self) -> bool {
        let mut inner = self.lock();
        let last = inner.last;
        inner.pace.reads(last)
    }

    fn delta(&mut self, delta: ModelDelta<'_>) {
        let mut inner = self.lock();
        let (block, kind, text) = match delta {
            ModelDelta::Text { block, text } => (block, PieceKind::Text, text),
            ModelDelta::Thinking { block, text } => (block, PieceKind::Thinking, text),
            ModelDelta::CallArguments { block, text } => (block, PieceKind::Arguments, text),
            ModelDelta::CallStart { block, wire_id, name } => {
                inner.pace.came();
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
        inner.pace.came();
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

    /// What became of an answer whose pieces came at these moments.
    struct Told {
        /// How often the turn was woken.
        wakes: usize,
        /// The longest that a piece lay before it went out, in ms.
        longest: u64,
        text: String,
    }

    /// Plays a turn that waits for an answer: it is woken by the network while it reads, and by the alarm.
    async fn play(pieces: &[(u64, &str)]) -> Told {
        let begin = Instant::now();
        let mut buffer = DeltaBuffer::default();
        let mut told = Told { wakes: 0, longest: 0, text: String::new() };
        let mut came = std::collections::VecDeque::new();
        let mut lies: Vec<u64> = Vec::new();
        let mut coming = pieces.iter().peekable();
        let (mut waits, mut alarm) = (true, None);
        for ms in 0.. {
            tokio::time::advance(begin + Duration::from_millis(ms) - Instant::now()).await;
            while let Some((_, text)) = coming.next_if(|(at, _)| *at <= ms) {
                came.push_back(*text);
                lies.push(ms);
            }
            if coming.peek().is_none() && lies.is_empty() {
                return told;
            }
            let woken = waits && !came.is_empty() || alarm.is_some_and(|at| Instant::now() >= at);
            if !woken {
                assert!(ms < 1_000_000, "nothing wakes the turn any more");
                continue;
            }
            told.wakes += 1;
            loop {
                waits = false;
                while !buffer.is_held() && buffer.is_ready() {
                    if came.is_empty() {
                        waits = true;
                        break;
                    }
                    for text in came.drain(..) {
                        buffer.delta(ModelDelta::Text { block: 0, text });
                    }
                }
                let mut out = Vec::new();
                alarm = buffer.take_due(&mut out).map(|since| since + BATCH_TIME);
                if out.is_empty() {
                    break;
                }
                told.text.extend(out.into_iter().map(|piece| piece.text));
                told.longest = told.longest.max(ms - lies.first().copied().unwrap_or(ms));
                lies.clear();
            }
        }
        unreachable!()
    }

    fn every(gap: u64, text: &'static str) -> Vec<(u64, &'static str)> {
        (0..100).map(|n| (n * gap, text)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_at_a_steady_pace_is_read_once_per_batch_and_shown_no_later() {
        // The last two fill their batches, in 35 ms and in 40.
        let paces = [
            (5, " word", 45),
            (10, " word", 45),
            (20, " word", 55),
            (5, " letters", 50),
            (10, " lengthy words", 70),
        ];
        for (gap, text, most) in paces {
            let told = play(&every(gap, text)).await;
            assert_eq!(told.text, text.repeat(100));
            assert!(told.wakes < most, "{gap} {text}: {}", told.wakes);
            assert!(told.longest <= 50, "{gap}: {}", told.longest);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_waiting_saves_nothing_an_answer_is_read_as_it_comes() {
        for gap in [45, 60, 200] {
            let told = play(&every(gap, " word")).await;
            assert_eq!((told.wakes, told.longest), (100, 0), "{gap}");
        }
        // As slow as that it was from the beginning or became in its middle.
        let mut slows = every(20, " word");
        slows.extend((1..100).map(|n| (2_000 + n * 200, " more")));
        let told = play(&slows).await;
        assert!(told.wakes < 65 + 99 + 5, "{}", told.wakes);
        assert!(told.longest <= 50, "{}", told.longest);
        // What fills batches is read as it comes; the last piece, which fills none, waits for the alarm.
        let told = play(&every(10, " some more words than a few")).await;
        assert_eq!((told.wakes, told.longest), (101, 40));
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_without_content_do_not_bring_an_answer_to_a_stand() {
        let mut pieces = every(20, " word");
        pieces.extend((0..100).map(|n| (n * 20 + 7, "")));
        pieces.sort_unstable();
        let told = play(&pieces).await;
        assert_eq!(told.text, " word".repeat(100));
    }
}
