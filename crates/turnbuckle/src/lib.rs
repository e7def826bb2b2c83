//! An agent engine for products: it streams, runs tools, stops for people and survives crashes.
//!
//! ```
//! use futures_util::StreamExt;
//! use turnbuckle::core::event::EventKind;
//! use turnbuckle::models::ScriptedModel;
//! use turnbuckle::models::scripted::{calls, text};
//! use turnbuckle::{Agent, Engine, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct City {
//!     /// The city's name.
//!     name: String,
//! }
//!
//! /// Tells the weather of a city.
//! #[tool(effect = "read_only")]
//! async fn weather(city: City) -> Result<String, String> {
//!     Ok(format!("It is sunny in {}.", city.name))
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! // A scripted model stands where a real one would.
//! let script = [calls(&[("c1", "weather", r#"{"name": "Oslo"}"#)]), text("Sunny in Oslo.")];
//! let agent = Agent::builder("main").instructions("Answer briefly.").tool(weather()).build()?;
//! let engine = Engine::builder().agent(agent).model(ScriptedModel::new("demo", script)).build()?;
//!
//! let session = engine.create_session("acme", "ada", "main").await?;
//! let mut events = engine.submit(&session.key, "How is the weather in Oslo?").await?.stream().unwrap();
//! let mut answer = String::new();
//! while let Some(event) = events.next().await {
//!     if let EventKind::TextDelta { text, .. } = event.kind {
//!         answer.push_str(&text);
//!     }
//! }
//! assert_eq!(answer, "Sunny in Oslo.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

pub use turnbuckle_core as core;
pub use turnbuckle_engine::*;
pub use turnbuckle_macros::tool;
pub use turnbuckle_models as models;
pub use turnbuckle_store as store;
