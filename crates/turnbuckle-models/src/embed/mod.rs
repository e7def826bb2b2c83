//! Embeddings: texts as vectors, whose directions are near when the texts are.
//!
//! An [`Embedder`] is one model for that. A provider's is had from [`Endpoint::embedder`](crate::Endpoint::embedder) or by
//! name from [`Providers::embedder`](crate::Providers::embedder); [`LexicalEmbedder`] needs no provider, no network and no
//! model, and compares spelling instead of meaning.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use turnbuckle_models::embed::{Embedder, LexicalEmbedder, Purpose, similarity};
//! let embedder = LexicalEmbedder::default();
//! let texts = ["The invoice is overdue".into(), "Overdue invoices".into(), "Swim in the lake".into()];
//! let vectors = embedder.embed(&texts, Purpose::Document).await.unwrap().vectors;
//! assert!(similarity(&vectors[0], &vectors[1]) > similarity(&vectors[0], &vectors[2]));
//! # }
//! ```

mod lexical;
mod remote;

pub use lexical::LexicalEmbedder;
pub use turnbuckle_wire::Purpose;

pub(crate) use remote::RemoteEmbedder;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::ModelRef;

/// A model that turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Its name, `provider:model`. Vectors of different models cannot be compared.
    fn id(&self) -> &ModelRef;

    /// How long its vectors are, when that is known before the first call.
    fn dimensions(&self) -> Option<u32>;

    /// Vectors of these texts, in their order. However many there are, requests stay within the provider's limits, and
    /// what failed for a passing reason is tried again by [the one table](crate::retry).
    ///
    /// # Errors
    /// The provider's own error, in its category. An empty text is a [`BadRequest`](ModelErrorKind::BadRequest).
    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<Embedded, ModelError>>;
}

/// Vectors in the order of their texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// Each of length one, so that [`similarity`] is their product.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens of all texts, where the provider says.
    pub tokens: Option<u64>,
}

/// How a provider is asked for embeddings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedOptions {
    /// How long vectors shall be, for models that can shorten them.
    pub dimensions: Option<u32>,
    /// The most texts in one request, for servers that take fewer than their vendor's model.
    pub max_texts: Option<usize>,
    /// The most tokens in one request, over all its texts.
    pub max_tokens: Option<usize>,
    /// The path below the base URL instead of the wire's own; `{model}` stands for the model.
    pub path: Option<String>,
}

/// How near two vectors of an [`Embedder`] are: 1 for the same direction, 0 for none in common.
pub fn similarity(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Refuses texts without anything in them, which no model embeds.
fn check(texts: &[String]) -> Result<(), ModelError> {
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(at) => Err(ModelError::new(
            ModelErrorKind::BadRequest,
            format!("text {at} is empty, and nothing can be embedded of it"),
        )),
        None => Ok(()),
    }
}

/// Gives a vector the length one.
fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if length > 0.0 {
        for x in vector {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}
