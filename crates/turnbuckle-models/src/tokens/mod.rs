//! How many tokens a request takes.
//!
//! | module | holds |
//! |---|---|
//! | `exact` | counts by a published vocabulary (o200k, cl100k) |
//! | `estimate` | counts for everything else, with a stated margin |
//! | `meter` | whole requests: cached per entry, corrected by what the provider reports |
//!
//! A vocabulary takes some 65 MB and 0.2 s to load, so it is loaded only when it decides something. A token is never
//! shorter than a byte: a request whose bytes fit the budget fits for certain, whatever the tokenizer. Only beyond that
//! does the [`TokenMeter`] count.

mod estimate;
mod exact;
mod meter;

pub use estimate::{BASE_MARGIN, Estimator};
pub use exact::ExactCounter;
pub use meter::{Fit, PromptCount, TokenMeter};

use crate::catalogue::TokenizerFamily;
use std::sync::Arc;
use turnbuckle_core::model::Block;
use turnbuckle_core::transcript::Item;

/// Counts tokens as one tokenizer does. Pass [`key`](Self::key) and [`count_item`](Self::count_item) to
/// [`Entry::tokens`](turnbuckle_core::transcript::Entry::tokens) to count each entry once.
pub trait TokenCounter: Send + Sync {
    /// Names the tokenizer; equal keys give equal counts.
    fn key(&self) -> u64;

    /// The tokens of a text.
    fn count_text(&self, text: &str) -> u32;

    /// By how much a count may be too low or too high, as a fraction; 0 when it is exact.
    fn margin(&self) -> f32;

    /// The tokens of an entry, with what its framing costs.
    fn count_item(&self, item: &Item) -> u32 {
        let content = match item {
            Item::User { text } | Item::System { text } => self.count_text(text),
            Item::Assistant { blocks } => blocks.iter().map(|block| self.count_block(block)).sum(),
            Item::ToolResults { results } => results
                .iter()
                .map(|r| FRAME + self.count_text(&r.content) + self.count_text(&r.wire_id))
                .sum(),
        };
        content.saturating_add(FRAME)
    }

    /// The tokens of one block of an answer.
    fn count_block(&self, block: &Block) -> u32 {
        match block {
            // Payloads beside text are signatures or citations; what providers count of them is in their reports only.
            Block::Text { text, .. } | Block::Thinking { text, .. } => self.count_text(text),
            Block::ToolCall { wire_id, name, arguments, .. } => {
                FRAME
                    + self.count_text(wire_id)
                    + self.count_text(name)
                    + self.count_text(arguments)
            }
            Block::Native { native } => self.count_text(&native.data.to_string()),
        }
    }
}

/// Tokens around each message, call and result: role, separators, field names.
const FRAME: u32 = 4;

/// The counter of a tokenizer family. Nothing is loaded before the first count.
pub fn counter(family: TokenizerFamily) -> Arc<dyn TokenCounter> {
    match family {
        TokenizerFamily::O200k => Arc::new(ExactCounter::O200k),
        TokenizerFamily::Cl100k => Arc::new(ExactCounter::Cl100k),
        TokenizerFamily::Claude => Arc::new(Estimator::CLAUDE),
        TokenizerFamily::Gemini => Arc::new(Estimator::GEMINI),
        TokenizerFamily::Unknown => Arc::new(Estimator::UNKNOWN),
    }
}
