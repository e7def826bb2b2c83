//! What is known of models: windows, limits, prices, capabilities, tokenizers.
//!
//! The data is embedded with a date ([`InfoSource::Catalogue`]). Configuration always wins over it, and a model that
//! stands in neither works with stated defaults.

mod info;
mod lookup;

pub use info::{
    CacheLife, Capabilities, InfoSource, ModelInfo, PriceTier, Prices, TokenizerFamily,
};
pub use lookup::{Host, UNKNOWN_LOCAL, UNKNOWN_REMOTE, all, lookup};
