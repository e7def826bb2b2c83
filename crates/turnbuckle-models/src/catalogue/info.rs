//! What is known of a model, and where it is known from.

use serde::{Deserialize, Serialize};
use std::fmt;
use turnbuckle_core::usage::Usage;

/// What the engine must know of a model before it calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// Prompt and answer together, in tokens.
    pub context_window: u32,
    /// The longest answer, in tokens.
    pub max_output_tokens: u32,
    /// What it costs, where that is known.
    pub prices: Option<Prices>,
    /// What it can take and do.
    pub capabilities: Capabilities,
    /// How its tokens are counted.
    pub tokenizer: TokenizerFamily,
    /// Where the window comes from.
    pub source: InfoSource,
}

impl ModelInfo {
    /// The cost of a call in millionths of a US dollar; `None` when no prices are known. Cache writes are taken to live
    /// five minutes.
    pub fn cost_micros(&self, usage: &Usage) -> Option<u64> {
        self.prices.as_ref().map(|p| p.cost_micros(usage, CacheLife::FiveMinutes))
    }
}

/// Where a [`ModelInfo`] comes from. Explicit configuration always wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InfoSource {
    /// The configuration says so.
    Config,
    /// The embedded catalogue, whose prices are of this date.
    Catalogue {
        /// The date, `YYYY-MM-DD`.
        as_of: String,
    },
    /// Nothing is known of the model: these are the stated defaults.
    Defaults,
}

impl fmt::Display for InfoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InfoSource::Config => f.write_str("configuration"),
            InfoSource::Catalogue { as_of } => write!(f, "catalogue of {as_of}"),
            InfoSource::Defaults => f.write_str("defaults for an unknown model"),
        }
    }
}

/// What a model can take and do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Calls tools.
    pub tools: bool,
    /// Asks for several tools in one answer.
    pub parallel_tools: bool,
    /// Takes images.
    pub images: bool,
    /// Reasons before it answers.
    pub reasoning: bool,
    /// Follows a JSON schema natively.
    pub structured_output: bool,
    /// Reads a repeated prefix from a cache.
    pub prompt_cache: bool,
}

impl Default for Capabilities {
    /// What nearly every chat model of today can do.
    fn default() -> Self {
        Self {
            tools: true,
            parallel_tools: true,
            images: false,
            reasoning: false,
            structured_output: false,
            prompt_cache: false,
        }
    }
}

/// How a model's tokens are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerFamily {
    /// OpenAI's o200k vocabulary, counted exactly.
    O200k,
    /// OpenAI's cl100k vocabulary, counted exactly.
    Cl100k,
    /// Anthropic publishes no vocabulary: estimated.
    Claude,
    /// Google publishes none for Gemini: estimated.
    Gemini,
    /// Anything else: estimated.
    #[default]
    Unknown,
}

/// Prices in US dollars per million tokens, which is micro-dollars per token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Prompt tokens.
    pub input: f64,
    /// Prompt tokens read from a cache; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Prompt tokens written to a cache that lives five minutes; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<f64>,
    /// Prompt tokens written to a cache that lives an hour; as `cache_write_5m` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// Generated tokens, reasoning included.
    pub output: f64,
    /// Prices of long prompts. A call whose whole prompt exceeds a tier's bound costs that tier's prices throughout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<PriceTier>,
}

/// Prices above a prompt length. An absent price scales as the tier's input price does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTier {
    /// The tier holds for prompts of more than this many tokens.
    pub above: u64,
    /// Prompt tokens.
    pub input: f64,
    /// Prompt tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Prompt tokens written to a cache that lives five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<f64>,
    /// Prompt tokens written to a cache that lives an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// Generated tokens, reasoning included.
    pub output: f64,
}

/// How long a cache write lives; the longer costs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheLife {
    /// Five minutes.
    #[default]
    FiveMinutes,
    /// An hour.
    OneHour,
}

impl Prices {
    /// Checks that every price is a finite number that is not negative.
    ///
    /// # Errors
    /// Names the first price that is not.
    pub fn check(&self) -> Result<(), String> {
        let fields = |input, read, write_5m, write_1h, output| {
            [
                ("input", Some(input)),
                ("cache_read", read),
                ("cache_write_5m", write_5m),
                ("cache_write_1h", write_1h),
                ("output", Some(output)),
            ]
        };
        let own = fields(
            self.input,
            self.cache_read,
            self.cache_write_5m,
            self.cache_write_1h,
            self.output,
        );
        let tiers = self.tiers.iter().flat_map(|t| {
            fields(t.input, t.cache_read, t.cache_write_5m, t.cache_write_1h, t.output)
        });
        for (name, price) in own.into_iter().chain(tiers) {
            if let Some(price) = price
                && !(price.is_finite() && price >= 0.0)
            {
                return Err(format!("the price `{name}` is {price}; it must be a number from 0"));
            }
        }
        Ok(())
    }

    /// The cost of one call in millionths of a US dollar, rounded to the nearest.
    pub fn cost_micros(&self, usage: &Usage, life: CacheLife) -> u64 {
        let prompt = usage.prompt();
        let tier = self.tiers.iter().filter(|t| prompt > t.above).max_by_key(|t| t.above);
        let scale = match tier {
            Some(t) if self.input > 0.0 => t.input / self.input,
            _ => 1.0,
        };
        let input = tier.map_or(self.input, |t| t.input);
        let pick =
            |own: Option<Option<f64>>, base: Option<f64>| own.flatten().or(base.map(|b| b * scale));
        let read = pick(tier.map(|t| t.cache_read), self.cache_read).unwrap_or(input);
        let write_5m = pick(tier.map(|t| t.cache_write_5m), self.cache_write_5m).unwrap_or(input);
        let write = match life {
            CacheLife::FiveMinutes => write_5m,
            CacheLife::OneHour => {
                pick(tier.map(|t| t.cache_write_1h), self.cache_write_1h).unwrap_or(write_5m)
            }
        };
        let output = tier.map_or(self.output, |t| t.output);
        let micros = [
            (usage.input, input),
            (usage.cache_read, read),
            (usage.cache_write, write),
            (usage.output, output),
        ]
        .into_iter()
        .map(|(tokens, price)| tokens.unwrap_or(0) as f64 * price)
        .sum::<f64>();
        // Negative prices are refused by the configuration; a float to integer cast saturates.
        micros.round() as u64
    }
}
