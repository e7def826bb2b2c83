//! How many tokens a request takes.
//!
//! | module | holds |
//! |---|---|
//! | `exact` | counts by a published vocabulary (o200k, cl100k) |
//! | `estimate` | counts for everything else, with a stated margin |
//! | `media` | images and files, by the vendors' published rules |
//! | `meter` | whole requests: cached per entry, corrected by what the provider reports |
//!
//! A vocabulary takes some 65 MB and 0.2 s to load, so it is loaded only when it decides something. A token is never
//! shorter than a byte: a request whose bytes fit the budget fits for certain, whatever the tokenizer. Only beyond that
//! does the [`TokenMeter`] count.

mod estimate;
mod exact;
mod media;
mod meter;

pub use estimate::{BASE_MARGIN, Estimator};
pub use exact::ExactCounter;
pub use media::{MediaRule, pixel_size};
pub use meter::{Fit, PromptCount, TokenMeter};

use crate::catalogue::TokenizerFamily;
use std::hash::{DefaultHasher, Hash, Hasher};
use turnbuckle_core::content::{Content, ContentPart, Source};
use turnbuckle_core::model::Block;
use turnbuckle_core::transcript::Item;

/// Counts the tokens of texts, as one tokenizer does.
pub trait CountText: Send + Sync {
    /// Names the tokenizer; equal keys give equal counts.
    fn key(&self) -> u64;

    /// The tokens of a text.
    fn count_text(&self, text: &str) -> u32;

    /// By how much a count may be too low or too high, as a fraction; 0 when it is exact.
    fn margin(&self) -> f32;
}

/// Counts tokens as one model does: text by its tokenizer, images and files by its vendor's rule. Nothing is loaded before
/// the first count. Pass [`key`](Self::key) and [`count_item`](Self::count_item) to
/// [`Entry::tokens`](turnbuckle_core::transcript::Entry::tokens) to count each entry once.
pub struct TokenCounter {
    text: Box<dyn CountText>,
    media: MediaRule,
    key: u64,
}

/// Tokens around each message, call and result: role, separators, field names.
const FRAME: u32 = 4;

impl TokenCounter {
    /// The counter of a model of a tokenizer family.
    pub fn new(model: &str, family: TokenizerFamily) -> Self {
        let text: Box<dyn CountText> = match family {
            TokenizerFamily::O200k => Box::new(ExactCounter::O200k),
            TokenizerFamily::Cl100k => Box::new(ExactCounter::Cl100k),
            TokenizerFamily::Claude => Box::new(Estimator::CLAUDE),
            TokenizerFamily::Gemini => Box::new(Estimator::GEMINI),
            TokenizerFamily::Unknown => Box::new(Estimator::UNKNOWN),
        };
        let media = MediaRule::of(model, family);
        let mut hasher = DefaultHasher::new();
        (text.key(), media).hash(&mut hasher);
        Self { text, media, key: hasher.finish() }
    }

    /// Names the tokenizer and the rule; equal keys give equal counts.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The tokens of a text.
    pub fn count_text(&self, text: &str) -> u32 {
        self.text.count_text(text)
    }

    /// By how much a count may be too low or too high, as a fraction; 0 when it is exact.
    pub fn margin(&self) -> f32 {
        self.text.margin()
    }

    /// The tokens of an entry, with what its framing costs.
    pub fn count_item(&self, item: &Item) -> u32 {
        let content = match item {
            Item::User { content: Content::Text(text) } | Item::System { text } => {
                self.count_text(text)
            }
            Item::User { content: Content::Parts(parts) } => parts
                .iter()
                .map(|part| FRAME.saturating_add(self.count_part(part)))
                .fold(0, u32::saturating_add),
            Item::Assistant { blocks } => blocks.iter().map(|block| self.count_block(block)).sum(),
            Item::ToolResults { results } => results
                .iter()
                .map(|r| FRAME + self.count_text(&r.content) + self.count_text(&r.wire_id))
                .sum(),
        };
        content.saturating_add(FRAME)
    }

    fn count_part(&self, part: &ContentPart) -> u32 {
        match part {
            ContentPart::Text { text } => self.count_text(text),
            ContentPart::Image(image) => self.media.image(image),
            ContentPart::File(file) => match &file.source {
                Source::Data(data) if file.mime.is_text() => {
                    self.count_text(&String::from_utf8_lossy(&data.decode()))
                }
                _ => self.media.pdf(file),
            },
        }
    }

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
