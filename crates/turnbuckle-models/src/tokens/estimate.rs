//! Estimates for tokenizers whose vocabulary is not public.
//!
//! One pass over the bytes adds up what each kind of character run costs in byte-pair vocabularies of today, in
//! hundredths of a token. Against o200k the sum stays within [`BASE_MARGIN`] on prose, code, JSON, tables and other
//! scripts (a test holds it to that); vendors differ from o200k by a factor, which is part of each estimator.

use super::CountText;

/// How far the estimate may be off o200k, as a fraction.
pub const BASE_MARGIN: f32 = 0.25;

/// Estimates the tokens of one family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimator {
    key: u64,
    factor_percent: u64,
    margin: f32,
}

impl Estimator {
    /// Anthropic's models, whose vocabulary is smaller than o200k's.
    pub const CLAUDE: Self = Self { key: 3, factor_percent: 125, margin: 0.35 };
    /// Google's models.
    pub const GEMINI: Self = Self { key: 4, factor_percent: 105, margin: 0.30 };
    /// Models of which nothing is known.
    pub const UNKNOWN: Self = Self { key: 5, factor_percent: 110, margin: 0.35 };
}

impl CountText for Estimator {
    fn key(&self) -> u64 {
        self.key
    }

    fn count_text(&self, text: &str) -> u32 {
        let tokens = (centitokens(text) * self.factor_percent).div_ceil(100 * 100);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    fn margin(&self) -> f32 {
        self.margin
    }
}

/// The kinds of characters that tokenizers treat alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
    Space,
    Break,
    Mark,
    /// A Latin letter with an accent, by its first byte.
    Accent,
    /// Any other character, by its first byte.
    Other,
    /// The further bytes of a character.
    Inside,
}

const fn kind(byte: u8) -> Kind {
    match byte {
        b'a'..=b'z' => Kind::Lower,
        b'A'..=b'Z' => Kind::Upper,
        b'0'..=b'9' => Kind::Digit,
        b' ' | b'\t' => Kind::Space,
        b'\n' | b'\r' => Kind::Break,
        0xC3..=0xC9 => Kind::Accent,
        0xC0.. => Kind::Other,
        0x80.. => Kind::Inside,
        _ => Kind::Mark,
    }
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Mark; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::indexing_slicing, reason = "a constant, checked when it is compiled")]
        {
            kinds[byte] = kind(byte as u8);
        }
        byte += 1;
    }
    kinds
};

/// The tokens of `text` in o200k, roughly, in hundredths.
fn centitokens(text: &str) -> u64 {
    let mut total = 0_u64;
    let mut run = Kind::Break;
    let mut length = 0_u64;
    for &byte in text.as_bytes() {
        let kind = match KINDS.get(usize::from(byte)).copied().unwrap_or(Kind::Other) {
            Kind::Inside => continue,
            Kind::Accent => {
                total += ACCENT;
                Kind::Lower
            }
            Kind::Other => {
                total += lead_cost(byte);
                Kind::Other
            }
            plain => plain,
        };
        // A capital begins a word that goes on in small letters.
        let goes_on = kind == run || (run == Kind::Upper && kind == Kind::Lower && length == 1);
        if goes_on {
            run = kind;
            length += 1;
        } else {
            total += cost(run, length);
            run = kind;
            length = 1;
        }
    }
    total + cost(run, length)
}

/// What a finished run costs, in hundredths of a token.
const fn cost(run: Kind, length: u64) -> u64 {
    match run {
        Kind::Lower => match length {
            0..=7 => 100,
            more => 100 + (more - 7) * 20,
        },
        Kind::Upper => 100 + (length.saturating_sub(2)) * 35,
        Kind::Digit => length.div_ceil(3) * 100,
        // One space belongs to the word after it.
        Kind::Space => {
            if length > 1 {
                100
            } else {
                0
            }
        }
        Kind::Break => {
            if length == 0 {
                0
            } else {
                60
            }
        }
        Kind::Mark => 55 + length * 22,
        Kind::Accent | Kind::Other | Kind::Inside => 0,
    }
}

/// What an accent adds to the word it stands in.
const ACCENT: u64 = 12;

/// What a character beyond ASCII costs by its first byte: other alphabets, Asian scripts and typographic marks, pictographs.
const fn lead_cost(byte: u8) -> u64 {
    match byte {
        0xC0..=0xDF => 27,
        0xE0..=0xEF => 72,
        0xF0.. => 180,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExactCounter;
    use super::*;

    fn samples() -> Vec<(&'static str, String)> {
        let prose = "The lease runs for twelve months from the first of March. Either party may end it with \
            two months' notice in writing, but not before the sixth month, unless the roof leaks again.";
        let german = "Die Wohnungseigentümerversammlung beschließt, die Fensterrahmen im Treppenhaus zu erneuern \
            und die Kosten nach Miteigentumsanteilen zu verteilen.";
        let french = "L'assemblée générale a décidé de reporter la réunion à jeudi, car plusieurs membres étaient \
            absents et le quorum n'était pas atteint.";
        let russian = "Собрание решило перенести заседание на четверг, потому что несколько участников не смогли \
            прийти и кворума не было.";
        let chinese = "会议决定把讨论推迟到星期四,因为有几位成员没有到场,人数不足。请大家提前准备好材料,并在周三之前发给秘书。";
        let japanese = "会議は木曜日に延期されました。出席者が足りなかったためです。資料は水曜日までに送ってください。";
        let code = include_str!("estimate.rs").to_owned();
        let table = "2026-03-01 09:14:07,4471,\"Müller & Co\",1290.50,EUR,open\n".repeat(40);
        let json = serde_json::json!({"threads": (0..40).map(|i| serde_json::json!({
            "id": format!("th_{i:05}"), "subject": "Invoice overdue", "unread": i % 3 == 0,
            "participants": ["ana@example.com", "billing@example.com"], "updatedAt": 1_772_000_000 + i,
        })).collect::<Vec<_>>()});
        vec![
            ("prose", prose.repeat(5)),
            ("german", german.repeat(5)),
            ("french", french.repeat(5)),
            ("russian", russian.repeat(5)),
            ("chinese", chinese.repeat(5)),
            ("japanese", japanese.repeat(5)),
            ("code", code),
            ("table", table),
            ("compact json", json.to_string()),
            ("pretty json", format!("{json:#}")),
            (
                "markdown",
                "## Next steps\n\n- **Call** Ana about [the invoice](th:12)\n- Close `T-4471`\n\n"
                    .repeat(20),
            ),
        ]
    }

    #[test]
    fn stays_within_the_stated_margin_of_a_published_vocabulary() {
        let mut off = Vec::new();
        for (name, text) in samples() {
            let exact = f64::from(ExactCounter::O200k.count_text(&text));
            let ratio = centitokens(&text) as f64 / 100.0 / exact;
            println!("{name}: {ratio:.2}");
            if (ratio - 1.0).abs() > f64::from(BASE_MARGIN) {
                off.push((name, ratio));
            }
        }
        assert_eq!(off, []);
    }

    #[test]
    fn never_less_than_nothing_and_linear_in_length() {
        assert_eq!(Estimator::UNKNOWN.count_text(""), 0);
        let one = Estimator::CLAUDE.count_text(&"word ".repeat(1_000));
        let ten = Estimator::CLAUDE.count_text(&"word ".repeat(10_000));
        assert_eq!(ten, one * 10);
    }
}
