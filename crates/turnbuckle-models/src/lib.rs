//! Model endpoints: the only place that knows providers.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the trait through which every model is called |
//! | [`providers`] | all configured providers; the model that is taken when nobody chose one |
//! | [`config`] | a provider's configuration, and the presets of the known ones |
//! | [`cloud`] | tokens and signatures of Azure, Bedrock and Vertex |
//! | [`endpoint`] | one provider: attempts, bounded concurrency, its pace, circuit breaker |
//! | [`transport`] | HTTP: pooled connections, silence watched, limits read from headers |
//! | [`fallback`] | model A, then B when A's provider is out |
//! | [`catalogue`] | windows, limits, prices, capabilities |
//! | [`tokens`] | counts and estimates |
//! | [`embed`] | texts as vectors, of a provider's model or by their spelling alone |
//! | [`cassette`] | live calls recorded and replayed |
//! | [`alarm`] | timers that cost nothing to arm |
//! | [`scripted`], [`rehearsal`] | models without a vendor |
//!
//! The retry table is [`retry`]: pure, and applied by the turn machine.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use turnbuckle_core::model::{ModelDelta, ModelRequest};
//! use turnbuckle_core::transcript::{Item, Transcript};
//! use turnbuckle_models::Providers;
//!
//! let found = Providers::new(Default::default()).detect().await?;
//! println!("{}", found.why);
//! if let Some(model) = found.model {
//!     let mut transcript = Transcript::default();
//!     transcript.push_item(Item::user("Hello"));
//!     let request = ModelRequest::new(model.id().model.clone(), transcript);
//!     let mut print = |delta: ModelDelta<'_>| {
//!         if let ModelDelta::Text { text, .. } = delta {
//!             print!("{text}");
//!         }
//!     };
//!     let answer = model.call(&request, &mut print).await?;
//!     println!("{:?} {:?}", answer.usage, model.info().cost_micros(&answer.usage));
//! }
//! # Ok(())
//! # }
//! ```

pub mod alarm;
pub mod cassette;
pub mod catalogue;
pub mod cloud;
pub mod config;
pub mod embed;
pub mod endpoint;
pub mod fallback;
pub mod model;
pub mod providers;
pub mod rehearsal;
pub mod scripted;
mod secret;
pub mod tokens;
pub mod transport;
mod vision;

pub use catalogue::ModelInfo;
pub use config::{ConfigError, ModelOverride, ProviderConfig, Timeouts};
pub use embed::{EmbedOptions, Embedded, Embedder, LexicalEmbedder};
pub use endpoint::Endpoint;
pub use fallback::FallbackModel;
pub use model::{CallFailure, DeltaSink, Model, NoDeltas};
pub use providers::{Detected, Providers};
pub use rehearsal::{FnStory, RehearsalModel, Story};
pub use scripted::{Scripted, ScriptedModel};
pub use secret::Secret;
pub use tokens::{TokenCounter, TokenMeter};
pub use turnbuckle_core::retry;
