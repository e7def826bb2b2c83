//! What a search looks for: the words of titles and messages, the same in every store.

use std::collections::BTreeSet;
use turnbuckle_core::message::{Message, SystemBody};

/// Longer words are cut; nobody types them whole.
const LONGEST: usize = 40;
/// So many different words of one message can be found.
const MOST: usize = 4_000;
/// So many words of a search count.
const ASKED: usize = 12;

/// The words of a text in lower case, each once. A character of a script without spaces is a word of its own.
fn words(text: &str, most: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut word = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if found.len() >= most {
            return found;
        }
        let alone = is_ideograph(c);
        if (alone || !c.is_alphanumeric()) && !word.is_empty() {
            found.insert(std::mem::take(&mut word));
        }
        if alone {
            found.insert(c.to_string());
        } else if c.is_alphanumeric() && word.chars().count() < LONGEST {
            word.push(c);
        }
    }
    if !word.is_empty() && found.len() < most {
        found.insert(word);
    }
    found
}

/// Han, Hiragana and Katakana.
const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// The words of a message that people wrote or read: what users and agents said, and notes. Not thinking, not tools.
pub(crate) fn of_message(message: &Message) -> BTreeSet<String> {
    match message {
        Message::User(message) => words(&message.content.text(), MOST),
        Message::Assistant(message) => words(&message.text(), MOST),
        Message::System(message) => match &message.body {
            SystemBody::Note { text } => words(text, MOST),
            SystemBody::Approval(_) => BTreeSet::new(),
        },
    }
}

/// What somebody looks for.
pub(crate) struct Search {
    /// The text as a title has to contain it, in lower case.
    pub(crate) title: String,
    /// The words of which each must begin one of a message; without any, no message is found.
    pub(crate) words: Vec<String>,
}

impl Search {
    pub(crate) fn of(text: &str) -> Self {
        let words = words(text, ASKED).into_iter().collect();
        Self { title: text.trim().to_lowercase(), words }
    }

    /// Whether a message is found.
    pub(crate) fn finds(&self, message: &Message) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let held = of_message(message);
        let begins = |wanted: &String| {
            held.range(wanted.clone()..).next().is_some_and(|word| word.starts_with(wanted))
        };
        self.words.iter().all(begins)
    }
}

/// A word that stands for a tenant among those of its messages, so that an index finds only its own.
pub(crate) fn of_tenant(tenant: &str) -> String {
    // FNV-1a; a collision costs a little time, since the session's tenant is compared as well.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in tenant.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("tenant0{hash:016x}0{}", "x".repeat(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_people_type() {
        let all = |text: &str| words(text, 99).into_iter().collect::<Vec<_>>();
        assert_eq!(
            all("Refunds, for PARCELS (no. 4711)!"),
            ["4711", "for", "no", "parcels", "refunds"]
        );
        assert_eq!(all("Straße an-der-Ems"), ["an", "der", "ems", "straße"]);
        assert_eq!(all("退款 order"), ["order", "款", "退"]);
        assert_eq!(all("a\u{0}b '\"*"), ["a", "b"]);
        assert_eq!(all(&"x".repeat(99)), ["x".repeat(LONGEST)]);
        assert_eq!(words("a b c d", 2).len(), 2);
    }
}
