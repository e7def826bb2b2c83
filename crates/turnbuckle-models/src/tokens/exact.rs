//! Exact counts by OpenAI's published vocabularies.

use super::CountText;
use bpe_openai::Tokenizer;

/// Counts exactly. The vocabulary is loaded at the first count, which takes 0.2 s and 65 MB once per process; see
/// [`load`](Self::load).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExactCounter {
    /// GPT-4o and later.
    O200k,
    /// GPT-4 and GPT-3.5.
    Cl100k,
}

impl ExactCounter {
    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            ExactCounter::O200k => bpe_openai::o200k_base(),
            ExactCounter::Cl100k => bpe_openai::cl100k_base(),
        }
    }

    /// Loads the vocabulary now, for instance on a thread of its own before it is needed.
    pub fn load(self) {
        self.tokenizer();
    }
}

impl CountText for ExactCounter {
    fn key(&self) -> u64 {
        match self {
            ExactCounter::O200k => 1,
            ExactCounter::Cl100k => 2,
        }
    }

    fn count_text(&self, text: &str) -> u32 {
        u32::try_from(self.tokenizer().count(text)).unwrap_or(u32::MAX)
    }

    fn margin(&self) -> f32 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_published() {
        // "hello world" is two tokens in both vocabularies; o200k has whole words for more scripts.
        for counter in [ExactCounter::O200k, ExactCounter::Cl100k] {
            assert_eq!(counter.count_text("hello world"), 2);
            assert_eq!(counter.count_text(""), 0);
        }
        assert_eq!(ExactCounter::Cl100k.count_text("antidisestablishmentarianism"), 6);
        assert_eq!(ExactCounter::O200k.count_text("antidisestablishmentarianism"), 6);
        assert_eq!(ExactCounter::Cl100k.count_text("2 + 2 = 4"), 7);
        assert_eq!(ExactCounter::Cl100k.count_text("お誕生日おめでとう"), 9);
        assert_eq!(ExactCounter::O200k.count_text("お誕生日おめでとう"), 8);
    }
}
