//! Finds a model in the embedded data.
//!
//! The data is parsed at each look-up and dropped again: models are resolved once per process, and what is not kept
//! costs no memory.

use super::info::{Capabilities, InfoSource, ModelInfo, Prices, TokenizerFamily};
use serde::Deserialize;

const DATA: &str = include_str!("models.json");

/// What is assumed of a model that nobody described: window and output limit in tokens.
pub const UNKNOWN_REMOTE: (u32, u32) = (128_000, 16_384);
/// The same for a model on a local server, which rarely gives a model its full window.
pub const UNKNOWN_LOCAL: (u32, u32) = (32_768, 8_192);

#[derive(Deserialize)]
struct Data {
    as_of: String,
    models: Vec<Row>,
}

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Row {
    vendor: String,
    names: Vec<String>,
    window: u32,
    output: u32,
    #[serde(default)]
    tokenizer: TokenizerFamily,
    #[serde(default)]
    images: bool,
    #[serde(default)]
    reasoning: bool,
    #[serde(default)]
    structured: bool,
    #[serde(default)]
    cache: bool,
    #[serde(default)]
    prices: Option<Prices>,
}

impl Row {
    fn info(self, as_of: String, prices: bool) -> ModelInfo {
        ModelInfo {
            context_window: self.window,
            max_output_tokens: self.output,
            prices: self.prices.filter(|_| prices),
            capabilities: Capabilities {
                images: self.images,
                reasoning: self.reasoning,
                structured_output: self.structured,
                prompt_cache: self.cache,
                ..Capabilities::default()
            },
            tokenizer: self.tokenizer,
            source: InfoSource::Catalogue { as_of },
        }
    }
}

/// Who serves a model, as far as windows and prices depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// The vendor itself, or a gateway that passes its list prices on.
    Vendor(&'a str),
    /// A gateway to many vendors at their list prices.
    Gateway,
    /// Somebody whose prices are not known here.
    Other,
    /// A server on this machine: free of charge, and its window is its operator's choice.
    Local,
}

/// What is known of `model` at `host`. An unknown model gets the stated defaults.
pub fn lookup(host: Host<'_>, model: &str) -> ModelInfo {
    let mut info = match find(model) {
        Some((row, as_of)) => {
            let priced = match host {
                Host::Vendor(vendor) => row.vendor == vendor,
                Host::Gateway => true,
                Host::Other | Host::Local => false,
            };
            row.info(as_of, priced)
        }
        None => defaults(host),
    };
    if host == Host::Local {
        let (window, output) = UNKNOWN_LOCAL;
        info.context_window = info.context_window.min(window);
        info.max_output_tokens = info.max_output_tokens.min(output);
        info.prices = Some(Prices::default());
        info.source = InfoSource::Defaults;
    }
    info
}

/// Every model of the catalogue: vendor, first name, and what is known of it at its vendor's.
pub fn all() -> Vec<(String, String, ModelInfo)> {
    let Some(data) = parse() else { return Vec::new() };
    let as_of = data.as_of;
    let rows = data.models.into_iter().flat_map(|row| {
        let names = row.names.clone();
        names.into_iter().map(move |name| (name, row.clone()))
    });
    rows.map(|(name, row)| (row.vendor.clone(), name, row.info(as_of.clone(), true))).collect()
}

fn defaults(host: Host<'_>) -> ModelInfo {
    let (context_window, max_output_tokens) =
        if host == Host::Local { UNKNOWN_LOCAL } else { UNKNOWN_REMOTE };
    ModelInfo {
        context_window,
        max_output_tokens,
        prices: None,
        capabilities: Capabilities::default(),
        tokenizer: TokenizerFamily::Unknown,
        source: InfoSource::Defaults,
    }
}

fn parse() -> Option<Data> {
    // A test reads the embedded data, so that it cannot be malformed in a release.
    serde_json::from_str(DATA).ok()
}

fn find(model: &str) -> Option<(Row, String)> {
    let data = parse()?;
    let wanted = plain_name(model);
    let row = data.models.into_iter().find(|row| {
        row.names.iter().any(|name| {
            let name = name.replace('.', "-");
            wanted.contains(&name)
        })
    })?;
    Some((row, data.as_of))
}

/// The forms under which a model may stand in the catalogue: hosts prefix names with the vendor and the region, append dates,
/// tags, revisions and `-latest`, and write versions with dots or dashes.
fn plain_name(model: &str) -> Vec<String> {
    let bare = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = bare.replace('.', "-");
    let untagged = name.split([':', '@']).next().unwrap_or(&name).to_owned();
    let undated = without_date(untagged.strip_suffix("-latest").unwrap_or(&untagged)).to_owned();
    let mut forms = vec![name, untagged, undated];
    let own = without_owners(&bare);
    if own != bare {
        let own = own.replace('.', "-");
        let untagged = own.split(':').next().unwrap_or(&own);
        let unrevised = untagged.rsplit_once("-v").filter(|(_, n)| n.parse::<u8>().is_ok());
        forms.push(without_date(unrevised.map_or(untagged, |(name, _)| name)).to_owned());
        forms.push(untagged.to_owned());
    }
    forms.dedup();
    forms
}

/// Without the region and the vendor that Bedrock puts before a name, such as `us.anthropic.`.
fn without_owners(name: &str) -> &str {
    let mut rest = name;
    while let Some((owner, name)) = rest.split_once('.') {
        if owner.is_empty() || !owner.bytes().all(|b| b.is_ascii_lowercase()) {
            break;
        }
        rest = name;
    }
    rest
}

fn without_date(name: &str) -> &str {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if let Some((head, tail)) = name.rsplit_once('-') {
        if tail.len() == 8 && digits(tail) {
            return head;
        }
        if let Some((head, month)) = head.rsplit_once('-')
            && let Some((head, year)) = head.rsplit_once('-')
            && (year.len(), month.len(), tail.len()) == (4, 2, 2)
            && [year, month, tail].into_iter().all(digits)
        {
            return head;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::info::CacheLife;
    use super::*;
    use std::collections::HashSet;
    use turnbuckle_core::usage::Usage;

    #[test]
    fn the_embedded_data_is_sound() {
        let models = all();
        assert!(models.len() > 50);
        let mut names = HashSet::new();
        for (vendor, name, info) in models {
            assert!(names.insert(name.clone()), "{name} stands twice");
            assert!(info.max_output_tokens <= info.context_window, "{vendor}:{name}");
            if let Some(prices) = &info.prices {
                prices.check().unwrap();
            }
        }
    }

    #[test]
    fn dates_tags_and_vendor_prefixes_do_not_hide_a_model() {
        let plain = lookup(Host::Vendor("anthropic"), "claude-sonnet-4-5");
        assert_eq!(plain.context_window, 200_000);
        assert_eq!(lookup(Host::Vendor("anthropic"), "claude-sonnet-4-5-20250929"), plain);
        for name in [
            "anthropic/claude-sonnet-4.5",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "anthropic.claude-sonnet-4-5",
            "claude-sonnet-4-5@20250929",
        ] {
            assert_eq!(lookup(Host::Gateway, name), plain, "{name}");
        }
        assert_eq!(
            lookup(Host::Vendor("openai"), "gpt-4o-2024-08-06"),
            lookup(Host::Vendor("openai"), "gpt-4o")
        );
        assert_eq!(
            lookup(Host::Vendor("google"), "gemini-2.5-pro-latest").context_window,
            1_048_576
        );
    }

    #[test]
    fn a_longer_name_is_another_model() {
        assert_eq!(lookup(Host::Vendor("openai"), "gpt-5-something").source, InfoSource::Defaults);
        assert_eq!(
            lookup(Host::Vendor("openai"), "gpt-5-mini").prices,
            Some(Prices { input: 0.25, cache_read: Some(0.025), output: 2.0, ..Prices::default() })
        );
    }

    #[test]
    fn unknown_models_get_the_stated_defaults() {
        let info = lookup(Host::Other, "somebody/new-model");
        assert_eq!((info.context_window, info.max_output_tokens), UNKNOWN_REMOTE);
        assert_eq!((info.prices.clone(), info.source), (None, InfoSource::Defaults));
    }

    #[test]
    fn prices_hold_only_where_they_are_charged() {
        assert!(lookup(Host::Vendor("deepseek"), "deepseek-v4-pro").prices.is_some());
        assert!(lookup(Host::Other, "deepseek-v4-pro").prices.is_none());
        let local = lookup(Host::Local, "qwen3:8b");
        assert_eq!(local.prices, Some(Prices::default()));
        assert_eq!(local.context_window, 32_768);
    }

    fn usage(input: u64, read: u64, write: u64, output: u64) -> Usage {
        Usage {
            input: Some(input),
            cache_read: Some(read),
            cache_write: Some(write),
            output: Some(output),
            reasoning: None,
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let prices = lookup(Host::Vendor("anthropic"), "claude-sonnet-4-5").prices.unwrap();
        let call = usage(1_000, 10_000, 2_000, 500);
        // 1000*3 + 10000*0.3 + 2000*3.75 + 500*15
        assert_eq!(prices.cost_micros(&call, CacheLife::FiveMinutes), 21_000);
        // 1000*3 + 10000*0.3 + 2000*6 + 500*15
        assert_eq!(prices.cost_micros(&call, CacheLife::OneHour), 25_500);
    }

    #[test]
    fn a_long_prompt_puts_the_whole_call_into_the_higher_tier() {
        let prices = lookup(Host::Vendor("google"), "gemini-2.5-pro").prices.unwrap();
        let life = CacheLife::FiveMinutes;
        assert_eq!(prices.cost_micros(&usage(200_000, 0, 0, 1_000), life), 260_000);
        // One token more: every token at the tier's prices.
        assert_eq!(prices.cost_micros(&usage(200_001, 0, 0, 1_000), life), 515_003);
        // The bound counts the whole prompt; the cached price doubles as the input price does.
        assert_eq!(prices.cost_micros(&usage(1_000, 250_000, 0, 0), life), 2_500 + 62_500);
    }

    #[test]
    fn unknown_usage_costs_nothing_and_absent_cache_prices_fall_back_to_input() {
        let prices = Prices { input: 2.0, output: 8.0, ..Prices::default() };
        assert_eq!(prices.cost_micros(&Usage::default(), CacheLife::FiveMinutes), 0);
        assert_eq!(prices.cost_micros(&usage(0, 100, 100, 0), CacheLife::OneHour), 400);
    }
}
