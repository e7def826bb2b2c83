//! What is known of models: windows, limits, prices, capabilities, tokenizers.

mod info;

pub use info::{
    CacheLife, Capabilities, InfoSource, ModelInfo, PriceTier, Prices, TokenizerFamily,
};
