//! Reading a message: ids, amounts, deadlines, what it is about. Plain rules, since this is no model.

use jiff::tz::TimeZone;

use crate::deadline::{self, DeadlineError};

/// Words that say nothing about the subject of a message.
const EMPTY: [&str; 70] = [
    "a", "about", "all", "an", "and", "any", "answer", "are", "at", "be", "can", "check", "could",
    "customer", "did", "do", "does", "draft", "find", "for", "from", "get", "give", "have",
    "hello", "hi", "how", "i", "in", "is", "it", "its", "last", "latest", "list", "look", "mail",
    "me", "my", "newest", "of", "on", "open", "our", "please", "reply", "respond", "search",
    "show", "tell", "that", "the", "their", "there", "thread", "threads", "them", "this", "to",
    "up", "us", "was", "we", "what", "which", "who", "with", "works", "write", "you",
];

/// The message in lower case, cut into words.
pub(super) fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether one of the words begins with one of these.
pub(super) fn mentions(text: &str, beginnings: &[&str]) -> bool {
    words(text).iter().any(|word| beginnings.iter().any(|beginning| word.starts_with(beginning)))
}

/// Whether one of the words is one of these.
pub(super) fn says(text: &str, exact: &[&str]) -> bool {
    words(text).iter().any(|word| exact.contains(&word.as_str()))
}

/// What a message is about: what stands in quotes, else its telling words, at most eight.
pub(super) fn subject(text: &str) -> Option<String> {
    if let Some(quoted) = quoted(text) {
        return Some(quoted);
    }
    let all = words(text);
    let telling: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|word| word.len() > 1 && !EMPTY.contains(word))
        .take(8)
        .collect();
    (!telling.is_empty()).then(|| telling.join(" "))
}

fn quoted(text: &str) -> Option<String> {
    for (open, close) in [('"', '"'), ('“', '”'), ('«', '»')] {
        let found = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
        if let Some((inner, _)) = found.filter(|(inner, _)| !inner.trim().is_empty()) {
            return Some(inner.trim().to_owned());
        }
    }
    None
}

/// The number after one of these words, as in `thread 12` or `thread:12`.
pub(super) fn number_after(text: &str, before: &[&str]) -> Option<String> {
    let all = words(text);
    all.windows(2).find_map(|pair| match pair {
        [word, number] if before.contains(&word.as_str()) && is_number(number) => {
            Some(number.clone())
        }
        _ => None,
    })
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// `thread:12` out of a message.
pub(super) fn thread_id(text: &str) -> Option<String> {
    number_after(text, &["thread", "threads"]).map(|number| format!("thread:{number}"))
}

/// `BR-10007` out of a message, or `order:10007` where only a number was given.
pub(super) fn order_number(text: &str) -> Option<String> {
    number_after(text, &["br"]).map(|number| format!("BR-{number}")).or_else(|| {
        number_after(text, &["order", "orders"]).map(|number| format!("order:{number}"))
    })
}

/// An amount of money: a number with decimals, or one next to a currency.
pub(super) fn amount(text: &str) -> Option<String> {
    const CURRENCIES: [&str; 7] = ["eur", "euro", "euros", "€", "usd", "$", "gbp"];
    let pieces: Vec<String> = text
        .to_lowercase()
        .replace('€', " € ")
        .replace('$', " $ ")
        .split_whitespace()
        .map(|piece| piece.trim_matches([',', '.', ';', '?', '!']).to_owned())
        .collect();
    let is_currency = |at: Option<usize>| {
        at.and_then(|at| pieces.get(at)).is_some_and(|piece| CURRENCIES.contains(&piece.as_str()))
    };
    let money = |at: usize, piece: &str| {
        let parsed = crate::query::Amount::parse(piece)?;
        let next_to = is_currency(Some(at + 1)) || is_currency(at.checked_sub(1));
        (piece.contains('.') || next_to).then(|| parsed.to_string())
    };
    pieces.iter().enumerate().find_map(|(at, piece)| money(at, piece))
}

/// A message cut into what is to be done and by when; the deadline stays in words.
pub(super) fn split_deadline(text: &str) -> (String, Option<String>) {
    let now = jiff::Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC);
    let all: Vec<&str> = text.split_whitespace().collect();
    for at in 0..all.len() {
        let phrase = all.get(at..).unwrap_or_default().join(" ");
        let phrase = phrase.trim_end_matches(['.', '!']);
        // Read against an arbitrary day: only whether it is a deadline matters here.
        let reads = match deadline::parse(phrase, &now) {
            Ok(_) | Err(DeadlineError::Past(_) | DeadlineError::TooFar(_)) => true,
            Err(_) => false,
        };
        if reads {
            let title = all.get(..at).unwrap_or_default().join(" ");
            return (title, Some(phrase.to_owned()));
        }
    }
    (text.trim().trim_end_matches(['.', '!']).to_owned(), None)
}

/// The first sentences of a text, at most about this many characters.
pub(super) fn first_sentences(text: &str, most: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    for sentence in flat.split_inclusive(". ") {
        if !out.is_empty() && out.chars().count() + sentence.chars().count() > most {
            break;
        }
        out.push_str(sentence);
    }
    let out = out.trim();
    match out.char_indices().nth(most.saturating_mul(2)) {
        Some((end, _)) => format!("{}…", out.get(..end).unwrap_or_default()),
        None => out.to_owned(),
    }
}

/// The day and the minute of a moment as the desk writes it.
pub(super) fn when(stamp: &str) -> String {
    stamp.get(..16).unwrap_or(stamp).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_the_forms_people_write() {
        assert_eq!(thread_id("Reply to thread 12, please").as_deref(), Some("thread:12"));
        assert_eq!(thread_id("see (thread:7)").as_deref(), Some("thread:7"));
        assert_eq!(thread_id("the threads of today"), None);
        assert_eq!(order_number("refund br-10007").as_deref(), Some("BR-10007"));
        assert_eq!(order_number("order #10007?").as_deref(), Some("order:10007"));
        assert_eq!(order_number("order something"), None);
    }

    #[test]
    fn amounts_are_money_and_not_numbers_of_orders() {
        assert_eq!(amount("refund 12.50 of BR-10007").as_deref(), Some("12.50"));
        assert_eq!(amount("refund €20 for it").as_deref(), Some("20.00"));
        assert_eq!(amount("give 20 euros back").as_deref(), Some("20.00"));
        assert_eq!(amount("refund order 10007"), None);
    }

    #[test]
    fn deadlines_are_found_at_the_end() {
        let split = |text: &str| split_deadline(text);
        assert_eq!(
            split("call the carrier tomorrow at 15:00."),
            ("call the carrier".into(), Some("tomorrow at 15:00".into()))
        );
        assert_eq!(
            split("check the stock in 3 days"),
            ("check the stock".into(), Some("in 3 days".into()))
        );
        assert_eq!(split("water the plants"), ("water the plants".into(), None));
    }

    #[test]
    fn a_message_is_about_its_telling_words() {
        assert_eq!(subject("Reply to \"Where is it?\" now").as_deref(), Some("Where is it?"));
        assert_eq!(subject("Please reply to the descaling thread").as_deref(), Some("descaling"));
        assert_eq!(subject("reply to the latest thread"), None);
    }
}
