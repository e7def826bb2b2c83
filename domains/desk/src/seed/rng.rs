//! SplitMix64: a few lines that give the same numbers on every machine and in every version, which
//! no library promises across its releases.

/// A generator of the same numbers for the same seed, for ever.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A stream of its own per subject, so that changing one leaves the others as they are.
    pub(crate) fn new(seed: u64, subject: &str) -> Self {
        let mixed = subject.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(mixed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but not including `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number between two, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        low.saturating_add(i64::try_from(self.below(span)).unwrap_or(0))
    }

    /// True so many times of a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number between 0 and `most` that is more often small: its square root is even.
    pub(crate) fn recent(&mut self, most: i64) -> i64 {
        let part = self.between(0, 1_000_000);
        let squared = i128::from(part) * i128::from(part) * i128::from(most) / 1_000_000_000_000;
        i64::try_from(squared).unwrap_or(0)
    }

    /// One of the items; `None` when there are none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let position = self.below(u64::try_from(items.len()).unwrap_or(0));
        items.get(usize::try_from(position).unwrap_or(0))
    }

    /// One of the texts; empty when there are none.
    pub(crate) fn text(&mut self, texts: &[&'static str]) -> &'static str {
        self.pick(texts).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut rng = Rng(1_234_567);
        let numbers = [rng.next(), rng.next(), rng.next()];
        assert_eq!(numbers, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(7, "bounds");
        for _ in 0..1_000 {
            assert!((-3..=4).contains(&rng.between(-3, 4)));
            assert!((0..=90).contains(&rng.recent(90)));
        }
        assert_eq!(rng.pick::<u8>(&[]), None);
        assert_eq!(rng.below(0), 0);
    }
}
