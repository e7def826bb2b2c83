//! Counts whole requests and learns from what providers report.

use super::{FRAME, TokenCounter};
use crate::catalogue::TokenizerFamily;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use turnbuckle_core::model::{ModelRequest, ToolSet};
use turnbuckle_core::usage::Usage;

/// A counted request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptCount {
    /// The tokens.
    pub tokens: u32,
    /// By how much the count may be off, as a fraction; 0 when it is exact.
    pub margin: f32,
}

impl PromptCount {
    /// The tokens it may be at the most.
    pub fn at_most(self) -> u32 {
        (f64::from(self.tokens) * (1.0 + f64::from(self.margin))).ceil() as u32
    }
}

/// Whether a request fits a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fit {
    /// It does, whatever the tokenizer: it has no more bytes than the budget has tokens.
    Certain,
    /// It does by this count, its margin included.
    Fits(PromptCount),
    /// It does not.
    Exceeds(PromptCount),
}

impl Fit {
    /// Whether the request may be sent as it is.
    pub fn fits(self) -> bool {
        !matches!(self, Fit::Exceeds(_))
    }
}

/// Counts the requests of one model. Entries of a transcript are counted once and keep their count; a set of tools is
/// counted once for as long as it lives.
pub struct TokenMeter {
    counter: Arc<TokenCounter>,
    // Reported over counted, in thousandths; 0 until a provider reported something.
    ratio: AtomicU32,
    tools: Mutex<(Weak<ToolSet>, Measure)>,
}

impl fmt::Debug for TokenMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenMeter").field("ratio", &self.ratio).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Measure {
    bytes: u64,
    tokens: Option<u32>,
}

/// What remains of an estimate's margin once a provider's report corrected it.
const CORRECTED_MARGIN: f32 = 0.10;
/// Prompts shorter than this teach nothing: hidden prompts and framing outweigh them.
const TELLING: u64 = 500;

impl TokenMeter {
    /// A meter for a model of a tokenizer family.
    pub fn new(model: &str, family: TokenizerFamily) -> Self {
        Self {
            counter: Arc::new(TokenCounter::new(model, family)),
            ratio: AtomicU32::new(0),
            tools: Mutex::default(),
        }
    }

    /// The tokenizer.
    pub fn counter(&self) -> &Arc<TokenCounter> {
        &self.counter
    }

    /// Whether `request` fits into `budget` tokens. Counts only when its bytes leave a doubt.
    pub fn fit(&self, request: &ModelRequest, budget: u32) -> Fit {
        // Bytes bound the tokens of text alone.
        let text = request.transcript.size().media == 0;
        if text && self.bytes(request) <= u64::from(budget) {
            return Fit::Certain;
        }
        let count = self.count(request);
        if count.at_most() <= budget { Fit::Fits(count) } else { Fit::Exceeds(count) }
    }

    /// The tokens of a whole request: system blocks, tools and transcript.
    pub fn count(&self, request: &ModelRequest) -> PromptCount {
        let counter = &*self.counter;
        let system: u32 = request.system.iter().map(|b| counter.count_text(&b.text) + FRAME).sum();
        let entries = request.transcript.entries().iter();
        let transcript: u32 = entries
            .map(|e| e.tokens(counter.key(), |item| counter.count_item(item)))
            .fold(0, u32::saturating_add);
        let output =
            request.output.as_ref().map_or(0, |o| counter.count_text(&o.schema.to_string()));
        let tools = self.tool_tokens(&request.tools);
        self.corrected([transcript, system, tools, output].into_iter().fold(0, u32::saturating_add))
    }

    /// The tokens of a text at the most, as [`fit`](Self::fit) counts it within a request.
    pub fn text_at_most(&self, text: &str) -> u32 {
        self.corrected(self.counter.count_text(text)).at_most()
    }

    /// What was counted, by what the provider reported so far.
    fn corrected(&self, raw: u32) -> PromptCount {
        let margin = self.counter.margin();
        match self.ratio.load(Ordering::Relaxed) {
            0 => PromptCount { tokens: raw, margin },
            ratio => PromptCount {
                tokens: (u64::from(raw) * u64::from(ratio) / 1000).try_into().unwrap_or(u32::MAX),
                margin: margin.min(CORRECTED_MARGIN),
            },
        }
    }

    /// Learns from what the provider reports for a request that was counted as `counted`. Reports weigh half, so that one
    /// odd report does not mislead; nothing moves a count by more than a factor of two.
    pub fn observe(&self, counted: PromptCount, usage: &Usage) {
        let reported = usage.prompt();
        if reported < TELLING || counted.tokens == 0 {
            return;
        }
        let before = self.ratio.load(Ordering::Relaxed);
        let base = if before == 0 { 1000 } else { u64::from(before) };
        let seen = (base * reported / u64::from(counted.tokens)).clamp(500, 2_000);
        let next = if before == 0 { seen } else { (base + seen) / 2 };
        self.ratio.store(next.clamp(500, 2_000) as u32, Ordering::Relaxed);
    }

    /// An upper bound of the request's tokens: its bytes, with a frame around each part.
    fn bytes(&self, request: &ModelRequest) -> u64 {
        let frame = u64::from(FRAME);
        let system: u64 = request.system.iter().map(|b| b.text.len() as u64 + frame).sum();
        let size = request.transcript.size();
        let transcript = size.bytes + size.frames * frame;
        let output = request.output.as_ref().map_or(0, |o| o.schema.to_string().len() as u64);
        system + transcript + output + self.tool_measure(&request.tools, |m| m.bytes)
    }

    fn tool_tokens(&self, tools: &Arc<ToolSet>) -> u32 {
        self.tool_measure(tools, |measure| {
            *measure.tokens.get_or_insert_with(|| {
                let texts = tools.specs.iter().map(|t| {
                    let schema = t.input_schema.to_string();
                    [t.name.as_str(), &t.description, &schema]
                        .iter()
                        .map(|text| self.counter.count_text(text))
                        .fold(2 * FRAME, u32::saturating_add)
                });
                texts.fold(0, u32::saturating_add)
            })
        })
    }

    /// What is known of a set of tools, measured when it is a new one.
    fn tool_measure<T>(&self, tools: &Arc<ToolSet>, read: impl FnOnce(&mut Measure) -> T) -> T {
        let mut kept = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(kept.0.as_ptr(), Arc::as_ptr(tools)) {
            let bytes = tools.specs.iter().map(|t| {
                let texts =
                    t.name.as_str().len() + t.description.len() + t.input_schema.to_string().len();
                texts as u64 + 2 * u64::from(FRAME)
            });
            *kept = (Arc::downgrade(tools), Measure { bytes: bytes.sum(), tokens: None });
        }
        read(&mut kept.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnbuckle_core::ids::ToolName;
    use turnbuckle_core::model::SystemBlock;
    use turnbuckle_core::tool::ToolSpec;
    use turnbuckle_core::transcript::{Item, Transcript};

    fn request(texts: &[&str]) -> ModelRequest {
        let mut transcript = Transcript::default();
        for text in texts {
            transcript.push_item(Item::user(*text));
        }
        ModelRequest::new("m", transcript)
    }

    fn usage(prompt: u64) -> Usage {
        Usage { input: Some(prompt), ..Usage::default() }
    }

    #[test]
    fn what_fits_by_its_bytes_is_not_counted() {
        let request = request(&["hello world"]);
        let meter = TokenMeter::new("m", TokenizerFamily::O200k);
        assert_eq!(meter.fit(&request, 15), Fit::Certain);
        // One token less, and the exact count decides: two tokens and the frame.
        assert_eq!(meter.fit(&request, 14), Fit::Fits(PromptCount { tokens: 6, margin: 0.0 }));
        assert_eq!(meter.fit(&request, 5), Fit::Exceeds(PromptCount { tokens: 6, margin: 0.0 }));
    }

    #[test]
    fn an_image_is_never_taken_for_its_few_bytes() {
        let parts = json!([{"type": "text", "text": "hello world"}, {"type": "image", "mime": "image/png",
            "source": {"url": "https://example.com/a.png"}, "size": {"width": 1024, "height": 1024}}]);
        let mut transcript = Transcript::default();
        transcript.push_item(Item::User { content: serde_json::from_value(parts).unwrap() });
        let request = ModelRequest::new("gpt-4o", transcript);
        let meter = TokenMeter::new("gpt-4o", TokenizerFamily::O200k);
        let tokens = 2 + 765 + 3 * FRAME;
        let count = PromptCount { tokens, margin: 0.0 };
        assert_eq!(meter.fit(&request, tokens), Fit::Fits(count));
        assert_eq!(meter.fit(&request, tokens - 1), Fit::Exceeds(count));
    }

    #[test]
    fn system_blocks_and_tool_schemas_count() {
        let meter = TokenMeter::new("m", TokenizerFamily::O200k);
        let bare = meter.count(&request(&["hello world"])).tokens;
        let mut full = request(&["hello world"]);
        full.system = vec![SystemBlock::new("hello world")];
        let with_system = meter.count(&full).tokens;
        assert_eq!(with_system, bare + 2 + FRAME);
        let schema = Arc::new(json!({"type": "object", "properties": {"id": {"type": "string"}}}));
        let spec = ToolSpec {
            name: ToolName::from("look"),
            description: "Looks".into(),
            input_schema: schema,
        };
        full.tools = Arc::new(ToolSet::new(vec![spec]));
        assert!(meter.count(&full).tokens > with_system + 10);
        assert!(meter.bytes(&full) > meter.bytes(&request(&["hello world"])) + 50);
    }

    #[test]
    fn entries_are_counted_once() {
        let request = request(&["some text"]);
        let meter = TokenMeter::new("m", TokenizerFamily::Unknown);
        let first = meter.count(&request);
        let key = meter.counter().key();
        let kept = request.transcript.entries()[0].tokens(key, |_| panic!("counted again"));
        assert_eq!(kept, first.tokens);
    }

    #[test]
    fn reports_correct_the_count_and_narrow_the_margin() {
        let text = "word ".repeat(2_000);
        let request = request(&[&text]);
        let meter = TokenMeter::new("m", TokenizerFamily::Claude);
        let first = meter.count(&request);
        assert_eq!(first.margin, 0.35);
        meter.observe(first, &usage(u64::from(first.tokens) * 3 / 2));
        let second = meter.count(&request);
        assert_eq!(second.tokens, first.tokens * 3 / 2);
        assert_eq!(second.margin, 0.10);
        // A report that agrees changes nothing.
        meter.observe(second, &usage(u64::from(second.tokens)));
        assert_eq!(meter.count(&request), second);
    }

    #[test]
    fn odd_reports_do_not_mislead() {
        let meter = TokenMeter::new("m", TokenizerFamily::Claude);
        let request = request(&[&"word ".repeat(2_000)]);
        let first = meter.count(&request);
        meter.observe(first, &Usage::default());
        meter.observe(first, &usage(10));
        assert_eq!(meter.count(&request), first);
        meter.observe(first, &usage(u64::from(first.tokens) * 100));
        assert_eq!(meter.count(&request).tokens, first.tokens * 2);
    }
}
