//! Vectors without a model.

use super::{Embedded, Embedder, Purpose, check, normalize};
use futures_util::future::{BoxFuture, ready};
use std::collections::HashMap;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::ModelRef;

/// A stand-in for an embedding model: it compares spelling, not meaning. "Invoice" is near "invoices" and far from "bill".
///
/// For tests, for work without a network, and where no model is configured. Each text is taken apart into its words and the
/// runs of three to five letters in them; each of these is hashed to one place of the vector and counts there, up or down,
/// so that chance meetings cancel out. What comes often counts less each time. Equal texts give equal vectors, on every
/// machine and in every version.
#[derive(Clone, Debug)]
pub struct LexicalEmbedder {
    id: ModelRef,
    dimensions: u32,
}

const DEFAULT_DIMENSIONS: u32 = 512;
/// A word counts as much as so many of its runs.
const WORD: f32 = 3.0;

impl Default for LexicalEmbedder {
    fn default() -> Self {
        Self::new(DEFAULT_DIMENSIONS)
    }
}

impl LexicalEmbedder {
    /// The provider it goes by.
    pub const PROVIDER: &'static str = "lexical";

    /// Vectors of this length; a few hundred are sensible.
    pub fn new(dimensions: u32) -> Self {
        let dimensions = dimensions.max(1);
        Self { id: ModelRef::new(Self::PROVIDER, format!("ngrams-{dimensions}")), dimensions }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut counts: HashMap<u64, (u32, f32)> = HashMap::new();
        let mut count = |feature: u64, weight: f32| {
            counts.entry(feature).or_insert((0, weight)).0 += 1;
        };
        let lower = text.to_lowercase();
        let mut words = 0;
        for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
            words += 1;
            count(hash(b'w', word), WORD);
            let framed: Vec<char> = std::iter::once('^').chain(word.chars()).chain(['$']).collect();
            for length in 3..=5 {
                for run in framed.windows(length) {
                    count(hash(b'n', &run.iter().collect::<String>()), 1.0);
                }
            }
        }
        if words == 0 {
            // Nothing but signs: the text as a whole.
            count(hash(b't', text.trim()), 1.0);
        }
        let mut vector = vec![0.0; self.dimensions as usize];
        // In a fixed order, since sums of floats depend on it.
        let mut features: Vec<_> = counts.into_iter().collect();
        features.sort_by_key(|(feature, _)| *feature);
        for (feature, (times, weight)) in features {
            let sign = if feature >> 63 == 0 { 1.0 } else { -1.0 };
            let at = (feature % u64::from(self.dimensions)) as usize;
            if let Some(place) = vector.get_mut(at) {
                *place += sign * weight * (1.0 + (times as f32).ln());
            }
        }
        if vector.iter().all(|x| *x == 0.0) {
            // All of it cancelled out, which only very short vectors see.
            vector.fill(1.0);
        }
        normalize(&mut vector);
        vector
    }
}

/// FNV-1a, with its bits mixed once more, since places are taken from the lowest.
fn hash(kind: u8, text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in std::iter::once(kind).chain(text.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

impl Embedder for LexicalEmbedder {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn dimensions(&self) -> Option<u32> {
        Some(self.dimensions)
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        _: Purpose,
    ) -> BoxFuture<'a, Result<Embedded, ModelError>> {
        let embedded = check(texts).map(|()| Embedded {
            vectors: texts.iter().map(|text| self.vector(text)).collect(),
            tokens: None,
        });
        Box::pin(ready(embedded))
    }
}

#[cfg(test)]
mod tests {
    use super::super::similarity;
    use super::*;
    use turnbuckle_core::error::ModelErrorKind;

    fn near(a: &str, b: &str) -> f32 {
        let embedder = LexicalEmbedder::default();
        similarity(&embedder.vector(a), &embedder.vector(b))
    }

    #[test]
    fn spelling_decides_how_near_texts_are() {
        assert!((near("Invoice 17 is overdue!", "invoice 17 IS overdue") - 1.0).abs() < 1e-5);
        let (typo, inflected, other) =
            (near("invoice", "invioce"), near("invoice", "invoices"), near("invoice", "bill"));
        assert!(inflected > typo && typo > other.abs(), "{inflected} {typo} {other}");
        assert!(other.abs() < 0.2, "{other}");
        // The order of words says nothing here, and scripts without spaces work by their runs.
        assert!(near("refund the order", "the order refund") > 0.99);
        assert!(near("東京都の天気", "京都の天気") > near("東京都の天気", "大阪の料理"));
    }

    #[test]
    fn vectors_have_length_one_and_never_change() {
        let vectors = LexicalEmbedder::new(8);
        for text in ["a", "!!", "A longer text, with words and words.", "\u{1F600}"] {
            let vector = vectors.vector(text);
            let length: f32 = vector.iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-5, "{text}");
        }
        let places: Vec<i32> =
            vectors.vector("refund").iter().map(|x| (x * 1_000.0).round() as i32).collect();
        assert_eq!(places, [365, 730, -365, -365, 183, 0, -183, 0]);
    }

    #[tokio::test]
    async fn an_empty_text_is_an_error_that_names_it() {
        let texts = ["a".to_owned(), " ".to_owned()];
        let error = LexicalEmbedder::default().embed(&texts, Purpose::Query).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::BadRequest);
        assert!(error.message.starts_with("text 1 is empty"), "{}", error.message);
    }
}
